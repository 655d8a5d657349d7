"""A role for each tenant in PostgreSQL, by CRM_DATABASE_ROLES: it sees no other tenant's schema.

`crm.use_tenant` takes the role on for the rest of the transaction. Tables belong to the user of
CRM_DATABASE, who migrates them. Roles are of the whole server, so a name has the database's number.
"""

from crm.tenancy.engines.names import quoted
from crm.tenancy.engines.postgres import Connection

# A dump of a database has no roles.
IS_MISSING = """
    SELECT role IS NOT NULL AND role NOT IN (SELECT rolname FROM pg_roles)
        OR role IS NULL AND CAST($2 AS INTEGER) = 1
    FROM crm.tenant WHERE label = $1
"""
NEW_ROLE = """
    SELECT schema, format('crm_%s_%s',
        (SELECT oid FROM pg_database WHERE datname = current_database()), generation)
    FROM crm.tenant WHERE label = $1
"""
# A copy of a database has the roles of the original.
IS_SHARED = """
    SELECT EXISTS (SELECT 1 FROM pg_shdepend JOIN pg_roles ON pg_roles.oid = refobjid
        WHERE refclassid = CAST('pg_authid' AS regclass) AND rolname = $1 AND dbid <> 0
            AND dbid <> (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


def is_missing(connection: Connection, label: str, makes_roles: bool) -> bool:
    """Whether a tenant's role is not there, or it should have one and has none."""
    ((missing,),) = connection.run(IS_MISSING, (label, int(makes_roles)))
    return bool(missing)


def give(connection: Connection, label: str) -> None:
    """Make a tenant's role inside a transaction.

    Raises ServerError: 42501 if the user may not make roles.
    """
    ((schema, new_role),) = connection.run(NEW_ROLE, (label,))
    where, to = f"IN SCHEMA {quoted(schema)}", f"TO {quoted(new_role)}"
    for statement in (
        f"CREATE ROLE {quoted(new_role)} NOLOGIN",
        f"GRANT {quoted(new_role)} TO CURRENT_USER",
        f"GRANT USAGE ON SCHEMA crm, {quoted(schema)} {to}",
        f"GRANT ALL ON ALL TABLES {where} {to}",
        f"GRANT ALL ON ALL SEQUENCES {where} {to}",
        # Of tables that later migrations make.
        f"ALTER DEFAULT PRIVILEGES {where} GRANT ALL ON TABLES {to}",
        f"ALTER DEFAULT PRIVILEGES {where} GRANT ALL ON SEQUENCES {to}",
    ):
        connection.send_once(statement)
    connection.send("UPDATE crm.tenant SET role = $2 WHERE label = $1", (label, new_role))
    connection.receive()


def drop(connection: Connection, role: str) -> None:
    """Drop a tenant's role after its schema, inside a transaction."""
    if not connection.run("SELECT 1 FROM pg_roles WHERE rolname = $1", (role,)):
        return
    connection.send_once(f"DROP OWNED BY {quoted(role)}")  # what it was granted
    connection.receive()
    ((is_shared,),) = connection.run(IS_SHARED, (role,))
    if not is_shared:
        connection.send_once(f"DROP ROLE {quoted(role)}")
        connection.receive()
