-- The id of the last row in the table's search index: new rows are added to it many at a time.
ALTER TABLE row_changes ADD COLUMN last_indexed_id INTEGER NOT NULL DEFAULT 0;
UPDATE row_changes SET last_indexed_id = (SELECT coalesce(max(id), 0) FROM lead) WHERE table_name = 'lead';
UPDATE row_changes SET last_indexed_id = (SELECT coalesce(max(id), 0) FROM client) WHERE table_name = 'client';
UPDATE row_changes SET last_indexed_id = (SELECT coalesce(max(id), 0) FROM deal) WHERE table_name = 'deal';
UPDATE row_changes SET last_indexed_id = (SELECT coalesce(max(id), 0) FROM product) WHERE table_name = 'product';
UPDATE row_changes SET last_indexed_id = (SELECT coalesce(max(id), 0) FROM task) WHERE table_name = 'task';
