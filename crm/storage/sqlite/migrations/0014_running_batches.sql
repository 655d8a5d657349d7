-- Processes look for batches that go on in the background.

CREATE INDEX batch_running ON batch (id) WHERE state = 'running';
