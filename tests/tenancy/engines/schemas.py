"""Making a tenant's schema as the tables of a new one are made."""

import psycopg

from crm.storage.postgres import schema


def make_schema(connection: psycopg.Connection, name: str) -> None:
    """Create a schema in one transaction, and select it."""
    execute_in(connection, name, schema.statements_of(schema.TABLES))


def execute_in(connection: psycopg.Connection, name: str, statements: list[str]) -> None:
    """Create a schema, select it and execute statements in one transaction."""
    connection.execute(f"CREATE SCHEMA {name}".encode())
    connection.execute(f"SET search_path = {name}".encode())
    with connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())
