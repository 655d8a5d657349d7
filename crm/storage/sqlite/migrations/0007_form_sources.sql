-- The source that leads of a website form have; null for a key that was made before, or for no form.
ALTER TABLE api_key ADD COLUMN source TEXT;
