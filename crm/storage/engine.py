"""What an engine does for an installation: it has tenants, opens them, and creates new ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from crm.errors import Conflict
from crm.storage.connection_source import ConnectionSource
from crm.storage.session import TenantSession, execute, now, transaction

# The "label" of the base host's own file, which has sessions like a tenant's; not a valid label.
BASE_HOST_FILE = "_front"
INSERT_TENANT = "INSERT INTO tenant (id, name, plan, created_at, tidied_at) VALUES (1, ?, ?, ?, ?)"


class Engine(Protocol):
    """Where tenants live: `sqlite.engine.FileEngine` or `postgres.engine.PostgresEngine`.

    A draft is a tenant to be, which no session finds by its label.
    """

    def labels(self) -> list[str]:
        """List the labels of its tenants."""

    def has(self, label: str) -> bool:
        """Whether it has this label, also the base host's. Raises OSError, DatabaseUnavailable."""

    def open(self, label: str) -> ConnectionSource | None:
        """Return the source of a tenant's connections; None if the tenant does not live here.

        That of the base host is created. Raises TenantUnavailable, TenantElsewhere.
        """

    def draft(self, label: str) -> Any:
        """Return a draft, of which nothing is stored yet."""

    def create_tables(self, draft: Any) -> None:
        """Create a draft with its tables, which are empty."""

    def publish(self, draft: Any) -> None:
        """Make a draft a tenant. Raises Conflict `label_taken`."""

    def delete_draft(self, draft: Any) -> None:
        """Delete what is left of a draft: everything, unless it was published."""

    def close(self) -> None:
        """Close every idle connection."""


def create_tenant(
    installation: Any,
    engine: Engine,
    label: str,
    name: str,
    plan: str,
    on_created: Callable[[], None] = lambda: None,
) -> None:
    """Create a tenant of an engine: see Tenants.create(). Raises Conflict `label_taken`."""
    draft = engine.draft(label)
    try:
        engine.create_tables(draft)
        with draft_session(installation, draft, label), transaction():
            execute(INSERT_TENANT, (name, plan, now(), now()))
            on_created()
        engine.publish(draft)
    finally:
        engine.delete_draft(draft)


@contextmanager
def draft_session(installation: Any, draft: Any, label: str) -> Iterator[None]:
    """Open a session of a draft, in which it has the label that it is to get."""
    connection = draft.take(writes=False)
    try:
        with TenantSession(label, connection, draft, installation.clock):
            yield
    finally:
        draft.give(connection, writes=False)
        for source in (draft, draft.contents):  # connections to a file write its log back into it
            installation.pool.forget(source)


def create_base_host(installation: Any, engine: Engine) -> None:
    """Create the base host's file or schema, if it is not there."""
    if not engine.has(BASE_HOST_FILE):
        with suppress(Conflict):  # another process has created it meanwhile
            create_tenant(installation, engine, BASE_HOST_FILE, "", "start")


def label_taken(label: str) -> Conflict:
    """Return the error for a label that another tenant has."""
    return Conflict(f"the label {label} is taken", "label_taken")
