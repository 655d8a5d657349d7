-- Where events are sent, what became of it, and what the tenant should know of it (D15).

CREATE TABLE webhook (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    url              TEXT NOT NULL,
    events           TEXT NOT NULL, -- a JSON list of kinds
    description      TEXT,
    active           INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    stopped          TEXT CHECK (stopped IN ('paused', 'gone')), -- why it isn't active, if not by hand
    secret           TEXT NOT NULL, -- as it is: a signature needs it
    old_secret       TEXT,
    old_secret_until TEXT,
    failing_since    TEXT,
    last_success_at  TEXT,
    last_failure_at  TEXT,
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL,
    version          INTEGER NOT NULL DEFAULT 1
) STRICT;

-- One event for one endpoint. Of a record's pending ones only the earliest is due, so that they
-- arrive in order: the others have no `due_at` yet. A test has no event.
CREATE TABLE delivery (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id   INTEGER NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    sequence     INTEGER REFERENCES event (sequence) ON DELETE CASCADE,
    noun         TEXT,
    record_id    INTEGER,
    test_id      TEXT, -- the event id of a test
    status       TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'held')),
    tries        INTEGER NOT NULL DEFAULT 0, -- of the schedule under way
    due_at       TEXT,
    lease        TEXT, -- the sender that is sending it now
    leased_until TEXT,
    cause        TEXT NOT NULL CHECK (cause IN ('event', 'resend', 'recover', 'test')),
    user_id      INTEGER REFERENCES user (id), -- who caused it, if not the event
    key_id       INTEGER REFERENCES api_key (id),
    created_at   TEXT NOT NULL,
    delivered_at TEXT
) STRICT;
CREATE UNIQUE INDEX delivery_sequence ON delivery (sequence, webhook_id) WHERE sequence IS NOT NULL;
CREATE INDEX delivery_webhook ON delivery (webhook_id, id);
CREATE INDEX delivery_record ON delivery (webhook_id, noun, record_id, sequence)
    WHERE status = 'pending';
CREATE INDEX delivery_due ON delivery (webhook_id, due_at, id)
    WHERE status = 'pending' AND due_at IS NOT NULL AND lease IS NULL;
CREATE INDEX delivery_leased ON delivery (webhook_id) WHERE lease IS NOT NULL;
CREATE INDEX delivery_test ON delivery (created_at) WHERE sequence IS NULL;
CREATE INDEX delivery_user ON delivery (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX delivery_key ON delivery (key_id) WHERE key_id IS NOT NULL;

CREATE TABLE attempt (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id INTEGER NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
    at          TEXT NOT NULL,
    duration_ms INTEGER NOT NULL,
    status_code INTEGER,
    error       TEXT,
    answer      TEXT, -- its first 4 kB
    cause       TEXT NOT NULL,
    user_id     INTEGER REFERENCES user (id),
    key_id      INTEGER REFERENCES api_key (id)
) STRICT;
CREATE INDEX attempt_delivery ON attempt (delivery_id, id);
CREATE INDEX attempt_user ON attempt (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX attempt_key ON attempt (key_id) WHERE key_id IS NOT NULL;

CREATE TABLE notice (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id INTEGER NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
    at         TEXT NOT NULL,
    code       TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;
CREATE INDEX notice_webhook ON notice (webhook_id, id);
