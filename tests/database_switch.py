"""The switch between the engines: `pytest --database postgres` runs the suite on PostgreSQL.

The run starts a server of its own, one for all workers of pytest-xdist. With an address in
TEST_CRM_DATABASE (`postgresql://postgres@127.0.0.1:5432/postgres`) it uses that server instead, on
which it may create and drop databases. Tests of files alone, marked `files`, are left out.
"""

import os
from collections.abc import Iterator

import pytest

from tests.installations import (
    SERVER_VARIABLE,
    drop_all_databases,
    drop_databases,
    on_postgres,
)

SERVER = pytest.StashKey["Postgres"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        help=f"the engine of this run; by default what {SERVER_VARIABLE} says, else sqlite",
    )


def pytest_configure(config: pytest.Config) -> None:
    address = os.environ.get(SERVER_VARIABLE, "")
    engine = config.getoption("--database") or ("postgres" if address else "sqlite")
    if engine == "sqlite":
        os.environ.pop(SERVER_VARIABLE, None)
    elif not address.startswith("postgresql://"):  # a worker has its controller's
        from tests import external_programs
        from tests.postgres_server import Postgres

        if not external_programs.path_of("postgres"):
            raise pytest.UsageError("PostgreSQL is missing: apt-get install postgresql")
        server = config.stash[SERVER] = Postgres()
        server.start()
        os.environ[SERVER_VARIABLE] = server.address


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].remove()
        del os.environ[SERVER_VARIABLE]
    elif on_postgres():
        drop_all_databases()


def pytest_report_header() -> str:
    return f"database: {os.environ.get(SERVER_VARIABLE, 'sqlite')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if on_postgres():
        excluded = [item for item in items if item.get_closest_marker("files")]
        config.hook.pytest_deselected(items=excluded)
        items[:] = [item for item in items if not item.get_closest_marker("files")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Drop the databases of a test's own folder, as thousands of them fill the disk."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    try:
        return (yield)
    finally:
        if folder is not None and on_postgres():
            drop_databases(folder)
