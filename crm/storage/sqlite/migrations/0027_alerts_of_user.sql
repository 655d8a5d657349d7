-- What is to be sent to a user, found among what is to be sent to all.
CREATE INDEX alert_to_send_user ON alert (user_id, send_at) WHERE send_at IS NOT NULL;
