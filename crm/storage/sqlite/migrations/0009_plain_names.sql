-- Tables and columns are named after what they hold.

ALTER TABLE price_import RENAME TO import_run; -- of any noun since 0004

ALTER TABLE answer RENAME TO idempotency_response;
DROP INDEX answer_created_at;
CREATE INDEX idempotency_response_created_at ON idempotency_response (created_at);

ALTER TABLE change RENAME TO audit_entry;
DROP INDEX change_record;
CREATE INDEX audit_entry_record ON audit_entry (noun, record_id, id);

ALTER TABLE code RENAME TO sms_code;
DROP INDEX code_phone;
DROP INDEX code_created_at;
CREATE INDEX sms_code_phone ON sms_code (phone, purpose, id);
CREATE INDEX sms_code_created_at ON sms_code (created_at);

ALTER TABLE link RENAME TO one_time_link;
DROP INDEX link_user;
DROP INDEX link_expires_at;
CREATE INDEX one_time_link_user ON one_time_link (user_id, purpose) WHERE ended_at IS NULL;
CREATE INDEX one_time_link_expires_at ON one_time_link (expires_at);

DROP TRIGGER tenant_mark;
ALTER TABLE tenant RENAME COLUMN mark TO instance_id;
CREATE TRIGGER tenant_instance_id AFTER INSERT ON tenant
BEGIN
    UPDATE tenant SET instance_id = lower(hex(randomblob(4)));
END;

-- FTS5 reads a column of its content table by the name of its own column and cannot rename either,
-- so the indexes are made anew. Rows without a text (deleted ones) are not in them.

DROP TABLE lead_search;
ALTER TABLE lead RENAME COLUMN folded TO search_text;
CREATE VIRTUAL TABLE lead_search USING fts5 (search_text, content = 'lead', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO lead_search (rowid, search_text)
    SELECT id, search_text FROM lead WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE client_search;
ALTER TABLE client RENAME COLUMN folded TO search_text;
CREATE VIRTUAL TABLE client_search USING fts5 (search_text, content = 'client',
    content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO client_search (rowid, search_text)
    SELECT id, search_text FROM client WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE deal_search;
ALTER TABLE deal RENAME COLUMN folded TO search_text;
CREATE VIRTUAL TABLE deal_search USING fts5 (search_text, content = 'deal', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO deal_search (rowid, search_text)
    SELECT id, search_text FROM deal WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE product_search;
ALTER TABLE product RENAME COLUMN folded TO search_text;
CREATE VIRTUAL TABLE product_search USING fts5 (search_text, content = 'product',
    content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO product_search (rowid, search_text)
    SELECT id, search_text FROM product WHERE search_text IS NOT NULL ORDER BY id;

DROP TABLE task_search;
ALTER TABLE task RENAME COLUMN folded TO search_text;
CREATE VIRTUAL TABLE task_search USING fts5 (search_text, content = 'task', content_rowid = 'id',
    tokenize = 'trigram case_sensitive 1', detail = none, columnsize = 0);
INSERT INTO task_search (rowid, search_text)
    SELECT id, search_text FROM task WHERE search_text IS NOT NULL ORDER BY id;
