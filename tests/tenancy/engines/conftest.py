"""A PostgreSQL with the shared schema, and a tenant's schema in it."""

from collections.abc import Iterator

import psycopg
import pytest

from crm.storage.postgres import schema as tables
from crm.storage.postgres.shared_schema import shared_sql
from tests.postgres_server import Postgres


@pytest.fixture(scope="package")
def address(server: Postgres) -> str:
    url = server.create_database("engines")
    server.execute(shared_sql().encode(), "engines")
    return url


@pytest.fixture
def schema(address: str) -> Iterator[psycopg.Connection]:
    """A connection to a new schema `t_acme` of the newest version."""
    with psycopg.connect(address, autocommit=True) as connection:
        make_schema(connection, "t_acme")
        yield connection
        connection.execute("DROP SCHEMA t_acme CASCADE")


def make_schema(connection: psycopg.Connection, name: str) -> None:
    """Create a schema as that of a new tenant, in one transaction, and select it."""
    execute_in(connection, name, tables.statements_of(tables.TABLES))


def execute_in(connection: psycopg.Connection, name: str, statements: list[str]) -> None:
    """Create a schema, select it and execute statements in one transaction."""
    connection.execute(f"CREATE SCHEMA {name}".encode())
    connection.execute(f"SET search_path = {name}".encode())
    with connection.transaction():
        for statement in statements:
            connection.execute(statement.encode())
