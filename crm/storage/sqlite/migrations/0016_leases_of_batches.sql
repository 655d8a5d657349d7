-- All work of batches that takes several transactions has its lease in the batch.

ALTER TABLE batch ADD COLUMN lease_until TEXT; -- of the process that works at it, with a random part
UPDATE batch SET state = 'failed' WHERE state = 'running';
UPDATE import_run SET state = 'failed' WHERE state = 'running';
DROP INDEX batch_running;
CREATE INDEX batch_state ON batch (state, id);
DROP INDEX import_run_running;
ALTER TABLE import_run DROP COLUMN lease_until;
ALTER TABLE import_run DROP COLUMN options;
CREATE INDEX import_run_batch ON import_run (batch_id);
