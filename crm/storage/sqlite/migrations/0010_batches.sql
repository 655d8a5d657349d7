-- What an import, a bulk action, a merge or a restore changed, so that it can be undone.

CREATE TABLE batch (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL CHECK (kind IN ('import', 'bulk', 'merge', 'restore')),
    noun       TEXT NOT NULL,                -- singular of the resource
    state      TEXT NOT NULL
        CHECK (state IN ('running', 'done', 'failed', 'cancelled', 'undoing', 'undone')),
    created    INTEGER NOT NULL DEFAULT 0,   -- counts of records
    updated    INTEGER NOT NULL DEFAULT 0,
    deleted    INTEGER NOT NULL DEFAULT 0,
    reversed   INTEGER NOT NULL DEFAULT 0,   -- by its undo
    kept       INTEGER NOT NULL DEFAULT 0,
    note       TEXT,
    details    TEXT,                         -- JSON that the undo of its kind needs
    user_id    INTEGER REFERENCES user (id),
    key_id     INTEGER,
    undone_at  TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX batch_created_at ON batch (created_at);

CREATE TABLE batch_record (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    batch_id  INTEGER NOT NULL REFERENCES batch (id) ON DELETE CASCADE,
    noun      TEXT NOT NULL,
    record_id INTEGER NOT NULL,
    action    TEXT NOT NULL CHECK (action IN ('created', 'updated', 'deleted', 'restored')),
    version_before INTEGER NOT NULL, -- 0 of a created one
    version   INTEGER NOT NULL, -- that the batch left, or the undo of a later batch
    audit_id  INTEGER,          -- the first audit entry that the batch wrote of the record
    outcome   TEXT              -- of the undo: 'reversed', else why the record was kept
) STRICT;
CREATE UNIQUE INDEX batch_record_record ON batch_record (noun, record_id, batch_id);
CREATE INDEX batch_record_batch ON batch_record (batch_id, id);

-- Imports of many rows run in several transactions.

ALTER TABLE import_run ADD COLUMN batch_id INTEGER REFERENCES batch (id);
ALTER TABLE import_run ADD COLUMN state TEXT NOT NULL DEFAULT 'done'
    CHECK (state IN ('running', 'done', 'failed', 'cancelled'));
ALTER TABLE import_run ADD COLUMN position INTEGER NOT NULL DEFAULT 0; -- records of the file that are done
ALTER TABLE import_run ADD COLUMN total INTEGER NOT NULL DEFAULT 0;    -- records of the file
ALTER TABLE import_run ADD COLUMN lease_until TEXT;                    -- of the process that runs it
ALTER TABLE import_run ADD COLUMN options TEXT;                        -- JSON: how the file is read
CREATE INDEX import_run_running ON import_run (id) WHERE state = 'running';

-- What an import keeps until it ends: its file, and the rejected rows of each transaction.
CREATE TABLE import_part (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    import_id INTEGER NOT NULL REFERENCES import_run (id) ON DELETE CASCADE,
    kind      TEXT NOT NULL CHECK (kind IN ('file', 'rejects')),
    data      BLOB NOT NULL
) STRICT;
CREATE INDEX import_part_import ON import_part (import_id, id);

-- Which field each column of a file is, chosen once for files with the same header.
CREATE TABLE column_mapping (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    noun       TEXT NOT NULL,
    header     TEXT NOT NULL, -- JSON: the columns of the file
    name       TEXT NOT NULL,
    mapping    TEXT NOT NULL, -- JSON: {column of the file: field, or null}
    user_id    INTEGER REFERENCES user (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX column_mapping_header ON column_mapping (noun, header);
