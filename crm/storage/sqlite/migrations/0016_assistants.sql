-- Keys of assistants, and the tool by which an assistant changed a record.

ALTER TABLE api_key ADD COLUMN preset TEXT CHECK (preset IN ('assistant'));
ALTER TABLE audit_entry ADD COLUMN tool TEXT;
