"""A PostgreSQL with the shared schema, and a tenant's schema in it."""

from collections.abc import Iterator
from importlib import resources

import psycopg
import pytest

from crm.tenancy import engines
from tests.tenancy.engines.schemas import make_schema
from tests.tenancy.engines.server import start_postgres


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    with start_postgres() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            shared = resources.files(engines).joinpath("shared.sql").read_text("utf-8")
            connection.execute(shared.encode())
        yield address


@pytest.fixture
def schema(address: str) -> Iterator[psycopg.Connection]:
    """A connection to a new schema `t_acme` of the newest version."""
    with psycopg.connect(address, autocommit=True) as connection:
        make_schema(connection, "t_acme")
        yield connection
        connection.execute("DROP SCHEMA t_acme CASCADE")
