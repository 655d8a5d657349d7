"""A role for each tenant in PostgreSQL, by CRM_DATABASE_ROLES: it sees no other tenant's schema.

`crm.use_tenant` takes the role on for the rest of the transaction. Tables belong to the user of
CRM_DATABASE, who migrates them. Roles are of the whole server, so a name has the database's number.
"""

from crm.tenancy.engines.names import quoted
from crm.tenancy.engines.postgres import Connection


def give(connection: Connection, label: str) -> str:
    """Make a tenant's role inside a transaction, if it has none, and return its name.

    Raises ServerError: 42501 if the user may not make roles.
    """
    ((schema, role, new_role),) = connection.run(
        "SELECT schema, role, format('crm_%s_%s', (SELECT oid FROM pg_database"
        " WHERE datname = current_database()), generation) FROM crm.tenant WHERE label = $1",
        (label,),
    )
    if role is not None:
        return role
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
    return new_role


def drop(connection: Connection, role: str) -> None:
    """Drop a tenant's role after its schema, inside a transaction."""
    connection.send_once(f"DROP OWNED BY {quoted(role)}")  # what it was granted
    connection.send_once(f"DROP ROLE {quoted(role)}")
    connection.receive()
