"""What tests of tenants share: a PostgreSQL for those that need one in any run, and a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import Postgres


@pytest.fixture(scope="package")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The folder of a test's copies, which is not there yet."""
    return tmp_path / "copies"
