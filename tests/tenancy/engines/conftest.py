"""A PostgreSQL with the shared schema, and a tenant's schema in it."""

from collections.abc import Iterator

import psycopg
import pytest

from crm.storage.postgres.shared_schema import shared_sql
from tests.postgres_server import Postgres
from tests.tenancy.engines.schemas import make_schema


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    with Postgres() as server:
        server.execute(shared_sql().encode())
        yield server.address


@pytest.fixture
def schema(address: str) -> Iterator[psycopg.Connection]:
    """A connection to a new schema `t_acme` of the newest version."""
    with psycopg.connect(address, autocommit=True) as connection:
        make_schema(connection, "t_acme")
        yield connection
        connection.execute("DROP SCHEMA t_acme CASCADE")
