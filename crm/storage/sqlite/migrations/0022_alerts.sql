-- Alerts: what users are told, in the workspace and by messages; and reminders of tasks.

CREATE TABLE alert (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL REFERENCES user (id),
    kind         TEXT NOT NULL,
    noun         TEXT,             -- of the record that it is about; null: of none
    record_id    INTEGER,
    due_at       TEXT NOT NULL,    -- from when on it is shown
    seen_at      TEXT,
    channels     TEXT NOT NULL,    -- by which it is told, or still to be: bell,email,telegram
    send_at      TEXT,             -- when it is to be sent; null: by no message, or not any more
    sent_at      TEXT,
    tries        INTEGER NOT NULL DEFAULT 0, -- that failed
    lease        TEXT,             -- of the sender that sends it, and when that ends
    leased_until TEXT,
    is_repeated  INTEGER NOT NULL DEFAULT 0 CHECK (is_repeated IN (0, 1)) -- a sender died with it
) STRICT;
CREATE INDEX alert_user ON alert (user_id, due_at);
CREATE INDEX alert_unseen ON alert (user_id, due_at) WHERE seen_at IS NULL;
CREATE INDEX alert_to_send ON alert (leased_until, send_at) WHERE send_at IS NOT NULL;
CREATE INDEX alert_reminder ON alert (record_id) WHERE kind = 'task_due';

CREATE TABLE alert_choice (
    user_id  INTEGER NOT NULL REFERENCES user (id),
    kind     TEXT NOT NULL,
    channels TEXT NOT NULL, -- of this kind for this user, others than by default
    PRIMARY KEY (user_id, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE telegram_chat (
    user_id INTEGER PRIMARY KEY REFERENCES user (id),
    chat_id TEXT NOT NULL
) STRICT;

-- One-time links connect chats, too.
ALTER TABLE one_time_link RENAME TO former_link;
CREATE TABLE one_time_link (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE, -- of the link's token
    purpose    TEXT NOT NULL
        CHECK (purpose IN ('reset', 'invite', 'handover', 'login', 'email', 'telegram')),
    user_id    INTEGER NOT NULL REFERENCES user (id),
    about      TEXT, -- what the link confirms: the new e-mail address
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    ended_at   TEXT
) STRICT;
INSERT INTO one_time_link (hash, purpose, user_id, about, created_at, expires_at, ended_at)
    SELECT hash, purpose, user_id, about, created_at, expires_at, ended_at FROM former_link
    ORDER BY id;
DROP TABLE former_link;
CREATE INDEX one_time_link_user ON one_time_link (user_id, purpose) WHERE ended_at IS NULL;
CREATE INDEX one_time_link_expires_at ON one_time_link (expires_at);

ALTER TABLE user ADD COLUMN quiet_from TEXT; -- HH:MM in the tenant's zone: no messages from then
ALTER TABLE user ADD COLUMN quiet_until TEXT;
ALTER TABLE task ADD COLUMN remind_at TEXT;

-- The users who get new leads in turn; who has the lowest turn is next.
CREATE TABLE lead_turn (
    user_id INTEGER PRIMARY KEY REFERENCES user (id),
    turn    INTEGER NOT NULL DEFAULT 0
) STRICT;
