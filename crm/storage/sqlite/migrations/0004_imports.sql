-- Moving in: imports of other nouns than products, and whose ids those of an exported file are.

ALTER TABLE price_import ADD COLUMN noun TEXT NOT NULL DEFAULT 'product'
    CHECK (noun IN ('lead', 'client', 'deal', 'product', 'task'));

-- Random, made once: with the label it tells this tenant's ids from those of any other.
ALTER TABLE tenant ADD COLUMN mark TEXT NOT NULL DEFAULT '';
UPDATE tenant SET mark = lower(hex(randomblob(4)));
CREATE TRIGGER tenant_mark AFTER INSERT ON tenant
BEGIN
    UPDATE tenant SET mark = lower(hex(randomblob(4)));
END;
