-- Users whom the site that embeds the cabinet lets in, by the id that it knows them by. Null: nobody
-- came from there yet.
ALTER TABLE user ADD COLUMN site_id TEXT;
CREATE UNIQUE INDEX user_site_id ON user (site_id) WHERE site_id IS NOT NULL;
