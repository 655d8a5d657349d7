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
