CREATE TABLE supplier (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    phone       TEXT,
    email       TEXT,
    external_id TEXT,
    extra       TEXT,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    version     INTEGER NOT NULL DEFAULT 1,
    deleted_at  TEXT,
    search_text TEXT
) STRICT;
CREATE UNIQUE INDEX supplier_external_id ON supplier (external_id)
    WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX supplier_name ON supplier (name, id, deleted_at);
CREATE INDEX supplier_created_at ON supplier (created_at, id, deleted_at);
CREATE INDEX supplier_updated_at ON supplier (updated_at, id, created_at, deleted_at);
CREATE INDEX supplier_deleted_at ON supplier (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE VIRTUAL TABLE supplier_search USING fts5 (search_text, content = 'supplier',
    content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
