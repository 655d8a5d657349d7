-- Keys by OAuth: the code or the refresh token of each, what it is for, and when the grant ends.

ALTER TABLE api_key ADD COLUMN grant_hash BLOB;
ALTER TABLE api_key ADD COLUMN grant_purpose BLOB;
ALTER TABLE api_key ADD COLUMN grant_ends_at TEXT;
CREATE UNIQUE INDEX api_key_grant ON api_key (grant_hash) WHERE grant_hash IS NOT NULL;
