-- An export link is an API key for one export and nothing else. It ends with the key that made it.
ALTER TABLE api_key ADD COLUMN export TEXT;      -- JSON {resource, filters}; null: an ordinary key
ALTER TABLE api_key ADD COLUMN made_by INTEGER;  -- the id of a key; null: a user
