-- The ways into the web cabinet. A secret stands here as its SHA-256, never as itself.

-- A hash of the password by scrypt; null means that there is none. The language of the pages; null
-- means the browser's.
ALTER TABLE user ADD COLUMN password TEXT;
ALTER TABLE user ADD COLUMN language TEXT CHECK (language IN ('uk', 'en'));

CREATE TABLE session (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    hash         BLOB NOT NULL UNIQUE, -- of the cookie
    user_id      INTEGER NOT NULL REFERENCES user (id),
    agent        TEXT NOT NULL, -- which browser, in its own words
    created_at   TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    ended_at     TEXT
) STRICT;
CREATE INDEX session_user ON session (user_id, last_seen_at) WHERE ended_at IS NULL;
CREATE INDEX session_last_seen ON session (last_seen_at);

-- The six digits of an SMS. A row stays for a day: the waits between codes are counted from it.
CREATE TABLE code (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose    TEXT NOT NULL CHECK (purpose IN ('login', 'signup', 'phone')),
    phone      TEXT NOT NULL,
    browser    BLOB NOT NULL, -- the SHA-256 of its cookie
    salt       BLOB NOT NULL,
    hash       BLOB NOT NULL,
    tries      INTEGER NOT NULL DEFAULT 0,
    used       INTEGER NOT NULL DEFAULT 0 CHECK (used IN (0, 1)), -- it was entered right
    created_at TEXT NOT NULL,
    ended_at   TEXT
) STRICT;
CREATE INDEX code_phone ON code (phone, purpose, id);
CREATE INDEX code_created_at ON code (created_at);

CREATE TABLE link (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE, -- of the link's token
    purpose    TEXT NOT NULL CHECK (purpose IN ('reset', 'invite', 'handover', 'login', 'email')),
    user_id    INTEGER NOT NULL REFERENCES user (id),
    about      TEXT, -- what the link confirms: the new e-mail address
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    ended_at   TEXT
) STRICT;
CREATE INDEX link_user ON link (user_id, purpose) WHERE ended_at IS NULL;
CREATE INDEX link_expires_at ON link (expires_at);

-- The figures of the dashboard, each read from its index alone: leads by day and source, deals
-- under way by stage, closed deals by month.
CREATE INDEX lead_arrived ON lead (created_at, source) WHERE deleted_at IS NULL;
CREATE INDEX deal_under_way ON deal (stage_id, currency, amount)
    WHERE closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX deal_closed ON deal (closed_at, status, currency, amount)
    WHERE closed_at IS NOT NULL AND deleted_at IS NULL;
