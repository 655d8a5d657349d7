"""Making a tenant's schema by the steps of the migrations."""

import psycopg

from crm.storage.postgres import schema
from crm.storage.sqlite import migrations


def make_schema(connection: psycopg.Connection, name: str, version: int | None = None) -> None:
    """Create a schema of a version in one transaction, and select it."""
    connection.execute(f"CREATE SCHEMA {name}".encode())
    connection.execute(f"SET search_path = {name}".encode())
    with connection.transaction():
        for number in range(len(migrations.STEPS) if version is None else version):
            take_step(connection, number)


def take_step(connection: psycopg.Connection, number: int) -> None:
    """Take a step of the migrations; the first has the number 0."""
    for statement in schema.statements_of(migrations.NAMES[number]):
        connection.execute(statement.encode())
