"""A PostgreSQL of their own for tests that need one in any run."""

from collections.abc import Iterator

import pytest

from tests.postgres_server import Postgres


@pytest.fixture(scope="package")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running
