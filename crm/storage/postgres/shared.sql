-- Version 3. The next release that changes this file has the next number, and keeps what the nodes
-- of the release before use: a node leaves a shared schema of a higher number as it is.

-- The shared schema of a database: which tenants live in it, and functions that all of them use.

CREATE SCHEMA IF NOT EXISTS crm;
CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA crm;

-- What all nodes share: the secret key, the version of this file.
CREATE TABLE IF NOT EXISTS crm.setting (
    name  TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

-- The tenants of this database and their schemas. A new generation is a new schema: the tenant was
-- restored. Drafts, which no request reaches, have labels that begin with a dot.
CREATE SEQUENCE IF NOT EXISTS crm.generation;
CREATE TABLE IF NOT EXISTS crm.tenant (
    label      TEXT COLLATE "C" PRIMARY KEY,
    schema     TEXT COLLATE "C" NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    generation BIGINT NOT NULL DEFAULT nextval('crm.generation'),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The tenants that live in files, and the name of the node that has the file of each.
CREATE TABLE IF NOT EXISTS crm.file (
    label TEXT COLLATE "C" PRIMARY KEY,
    node  TEXT NOT NULL
);

-- Tenants with deliveries to be sent, and when the next one is due, in epoch seconds.
CREATE TABLE IF NOT EXISTS crm.due (
    label TEXT COLLATE "C" PRIMARY KEY,
    at    DOUBLE PRECISION NOT NULL
);

-- Uploaded files that wait for their user's confirmation.
CREATE TABLE IF NOT EXISTS crm.upload (
    name       TEXT PRIMARY KEY,
    label      TEXT COLLATE "C" NOT NULL,
    session_id BIGINT NOT NULL,
    saved_at   DOUBLE PRECISION NOT NULL,
    data       BYTEA NOT NULL
);
CREATE INDEX IF NOT EXISTS upload_session ON crm.upload (label, session_id, saved_at);

-- Choose the tenant that the rest of the transaction works with, and return its generation. Every
-- transaction begins with it: there is no tenant by default. Errors: CRM01 there is no such tenant,
-- CRM02 its schema has another version, which is the message.
CREATE OR REPLACE FUNCTION crm.use_tenant(tenant_label TEXT, known_version INTEGER)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    tenant crm.tenant;
BEGIN
    SELECT * INTO tenant FROM crm.tenant WHERE label = tenant_label;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such tenant' USING ERRCODE = 'CRM01';
    END IF;
    IF tenant.version <> known_version THEN
        RAISE EXCEPTION '%', tenant.version USING ERRCODE = 'CRM02';
    END IF;
    PERFORM set_config('search_path', quote_ident(tenant.schema), true);
    RETURN tenant.generation;
END $$;

-- The same for a transaction that only reads.
CREATE OR REPLACE FUNCTION crm.read_tenant(tenant_label TEXT, known_version INTEGER)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    RETURN crm.use_tenant(tenant_label, known_version);
END $$;

-- The same for a transaction that writes: one at a time per tenant, as with the lock of a file.
-- Waiting longer is error 55P03. A node that stops responding loses its turn after a minute.
CREATE OR REPLACE FUNCTION crm.write_tenant(
    tenant_label TEXT, known_version INTEGER, wait_milliseconds INTEGER)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    PERFORM crm.lock_tenant(tenant_label, wait_milliseconds);
    PERFORM set_config('idle_in_transaction_session_timeout', '60s', true);
    RETURN crm.use_tenant(tenant_label, known_version);
END $$;

CREATE OR REPLACE FUNCTION crm.lock_tenant(tenant_label TEXT, wait_milliseconds INTEGER)
RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF wait_milliseconds > 0 THEN
        PERFORM set_config('lock_timeout', wait_milliseconds::TEXT, true);
        PERFORM pg_advisory_xact_lock(hashtextextended(tenant_label, 7274));
        PERFORM set_config('lock_timeout', '10s', true);
    ELSIF NOT pg_try_advisory_xact_lock(hashtextextended(tenant_label, 7274)) THEN
        RAISE EXCEPTION 'the tenant is being written' USING ERRCODE = '55P03';
    END IF;
END $$;

-- End the transaction that has the tenant's turn if its node has sent nothing for a minute. The
-- timeout above does not end one whose node stopped between two statements of one round trip.
CREATE OR REPLACE FUNCTION crm.end_stalled(tenant_label TEXT) RETURNS VOID LANGUAGE sql AS $$
    SELECT pg_terminate_backend(pid)
    FROM pg_locks JOIN pg_stat_activity USING (pid), hashtextextended(tenant_label, 7274) AS hash
    WHERE locktype = 'advisory' AND granted AND datname = current_database() AND objsubid = 1
        AND classid::bigint = (hash >> 32) & 4294967295 AND objid::bigint = hash & 4294967295
        AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '60s'
$$;

-- The last number that an event of the current tenant was given: of the newest event, or of one
-- that was deleted.
CREATE OR REPLACE FUNCTION crm.last_sequence() RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT greatest(last, (SELECT max(sequence) FROM event)) FROM event_sequence);
END $$;

-- The number of the next event. Writers of a tenant take turns, so that numbers have no gap and are
-- committed in their order, which those of a sequence are not. A counter that each event updates
-- would do too, but 20,000 updates of one row in one transaction take minutes.
CREATE OR REPLACE FUNCTION crm.next_sequence() RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN crm.last_sequence() + 1;
END $$;

-- Remember the numbers of deleted events.
CREATE OR REPLACE FUNCTION crm.keep_sequence() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE event_sequence SET last = greatest(last, (SELECT max(sequence) FROM deleted))
        WHERE EXISTS (SELECT 1 FROM deleted);
    RETURN NULL;
END $$;

-- Note when a node is to look at the tenant's deliveries, in epoch seconds; NULL: none is pending.
-- In the tenant's transaction, so that none writes another note meanwhile.
CREATE OR REPLACE FUNCTION crm.note_due(tenant_label TEXT, due_at DOUBLE PRECISION) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    IF due_at IS NULL THEN
        DELETE FROM crm.due WHERE label = tenant_label;
    ELSE
        INSERT INTO crm.due (label, at) VALUES (tenant_label, due_at)
        ON CONFLICT (label) DO UPDATE SET at = due_at WHERE due.at <> due_at;
    END IF;
END $$;

-- The size of the current tenant's tables and indexes on the disk.
CREATE OR REPLACE FUNCTION crm.allocated_bytes() RETURNS BIGINT LANGUAGE sql AS $$
    SELECT CAST(sum(pg_total_relation_size(oid)) AS BIGINT) FROM pg_class WHERE relkind = 'r'
        AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
$$;

-- The same without the space that deleted rows left, which new rows will take: a table on the disk
-- hardly ever gets smaller. Estimated from 1 MB of each table at most; a table's indexes are taken
-- to be as full as the table. Contents of files are counted by their size: to sample their rows is to
-- read gigabytes.
CREATE OR REPLACE FUNCTION crm.used_bytes() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    found RECORD;
    percent DOUBLE PRECISION;
    row_bytes DOUBLE PRECISION;
    used DOUBLE PRECISION := (SELECT coalesce(sum(size), 0) FROM file_content);
BEGIN
    FOR found IN
        SELECT oid, relname, pg_relation_size(oid) AS bytes FROM pg_class WHERE relkind = 'r'
            AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
            AND pg_relation_size(oid) > 0 AND relname <> 'file_chunk'
    LOOP
        percent := least(100, 100 * 1048576.0 / found.bytes);
        EXECUTE format(
            'SELECT coalesce(sum(pg_column_size(t.*) + 4), 0) FROM %I AS t'
            ' TABLESAMPLE SYSTEM (%s) REPEATABLE (1)', found.relname, percent) INTO row_bytes;
        used := used + pg_total_relation_size(found.oid)
            * least(1, row_bytes * 100 / percent / pg_table_size(found.oid));
    END LOOP;
    RETURN CAST(used AS BIGINT);
END $$;
