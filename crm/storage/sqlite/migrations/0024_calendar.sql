-- The hash of the token in the private address of a user's calendar.
ALTER TABLE user ADD COLUMN calendar_hash BLOB;
CREATE UNIQUE INDEX user_calendar_hash ON user (calendar_hash) WHERE calendar_hash IS NOT NULL;
