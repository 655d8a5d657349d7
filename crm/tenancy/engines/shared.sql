-- What tenants' schemas use of the shared schema `crm`, besides its extension pg_trgm and its
-- collation `nocase`. Statements are executed one by one; each may be executed again.

-- The next number of an event in the schema of the current tenant: counted in the transaction of
-- the event, so that numbers have no gaps and are seen in their order.
CREATE OR REPLACE FUNCTION crm.next_sequence() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    number BIGINT;
BEGIN
    UPDATE event_sequence SET last = last + 1 RETURNING last INTO STRICT number;
    RETURN number;
END
$$;
