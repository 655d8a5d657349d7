-- Long queries of PostgreSQL's catalogs and of the shared schema: catalog_queries.py reads them.

-- name: server
SELECT current_setting('server_version'), current_user,
    current_setting('transaction_read_only'),
    current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'),
    (SELECT datctype FROM pg_database WHERE datname = current_database()),
    has_database_privilege(current_database(), 'CREATE')

-- name: unknown_schemas
SELECT nspname FROM pg_namespace WHERE nspname ~ '^(t_|draft_[0-9a-f]+$)'
    AND NOT EXISTS (SELECT 1 FROM crm.tenant WHERE schema = nspname) ORDER BY nspname

-- Everything that a migration makes, one text each; names are without the schema, by search_path.
-- Constraints are without their names, which keep those of tables that were renamed.
-- name: objects
SELECT 'table ' || relname FROM pg_class
    WHERE relnamespace = CAST($1 AS regnamespace) AND relkind = 'r'
UNION ALL
SELECT 'column ' || relname || '.' || attname || ' ' || format_type(atttypid, atttypmod)
        || COALESCE((SELECT ' COLLATE ' || collname FROM pg_collation
            WHERE oid = attcollation AND collname <> 'default'), '')
        || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
        || CASE WHEN attidentity <> '' THEN ' IDENTITY' ELSE '' END
        || COALESCE(' DEFAULT ' || pg_get_expr(adbin, adrelid), '')
    FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relnamespace = CAST($1 AS regnamespace) AND relkind = 'r'
UNION ALL
SELECT 'index ' || replace(pg_get_indexdef(indexrelid), quote_ident($2) || '.', '')
        || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relnamespace = CAST($1 AS regnamespace)
        AND indexrelid NOT IN (SELECT conindid FROM pg_constraint WHERE contype IN ('p', 'u'))
UNION ALL
SELECT 'constraint of ' || conrelid::regclass || ': ' || pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = CAST($1 AS regnamespace)

-- name: tables
SELECT relname FROM pg_class
WHERE relnamespace = CAST($1 AS regnamespace) AND relkind = 'r' ORDER BY relname

-- Of each table that numbers its rows: the sequence, and the last number that it has given.
-- name: sequences
SELECT name, sequence, coalesce(pg_sequence_last_value(CAST(sequence AS regclass)), 0)
FROM (
    SELECT c.relname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE a.attidentity <> '' AND NOT a.attisdropped
        AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
) AS numbered (name, sequence)

-- name: foreign_keys
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid)
FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
WHERE k.contype = 'f'
    AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
ORDER BY c.relname, k.conname

-- name: facts
SELECT
    (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
    EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'),
    (SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pg_trgm')
