-- Inbound hooks: addresses that other programs send to, and what they have sent.

CREATE TABLE inbound_hook (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    name                TEXT NOT NULL,
    target              TEXT NOT NULL CHECK (target IN ('lead', 'deal', 'note', 'call')),
    mapping             TEXT, -- JSON: {path in a body: field}
    defaults            TEXT, -- JSON: {field: its text where a body has none}
    id_path             TEXT, -- where a body has the sender's id of what it is about
    known               TEXT NOT NULL DEFAULT 'skip' CHECK (known IN ('skip', 'update')),
    signature_header    TEXT,
    signature_algorithm TEXT NOT NULL DEFAULT 'sha256',
    signature_secret    TEXT,
    active              INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    user_id             INTEGER NOT NULL REFERENCES user (id), -- in whose name records are made
    token_seed          TEXT NOT NULL, -- of which the installation's key makes the token
    token_hash          TEXT NOT NULL UNIQUE, -- SHA-256
    created_at          TEXT NOT NULL,
    updated_at          TEXT NOT NULL,
    version             INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TABLE inbound_call (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hook_id    INTEGER NOT NULL REFERENCES inbound_hook (id) ON DELETE CASCADE,
    state      TEXT NOT NULL CHECK (state IN ('done', 'failed')),
    body       TEXT NOT NULL,
    sender_id  TEXT,    -- what id_path names
    resource   TEXT,    -- plural, of the record made of it
    record_id  INTEGER,
    reasons    TEXT,    -- JSON: [{field, code, detail}], why there is no record
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX inbound_call_hook ON inbound_call (hook_id, id);
CREATE INDEX inbound_call_state ON inbound_call (state, hook_id);
CREATE INDEX inbound_call_sender ON inbound_call (hook_id, sender_id);
CREATE INDEX inbound_call_created_at ON inbound_call (created_at);
CREATE INDEX inbound_call_updated_at ON inbound_call (updated_at);
