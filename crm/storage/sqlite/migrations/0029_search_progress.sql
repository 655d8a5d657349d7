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
