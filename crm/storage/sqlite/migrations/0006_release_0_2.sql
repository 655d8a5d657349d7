-- From release 0.1.0 to 0.2.0. Files of versions in between, of which none was released, have no
-- application_id and are refused.

PRAGMA application_id = 4411981; -- "CRM" in bytes


-- Tables and columns are named after what they hold.

ALTER TABLE price_import RENAME TO import_run; -- of any noun since 0004
ALTER TABLE answer RENAME TO idempotency_response;
ALTER TABLE change RENAME TO audit_entry;
ALTER TABLE code RENAME TO sms_code;
DROP INDEX answer_created_at;
DROP INDEX change_record;
DROP INDEX code_phone;
DROP INDEX code_created_at;
CREATE INDEX idempotency_response_created_at ON idempotency_response (created_at);
CREATE INDEX audit_entry_record ON audit_entry (noun, record_id, id);
CREATE INDEX sms_code_phone ON sms_code (phone, purpose, id);
CREATE INDEX sms_code_created_at ON sms_code (created_at);

-- One-time links connect chats, too.
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
INSERT INTO one_time_link (id, hash, purpose, user_id, about, created_at, expires_at, ended_at)
    SELECT id, hash, purpose, user_id, about, created_at, expires_at, ended_at FROM link;
DROP TABLE link;
CREATE INDEX one_time_link_user ON one_time_link (user_id, purpose) WHERE ended_at IS NULL;
CREATE INDEX one_time_link_expires_at ON one_time_link (expires_at);

DROP TRIGGER tenant_mark;
ALTER TABLE tenant RENAME COLUMN mark TO instance_id;
CREATE TRIGGER tenant_instance_id AFTER INSERT ON tenant
BEGIN
    UPDATE tenant SET instance_id = lower(hex(randomblob(4)));
END;

-- Sources and categories have one spelling each, the first one (crm/records/words.py).

CREATE TABLE word (
    vocabulary TEXT NOT NULL,
    word_key   TEXT NOT NULL,
    text       TEXT NOT NULL,
    PRIMARY KEY (vocabulary, word_key)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO word
    SELECT 'source', fold(source), source FROM lead WHERE source IS NOT NULL ORDER BY id;
INSERT OR IGNORE INTO word
    SELECT 'source', fold(source), source FROM client WHERE source IS NOT NULL ORDER BY id;
INSERT OR IGNORE INTO word
    SELECT 'source', fold(source), source FROM deal WHERE source IS NOT NULL ORDER BY id;
INSERT OR IGNORE INTO word
    SELECT 'category', fold(category), category FROM product WHERE category IS NOT NULL ORDER BY id;
UPDATE lead SET source = text FROM word
    WHERE vocabulary = 'source' AND word_key = fold(source) AND text <> source;
UPDATE client SET source = text FROM word
    WHERE vocabulary = 'source' AND word_key = fold(source) AND text <> source;
UPDATE deal SET source = text FROM word
    WHERE vocabulary = 'source' AND word_key = fold(source) AND text <> source;
UPDATE product SET category = text FROM word
    WHERE vocabulary = 'category' AND word_key = fold(category) AND text <> category;

-- Keys by which names sort as people sort them; sort_key() is that of crm/values/folding.py, too.

ALTER TABLE user ADD COLUMN sort_key TEXT NOT NULL DEFAULT '';
ALTER TABLE lead ADD COLUMN sort_key TEXT NOT NULL DEFAULT '';
ALTER TABLE client ADD COLUMN sort_key TEXT NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN sort_key TEXT NOT NULL DEFAULT '';
ALTER TABLE product ADD COLUMN sort_key TEXT NOT NULL DEFAULT '';
UPDATE user SET sort_key = sort_key(name);
UPDATE lead SET sort_key = sort_key(name);
UPDATE client SET sort_key = sort_key(name);
UPDATE contact SET sort_key = sort_key(name);
UPDATE product SET sort_key = sort_key(name);

-- FTS5 reads a column of its content table by the name of its own column and cannot rename either,
-- so the indexes are made anew. Rows without a text (deleted ones) are not in them.

-- More fields are searched; fold() is that of crm/values/folding.py, too. Deleted rows have no text.

DROP TABLE lead_search;
ALTER TABLE lead RENAME COLUMN folded TO search_text;
UPDATE lead SET search_text = fold(name, phone, email, company, comment, external_id)
    WHERE search_text IS NOT NULL;
CREATE VIRTUAL TABLE lead_search USING fts5 (search_text, content = 'lead', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO lead_search (rowid, search_text)
    SELECT id, search_text FROM lead WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE client_search;
ALTER TABLE client RENAME COLUMN folded TO search_text;
UPDATE client SET search_text = fold(
    name, phone, email, website, address, tax_number, tags, external_id,
    (SELECT group_concat(fold(contact.name, contact.phone, contact.email), ' ')
        FROM contact WHERE contact.client_id = client.id)
) WHERE search_text IS NOT NULL;
CREATE VIRTUAL TABLE client_search USING fts5 (search_text, content = 'client',
    content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO client_search (rowid, search_text)
    SELECT id, search_text FROM client WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE deal_search;
ALTER TABLE deal RENAME COLUMN folded TO search_text;
UPDATE deal SET search_text = fold(title, client_name, comment, external_id)
    WHERE search_text IS NOT NULL;
CREATE VIRTUAL TABLE deal_search USING fts5 (search_text, content = 'deal', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO deal_search (rowid, search_text)
    SELECT id, search_text FROM deal WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE product_search;
ALTER TABLE product RENAME COLUMN folded TO search_text;
UPDATE product SET search_text = fold(sku, name, category, description, external_id)
    WHERE search_text IS NOT NULL;
CREATE VIRTUAL TABLE product_search USING fts5 (search_text, content = 'product',
    content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO product_search (rowid, search_text)
    SELECT id, search_text FROM product WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE task_search;
ALTER TABLE task RENAME COLUMN folded TO search_text;
UPDATE task SET search_text = fold(title, description, external_id)
    WHERE search_text IS NOT NULL;
CREATE VIRTUAL TABLE task_search USING fts5 (search_text, content = 'task', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO task_search (rowid, search_text)
    SELECT id, search_text FROM task WHERE search_text IS NOT NULL ORDER BY id;

-- The id of the last row in a table's search index: new rows are added to it many at a time.
CREATE TABLE search_progress (
    table_name      TEXT PRIMARY KEY,
    last_indexed_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO search_progress (table_name, last_indexed_id) VALUES
    ('lead', (SELECT coalesce(max(id), 0) FROM lead)),
    ('client', (SELECT coalesce(max(id), 0) FROM client)),
    ('deal', (SELECT coalesce(max(id), 0) FROM deal)),
    ('product', (SELECT coalesce(max(id), 0) FROM product)),
    ('task', (SELECT coalesce(max(id), 0) FROM task));


-- Columns

-- Whether a tenant is for trying things out: one of the demo, or a clone. Only there commands may
-- make records that nobody asked for.
ALTER TABLE tenant ADD COLUMN is_trial INTEGER NOT NULL DEFAULT 0 CHECK (is_trial IN (0, 1));
ALTER TABLE tenant ADD COLUMN sellers_see_unassigned INTEGER NOT NULL DEFAULT 0
    CHECK (sellers_see_unassigned IN (0, 1));

ALTER TABLE user ADD COLUMN quiet_from TEXT; -- HH:MM in the tenant's zone: no messages from then
ALTER TABLE user ADD COLUMN quiet_until TEXT;
-- The role seller, whose users see their own records only: those assigned to or made by them.
ALTER TABLE user ADD COLUMN new_role TEXT NOT NULL DEFAULT 'manager'
    CHECK (new_role IN ('owner', 'manager', 'seller', 'viewer'));
UPDATE user SET new_role = role;
ALTER TABLE user DROP COLUMN role;
ALTER TABLE user RENAME COLUMN new_role TO role;
-- When the user's access ended last; null of who never had any, such as a colleague in a file.
ALTER TABLE user ADD COLUMN deactivated_at TEXT;
UPDATE user SET deactivated_at = updated_at WHERE active = 0;
UPDATE api_key SET revoked_at = (SELECT updated_at FROM user WHERE user.id = user_id)
    WHERE revoked_at IS NULL AND user_id IN (SELECT id FROM user WHERE active = 0);
-- The hash of the token in the private address of a user's calendar.
ALTER TABLE user ADD COLUMN calendar_hash BLOB;
CREATE UNIQUE INDEX user_calendar_hash ON user (calendar_hash) WHERE calendar_hash IS NOT NULL;

-- The source that leads of a website form have; null for a key that was made before, or for no form.
ALTER TABLE api_key ADD COLUMN source TEXT;
ALTER TABLE api_key ADD COLUMN preset TEXT CHECK (preset IN ('assistant'));
-- Keys by OAuth: the code or the refresh token of each, what it is for, and when the grant ends.
ALTER TABLE api_key ADD COLUMN grant_hash BLOB;
ALTER TABLE api_key ADD COLUMN grant_token_hash BLOB;
ALTER TABLE api_key ADD COLUMN grant_purpose BLOB;
ALTER TABLE api_key ADD COLUMN grant_ends_at TEXT;
CREATE UNIQUE INDEX api_key_grant ON api_key (grant_hash) WHERE grant_hash IS NOT NULL;
ALTER TABLE api_key ADD COLUMN own INTEGER NOT NULL DEFAULT 0 CHECK (own IN (0, 1));
-- An export link is an API key for one export and nothing else. It ends with the key that made it.
ALTER TABLE api_key ADD COLUMN export TEXT;      -- JSON {resource, filters}; null: an ordinary key
ALTER TABLE api_key ADD COLUMN made_by INTEGER;  -- the id of a key; null: a user
-- What a website form may send of the tenant's own fields: JSON ["custom.<key>"].
ALTER TABLE api_key ADD COLUMN form_fields TEXT;

-- E-mail addresses are compared as lower(email), as other engines can.
DROP INDEX user_email;
DROP INDEX lead_email;
DROP INDEX client_email;
DROP INDEX contact_email;
CREATE UNIQUE INDEX user_email ON user (lower(email)) WHERE lower(email) IS NOT NULL;
-- What several records share is read from these indexes alone, for which the column is in them, too.
DROP INDEX contact_phone;
CREATE INDEX lead_email ON lead (lower(email), email) WHERE lower(email) IS NOT NULL;
CREATE INDEX client_email ON client (lower(email), email) WHERE lower(email) IS NOT NULL;
CREATE INDEX contact_email ON contact (lower(email), email, client_id)
    WHERE lower(email) IS NOT NULL;
CREATE INDEX contact_phone ON contact (phone, client_id) WHERE phone IS NOT NULL;

-- Why deals of a pipeline are lost, as a JSON list of texts to choose from; null when it is empty.
ALTER TABLE pipeline ADD COLUMN lost_reasons TEXT;

-- Who made a record; leads have it. The first move of a deal is that of whoever made it.
ALTER TABLE client ADD COLUMN created_by INTEGER REFERENCES user (id);
ALTER TABLE deal ADD COLUMN created_by INTEGER REFERENCES user (id);
UPDATE deal SET created_by = (SELECT user_id FROM stage_move
    WHERE stage_move.deal_id = deal.id ORDER BY stage_move.id LIMIT 1);

-- The task that a deal gets when it comes to the stage.
ALTER TABLE stage ADD COLUMN task_title TEXT;
ALTER TABLE stage ADD COLUMN task_type TEXT CHECK (task_type IN ('call', 'meeting', 'email'));
ALTER TABLE stage ADD COLUMN task_within_days INTEGER;

ALTER TABLE note ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
ALTER TABLE note ADD COLUMN former_texts TEXT; -- JSON
CREATE INDEX note_pinned ON note (noun, record_id) WHERE pinned = 1;

ALTER TABLE task ADD COLUMN duration_seconds INTEGER; -- of calls
ALTER TABLE task ADD COLUMN remind_at TEXT;
ALTER TABLE task ADD COLUMN repeat TEXT; -- a rule of iCalendar
ALTER TABLE task ADD COLUMN next_task_id INTEGER; -- that it made when it was done
ALTER TABLE task ADD COLUMN created_by INTEGER REFERENCES user (id);

-- How long the deal had been in from_stage_id when it left it by this move, and whether it had left
-- it before: a report counts each deal once without sorting.
ALTER TABLE stage_move ADD COLUMN stayed_seconds INTEGER;
ALTER TABLE stage_move ADD COLUMN left_again INTEGER NOT NULL DEFAULT 0 CHECK (left_again IN (0, 1));
UPDATE stage_move SET stayed_seconds = (
    SELECT CAST(round((julianday(stage_move.moved_at) - julianday(previous.moved_at)) * 86400) AS BIGINT)
    FROM stage_move AS previous
    WHERE previous.deal_id = stage_move.deal_id AND previous.id < stage_move.id
    ORDER BY previous.id DESC LIMIT 1
);
UPDATE stage_move SET stayed_seconds = 0 WHERE stayed_seconds < 0;
UPDATE stage_move SET left_again = 1 WHERE EXISTS (
    SELECT 1 FROM stage_move AS former
    WHERE former.deal_id = stage_move.deal_id AND former.from_stage_id = stage_move.from_stage_id
        AND former.id < stage_move.id
);

ALTER TABLE audit_entry ADD COLUMN tool TEXT; -- by which an assistant changed the record


-- What an import, a bulk action, a merge or a restore changed, so that it can be undone.

CREATE TABLE batch (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL CHECK (kind IN ('import', 'bulk', 'merge', 'restore', 'field')),
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
    version    INTEGER NOT NULL DEFAULT 1,
    lease_until TEXT                        -- of the process that works at it, with a random part
) STRICT;
CREATE INDEX batch_created_at ON batch (created_at);
CREATE INDEX batch_state ON batch (state, id);

CREATE TABLE batch_record (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    batch_id       INTEGER NOT NULL REFERENCES batch (id) ON DELETE CASCADE,
    noun           TEXT NOT NULL,
    record_id      INTEGER NOT NULL,
    action         TEXT NOT NULL CHECK (action IN ('created', 'updated', 'deleted', 'restored')),
    version_before INTEGER NOT NULL, -- 0 of a created one
    version        INTEGER NOT NULL, -- that the batch left, or the undo of a later batch
    audit_id       INTEGER,          -- the first audit entry that the batch wrote of the record
    outcome        TEXT              -- of the undo: 'reversed', else why the record was kept
) STRICT;
CREATE UNIQUE INDEX batch_record_record ON batch_record (noun, record_id, batch_id);
CREATE INDEX batch_record_batch ON batch_record (batch_id, id);

-- Imports of many rows run in several transactions.

ALTER TABLE import_run ADD COLUMN batch_id INTEGER REFERENCES batch (id);
ALTER TABLE import_run ADD COLUMN state TEXT NOT NULL DEFAULT 'done'
    CHECK (state IN ('running', 'done', 'failed', 'cancelled'));
ALTER TABLE import_run ADD COLUMN position INTEGER NOT NULL DEFAULT 0; -- records of the file that are done
ALTER TABLE import_run ADD COLUMN total INTEGER NOT NULL DEFAULT 0;    -- records of the file
ALTER TABLE import_run ADD COLUMN hidden_rows INTEGER NOT NULL DEFAULT 0; -- of a workbook, left out
ALTER TABLE import_run ADD COLUMN left_out_columns TEXT NOT NULL DEFAULT '[]'; -- their names
CREATE INDEX import_run_batch ON import_run (batch_id);

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


-- Saved views of lists, and the tags that more lists are filtered by.

CREATE TABLE saved_view (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES user (id),
    resource   TEXT NOT NULL, -- plural, as in paths
    name       TEXT NOT NULL,
    query      TEXT,          -- JSON: {parameter of the list: a text or several}
    columns    TEXT,          -- JSON: the columns shown, null for the usual ones
    shared     INTEGER NOT NULL DEFAULT 0 CHECK (shared IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX saved_view_name ON saved_view (user_id, resource, name);

UPDATE OR REPLACE client_tag SET tag = fold(tag);

CREATE TABLE lead_tag (
    tag     TEXT NOT NULL,
    lead_id INTEGER NOT NULL REFERENCES lead (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, lead_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX lead_tag_lead ON lead_tag (lead_id);
INSERT INTO lead_tag (tag, lead_id)
    SELECT DISTINCT fold(tag.value), lead.id FROM lead, json_each(lead.tags) AS tag;

CREATE TABLE deal_tag (
    tag     TEXT NOT NULL,
    deal_id INTEGER NOT NULL REFERENCES deal (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, deal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deal_tag_deal ON deal_tag (deal_id);
INSERT INTO deal_tag (tag, deal_id)
    SELECT DISTINCT fold(tag.value), deal.id FROM deal, json_each(deal.tags) AS tag;


-- The logo of the company.
CREATE TABLE logo (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    content_type TEXT NOT NULL,
    digest       TEXT NOT NULL, -- in the address, which may be cached for good
    data         BLOB NOT NULL
) STRICT;

-- Changes of several records that an assistant proposes and a person decides on.
CREATE TABLE proposal (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    resource   TEXT NOT NULL, -- plural, as in paths
    state      TEXT NOT NULL CHECK (state IN ('open', 'applied', 'declined')),
    change     TEXT NOT NULL, -- JSON: the body of a bulk change
    why        TEXT NOT NULL,
    count      INTEGER NOT NULL,
    refused    INTEGER NOT NULL,
    user_id    INTEGER REFERENCES user (id),
    key_id     INTEGER REFERENCES api_key (id),
    decided_by INTEGER REFERENCES user (id),
    decided_at TEXT,
    batch_id   INTEGER REFERENCES batch (id),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX proposal_state ON proposal (state, id);


-- Inbound hooks: addresses that other programs send to, and what they have sent.

CREATE TABLE inbound_hook (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    name                TEXT NOT NULL,
    target              TEXT NOT NULL CHECK (target IN ('lead', 'deal', 'note', 'call', 'payment')),
    mapping             TEXT, -- JSON: {path in a body: field}
    defaults            TEXT, -- JSON: {field: its text where a body has none}
    id_path             TEXT, -- where a body has the sender's id of what it is about
    known               TEXT NOT NULL DEFAULT 'skip' CHECK (known IN ('skip', 'update')),
    signature_header    TEXT,
    signature_algorithm TEXT NOT NULL DEFAULT 'sha256',
    signature_secret    TEXT,
    takes_files         INTEGER NOT NULL DEFAULT 0 CHECK (takes_files IN (0, 1)),
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
CREATE INDEX alert_unseen ON alert (user_id, due_at, noun, record_id) WHERE seen_at IS NULL;
CREATE INDEX alert_to_send ON alert (leased_until, send_at) WHERE send_at IS NOT NULL;
CREATE INDEX alert_to_send_user ON alert (user_id, send_at) WHERE send_at IS NOT NULL;
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

-- The users who get new leads in turn; who has the lowest turn is next.
CREATE TABLE lead_turn (
    user_id INTEGER PRIMARY KEY REFERENCES user (id),
    turn    INTEGER NOT NULL DEFAULT 0
) STRICT;


-- How often rows of a table were changed or deleted. Where nothing but new rows came, the number of a
-- list's records is the one counted before and that of the new ones.

CREATE TABLE row_changes (
    table_name TEXT PRIMARY KEY,
    count      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO row_changes (table_name, count)
    VALUES ('lead', 0), ('client', 0), ('deal', 0), ('product', 0), ('task', 0);
CREATE TRIGGER lead_updated AFTER UPDATE ON lead
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'lead';
END;
CREATE TRIGGER lead_deleted AFTER DELETE ON lead
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'lead';
END;
CREATE TRIGGER client_updated AFTER UPDATE ON client
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'client';
END;
CREATE TRIGGER client_deleted AFTER DELETE ON client
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'client';
END;
CREATE TRIGGER deal_updated AFTER UPDATE ON deal
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'deal';
END;
CREATE TRIGGER deal_deleted AFTER DELETE ON deal
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'deal';
END;
CREATE TRIGGER product_updated AFTER UPDATE ON product
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'product';
END;
CREATE TRIGGER product_deleted AFTER DELETE ON product
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'product';
END;
CREATE TRIGGER task_updated AFTER UPDATE ON task
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'task';
END;
CREATE TRIGGER task_deleted AFTER DELETE ON task
BEGIN
    UPDATE row_changes SET count = count + 1 WHERE table_name = 'task';
END;


-- Indexes of lists: one for each order, with the columns of all filters by equality, so that they
-- are checked without reading the row; records/list_plans.py says how lists are read. Named
-- <table>_<order>. Deleted rows are in them for `include_deleted`. What was created since a time is
-- found in the order of the last changes too.

DROP INDEX lead_name;
DROP INDEX lead_created_at;
DROP INDEX lead_updated_at;
DROP INDEX lead_arrived; -- lead_created_at tells as much
CREATE INDEX lead_name ON lead (sort_key, id, status, source, assigned_to, deleted_at);
CREATE INDEX lead_amount ON lead (coalesce(amount, -1), id,
    status, source, assigned_to, deleted_at);
CREATE INDEX lead_created_at ON lead (created_at, id, status, source, assigned_to, deleted_at,
    created_by);
CREATE INDEX lead_updated_at ON lead (updated_at, id,
    status, source, assigned_to, created_at, deleted_at);
-- Records of one user, among them those of each status.
DROP INDEX lead_assigned_to;
CREATE INDEX lead_assigned_to ON lead (assigned_to, id, status, source, lost_reason, created_by,
    deleted_at)
    WHERE deleted_at IS NULL;
CREATE INDEX lead_created_by ON lead (created_by, id, assigned_to, status, source, lost_reason,
    deleted_at)
    WHERE deleted_at IS NULL;
-- Also the open ones of one user.
DROP INDEX lead_status;
CREATE INDEX lead_status ON lead (status, id, assigned_to, created_by, deleted_at)
    WHERE deleted_at IS NULL;

DROP INDEX client_name;
DROP INDEX client_created_at;
DROP INDEX client_updated_at;
CREATE INDEX client_name ON client (sort_key, id, type, assigned_to, deleted_at);
CREATE INDEX client_created_at ON client (created_at, id, type, assigned_to, deleted_at);
CREATE INDEX client_updated_at ON client (updated_at, id,
    type, assigned_to, created_at, deleted_at);
CREATE INDEX client_tax_number ON client (tax_number) WHERE tax_number IS NOT NULL;
CREATE INDEX client_created_by ON client (created_by, id, assigned_to, source, deleted_at)
    WHERE deleted_at IS NULL;

-- Some of deals and tasks have what reports read of the records of a period, too.
DROP INDEX deal_amount;
DROP INDEX deal_expected;
DROP INDEX deal_created_at;
DROP INDEX deal_updated_at;
DROP INDEX deal_closed;
DROP INDEX deal_under_way;
CREATE INDEX deal_amount ON deal (coalesce(amount, -1), id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at);
CREATE INDEX deal_expected_close_date ON deal (coalesce(expected_close_date, '9999'), id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at);
CREATE INDEX deal_created_at ON deal (created_at, id, pipeline_id, stage_id, status, assigned_to,
    client_id, deleted_at, currency, amount, created_by);
CREATE INDEX deal_updated_at ON deal (updated_at, id,
    pipeline_id, stage_id, status, assigned_to, client_id, created_at, deleted_at);
CREATE INDEX deal_closed ON deal (closed_at, status, currency, amount, assigned_to, pipeline_id,
    source, lost_reason, deleted_at, created_by)
    WHERE closed_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX deal_under_way ON deal (coalesce(expected_close_date, '9999'), id, stage_id, currency,
    amount, expected_close_date, status, assigned_to, pipeline_id, closed_at, deleted_at, created_by)
    WHERE closed_at IS NULL AND deleted_at IS NULL;
DROP INDEX deal_assigned_to;
CREATE INDEX deal_assigned_to ON deal (assigned_to, id, status, source, lost_reason, created_by,
    deleted_at)
    WHERE deleted_at IS NULL;
CREATE INDEX deal_created_by ON deal (created_by, id, assigned_to, status, source, lost_reason,
    deleted_at)
    WHERE deleted_at IS NULL;

-- The columns of the board, and the deals and tasks that wait for a user.
CREATE INDEX deal_board ON deal (pipeline_id, stage_id, status, currency, amount, assigned_to,
    created_by, deleted_at, expected_close_date);
CREATE INDEX deal_newest
    ON deal (stage_id, stage_changed_at, id, assigned_to, created_by, expected_close_date)
    WHERE status = 'open' AND deleted_at IS NULL;
CREATE INDEX deal_waiting ON deal (stage_changed_at, id, assigned_to, created_by)
    WHERE closed_at IS NULL AND deleted_at IS NULL;
CREATE INDEX task_waiting ON task (assigned_to, coalesce(due_at, '9999'), id, lead_id, client_id,
    deal_id)
    WHERE status IN ('open', 'in_progress') AND deleted_at IS NULL;

DROP INDEX product_name;
DROP INDEX product_category;
DROP INDEX product_updated_at;
CREATE INDEX product_name ON product (sort_key, id, category, active, deleted_at);
CREATE INDEX product_category ON product (category, id) WHERE deleted_at IS NULL;
CREATE INDEX product_created_at ON product (created_at, id, category, active, deleted_at);
CREATE INDEX product_updated_at ON product (updated_at, id,
    category, active, created_at, deleted_at);

DROP INDEX task_due;
DROP INDEX task_created_at;
DROP INDEX task_updated_at;
CREATE INDEX task_due_at ON task (coalesce(due_at, '9999'), id,
    status, type, assigned_to, deleted_at);
CREATE INDEX task_created_at ON task (created_at, id, status, type, assigned_to, deleted_at);
CREATE INDEX task_updated_at ON task (updated_at, id,
    status, type, assigned_to, created_at, deleted_at);
CREATE INDEX task_completed_at ON task (completed_at, type, assigned_to, status, duration_seconds,
    deleted_at, created_by)
    WHERE completed_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX task_created_by ON task (created_by, id, assigned_to, status)
    WHERE deleted_at IS NULL;

-- Clients and deals are erased 30 days after their deletion: who refers to one is looked up.
CREATE INDEX client_deleted_at ON client (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX deal_deleted_at ON deal (deleted_at) WHERE deleted_at IS NOT NULL;
DROP INDEX deal_client;
CREATE INDEX deal_client ON deal (client_id, status, currency, amount, deleted_at)
    WHERE client_id IS NOT NULL;

-- Timelines read the newest notes, changes, tasks and moves of a record, reports the moves of deals.
CREATE INDEX note_time ON note (noun, record_id, created_at, id);
CREATE INDEX audit_entry_time ON audit_entry (noun, record_id, at, id);
DROP INDEX task_lead;
DROP INDEX task_client;
DROP INDEX task_deal;
CREATE INDEX task_lead_time ON task (lead_id, coalesce(completed_at, created_at), id) WHERE lead_id IS NOT NULL;
CREATE INDEX task_client_time ON task (client_id, coalesce(completed_at, created_at), id) WHERE client_id IS NOT NULL;
CREATE INDEX task_deal_time ON task (deal_id, coalesce(completed_at, created_at), id) WHERE deal_id IS NOT NULL;
DROP INDEX stage_move_deal;
CREATE INDEX stage_move_deal ON stage_move (deal_id, id, from_stage_id, to_stage_id, stayed_seconds,
    left_again);
CREATE INDEX stage_move_time ON stage_move (deal_id, moved_at, id);

-- The log of an endpoint, also of one status.
DROP INDEX delivery_webhook;
CREATE INDEX delivery_webhook ON delivery (webhook_id, id, status);

-- Read by nothing: users and API keys are never deleted for good.
DROP INDEX delivery_user;
DROP INDEX delivery_key;
DROP INDEX attempt_user;
DROP INDEX attempt_key;

-- The values that forms propose are looked up one after the other. To those who see their own records
-- only they propose those of their newest ones.
DROP INDEX client_assigned_to;
CREATE INDEX client_assigned_to ON client (assigned_to, id, source, created_by, deleted_at)
    WHERE deleted_at IS NULL;
CREATE INDEX lead_lost_reason ON lead (lost_reason)
    WHERE lost_reason IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX client_source ON client (source) WHERE source IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX deal_source ON deal (source) WHERE source IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX deal_lost_reason ON deal (lost_reason)
    WHERE lost_reason IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX product_unit ON product (unit) WHERE unit IS NOT NULL AND deleted_at IS NULL;

-- Events of one kind, and those of a person's records.
CREATE INDEX event_type ON event (type, sequence);
CREATE INDEX event_record ON event (noun, record_id);

-- Fields that a tenant adds to its records (crm/records/custom/fields.py). A record has their values
-- as one JSON object; those that lists are filtered by stand in a table of texts or one of numbers,
-- too. So all tenants have the same tables. resource: the plural, such as 'leads'. pending_from: the
-- last record whose values are found as the field now says; null if those of all are.

CREATE TABLE custom_field (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    resource              TEXT NOT NULL,
    key                   TEXT NOT NULL,
    label                 TEXT NOT NULL,
    help                  TEXT,
    type                  TEXT NOT NULL,
    options               TEXT,
    filtered              INTEGER NOT NULL DEFAULT 0 CHECK (filtered IN (0, 1)),
    searched              INTEGER NOT NULL DEFAULT 0 CHECK (searched IN (0, 1)),
    in_form               INTEGER NOT NULL DEFAULT 1 CHECK (in_form IN (0, 1)),
    in_list               INTEGER NOT NULL DEFAULT 0 CHECK (in_list IN (0, 1)),
    in_card               INTEGER NOT NULL DEFAULT 1 CHECK (in_card IN (0, 1)),
    required_in_workspace INTEGER NOT NULL DEFAULT 0 CHECK (required_in_workspace IN (0, 1)),
    position              INTEGER NOT NULL,
    pending_from          INTEGER,
    retired_at            TEXT,
    deleted_at            TEXT,
    created_at            TEXT NOT NULL,
    updated_at            TEXT NOT NULL,
    version               INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX custom_field_resource ON custom_field (resource, key);

CREATE TABLE custom_text (
    field_id  INTEGER NOT NULL REFERENCES custom_field (id) ON DELETE CASCADE,
    record_id INTEGER NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (record_id, field_id, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_text_value ON custom_text (field_id, value, record_id);
CREATE TABLE custom_number (
    field_id  INTEGER NOT NULL REFERENCES custom_field (id) ON DELETE CASCADE,
    record_id INTEGER NOT NULL,
    value     INTEGER NOT NULL,
    PRIMARY KEY (record_id, field_id, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_number_value ON custom_number (field_id, value, record_id);

-- A name for the rows of custom_field, another one after each change of them: a process that knows
-- it need not read them.
ALTER TABLE tenant ADD COLUMN fields_digest TEXT;
ALTER TABLE lead ADD COLUMN custom TEXT;
ALTER TABLE client ADD COLUMN custom TEXT;
ALTER TABLE deal ADD COLUMN custom TEXT;
ALTER TABLE product ADD COLUMN custom TEXT;
ALTER TABLE task ADD COLUMN custom TEXT;

-- Files on records, and the one picture of a product (crm/resources/files/record.py).
CREATE TABLE file (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    noun         TEXT NOT NULL,
    record_id    INTEGER NOT NULL,
    name         TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size         INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    user_id      INTEGER,
    search_text  TEXT NOT NULL,
    deleted_at   TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    version      INTEGER NOT NULL
) STRICT;
CREATE INDEX file_record ON file (noun, record_id, created_at, id);
CREATE INDEX file_sha256 ON file (sha256);
CREATE INDEX file_deleted_at ON file (deleted_at) WHERE deleted_at IS NOT NULL;
ALTER TABLE product ADD COLUMN picture_id INTEGER;

-- What files and papers contain, each content once, in chunks (crm/storage/contents.py). A content
-- without a sha256 is not complete yet. Of a tenant in a file both tables are in another file,
-- <label>.files.db, and empty here: only the archive of the tenant has them filled.
CREATE TABLE file_content (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    sha256       TEXT UNIQUE,
    size         INTEGER NOT NULL,
    stored_at    TEXT NOT NULL,
    unused_since TEXT
) STRICT;
CREATE TABLE file_chunk (
    content_id INTEGER NOT NULL REFERENCES file_content (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (content_id, number)
) STRICT;

-- Papers: offers, invoices, acts and delivery notes of deals (crm/resources/papers/record.py). They
-- outlive their deal and client. snapshot: all that the paper shows, as JSON. sha256: of its PDF,
-- null until that was made. paid_at: a date.
CREATE TABLE paper (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    deal_id     INTEGER NOT NULL,
    client_id   INTEGER,
    kind        TEXT NOT NULL,
    language    TEXT NOT NULL,
    date        TEXT NOT NULL,
    year        INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    number      TEXT NOT NULL,
    client_name TEXT,
    amount      INTEGER NOT NULL,
    vat_amount  INTEGER,
    currency    TEXT NOT NULL,
    sha256      TEXT,
    user_id     INTEGER,
    voided_at   TEXT,
    paid_at     TEXT,
    paid_amount INTEGER,
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    version     INTEGER NOT NULL,
    snapshot    TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX paper_sequence ON paper (kind, year, sequence);
CREATE INDEX paper_deal ON paper (deal_id, created_at, id);
CREATE INDEX paper_client ON paper (client_id) WHERE client_id IS NOT NULL;
CREATE INDEX paper_kind ON paper (kind, id, paid_at, voided_at, date);
CREATE INDEX paper_date
    ON paper (date, id, kind, paid_at, voided_at, currency, amount, paid_amount, deal_id);
CREATE INDEX paper_paid_at ON paper (paid_at, kind, currency, paid_amount) WHERE paid_at IS NOT NULL;
CREATE INDEX paper_sha256 ON paper (sha256) WHERE sha256 IS NOT NULL;

-- Addresses by which a client sees one paper.
CREATE TABLE paper_link (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    paper_id     INTEGER NOT NULL REFERENCES paper (id),
    hash         BLOB NOT NULL UNIQUE,
    user_id      INTEGER,
    expires_at   TEXT NOT NULL,
    ended_at     TEXT,
    seen_count   INTEGER NOT NULL DEFAULT 0,
    last_seen_at TEXT,
    created_at   TEXT NOT NULL,
    updated_at   TEXT NOT NULL,
    version      INTEGER NOT NULL
) STRICT;
CREATE INDEX paper_link_paper ON paper_link (paper_id);

-- Who a company is on papers (crm/papers/requisites.py), and how its papers are made.
ALTER TABLE tenant ADD COLUMN requisites TEXT;
ALTER TABLE tenant ADD COLUMN paper_settings TEXT;
ALTER TABLE client ADD COLUMN requisites TEXT;
CREATE INDEX client_requisites ON client (id) WHERE requisites IS NOT NULL;
-- Per cent of VAT; null: that of the company.
ALTER TABLE product ADD COLUMN vat INTEGER;
CREATE INDEX product_vat ON product (id) WHERE vat IS NOT NULL;
