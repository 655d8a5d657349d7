-- Indexes of lists: one for each order, with the columns of all filters by equality, so that they
-- are checked without reading the row; records/list_plans.py says how lists are read. Named
-- <table>_<order>. Deleted rows are in them for `include_deleted`. What was created since a time is
-- found in the order of the last changes too.

-- Read by nothing: clients, users and API keys are never deleted for good.
DROP INDEX lead_client;
DROP INDEX delivery_user;
DROP INDEX delivery_key;
DROP INDEX attempt_user;
DROP INDEX attempt_key;

DROP INDEX lead_name;
DROP INDEX lead_created_at;
DROP INDEX lead_updated_at;
DROP INDEX lead_arrived; -- lead_created_at tells as much
CREATE INDEX lead_name ON lead (name, id, status, source, assigned_to, deleted_at);
CREATE INDEX lead_created_at ON lead (created_at, id, status, source, assigned_to, deleted_at);
CREATE INDEX lead_updated_at ON lead (updated_at, id,
    status, source, assigned_to, created_at, deleted_at);

DROP INDEX client_name;
DROP INDEX client_created_at;
DROP INDEX client_updated_at;
CREATE INDEX client_name ON client (name, id, type, assigned_to, deleted_at);
CREATE INDEX client_created_at ON client (created_at, id, type, assigned_to, deleted_at);
CREATE INDEX client_updated_at ON client (updated_at, id,
    type, assigned_to, created_at, deleted_at);
CREATE INDEX client_deleted_at ON client (deleted_at) WHERE deleted_at IS NOT NULL;

DROP INDEX deal_amount;
DROP INDEX deal_expected;
DROP INDEX deal_created_at;
DROP INDEX deal_updated_at;
CREATE INDEX deal_amount ON deal (coalesce(amount, -1), id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at);
CREATE INDEX deal_expected_close_date ON deal (coalesce(expected_close_date, '9999'), id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at);
CREATE INDEX deal_created_at ON deal (created_at, id,
    pipeline_id, stage_id, status, assigned_to, client_id, deleted_at);
CREATE INDEX deal_updated_at ON deal (updated_at, id,
    pipeline_id, stage_id, status, assigned_to, client_id, created_at, deleted_at);
CREATE INDEX deal_deleted_at ON deal (deleted_at) WHERE deleted_at IS NOT NULL;

DROP INDEX product_name;
DROP INDEX product_category;
DROP INDEX product_updated_at;
CREATE INDEX product_name ON product (name, id, category, active, deleted_at);
CREATE INDEX product_category ON product (category, id) WHERE deleted_at IS NULL;
CREATE INDEX product_created_at ON product (created_at, id, category, active, deleted_at);
CREATE INDEX product_updated_at ON product (updated_at, id,
    category, active, created_at, deleted_at);

DROP INDEX task_due;
DROP INDEX task_created_at;
DROP INDEX task_updated_at;
CREATE INDEX task_due_at ON task (coalesce(due_at, '9999'), id,
    status, type, assigned_to, deleted_at);
CREATE INDEX task_created_at ON task (created_at, id, status, type, assigned_to, deleted_at);
CREATE INDEX task_updated_at ON task (updated_at, id,
    status, type, assigned_to, created_at, deleted_at);

-- The log of an endpoint, also of one status.
DROP INDEX delivery_webhook;
CREATE INDEX delivery_webhook ON delivery (webhook_id, id, status);
