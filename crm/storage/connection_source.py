"""What a session needs of its tenant, whichever engine the tenant lives in."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crm.config import Config
from crm.errors import CRMError
from crm.steady_clock import SteadyClock
from crm.storage.wakeup import OnEvent, WakeupPipe


class ConnectionSource:
    """Where a session takes its connections from: a `sqlite.tenant.Tenant` or a `SchemaTenant`."""

    engine_name: str  # "sqlite" or "postgres"
    has_one_sender: bool  # else those of several nodes send the tenant's deliveries
    heavy_work_lock: Any  # crm.storage.heavy_work.HeavyWorkLock
    uploads: Any  # FileUploads or SchemaUploads
    contents: Any  # crm.storage.contents.Contents

    def __init__(self, label: str, installation: Any):
        """`installation` is the `installation.tenants.Tenants` that it is one of."""
        self.label, self.installation = label, installation
        self.config: Config = installation.config
        self.wakeup_pipe: WakeupPipe = installation.wakeup_pipe
        self.on_event: OnEvent | None = installation.on_event
        self.steady_clock: SteadyClock = installation.steady_clock
        self.next_sweep_at = 0.0  # seconds of uptime

    def take(self, writes: bool) -> Any:
        """Take a connection to read, or also to write."""

    def give(self, connection: Any, writes: bool) -> None:
        """Give back a connection."""

    def begin(self, session: Any) -> None:
        """Begin a transaction that writes. Raises Busy if its turn does not come in time."""

    def commit(self, session: Any) -> None:
        """Commit the transaction; if that fails, rollback() ends it."""

    def rollback(self, session: Any) -> None:
        """Undo the transaction."""

    def note_due(self, at: float | None) -> None:
        """Note in the current transaction when a sender is to look at the tenant's deliveries.

        `at` is in epoch seconds of the steady clock; None: none is pending. Nothing is noted of a
        file: the sender looks into it when it is woken or starts.
        """

    def is_due_noted(self, at: float | None) -> bool:
        """Whether a sender is going to look at the tenant's deliveries then, and not before."""
        return True

    def wake_sender(self) -> None:
        """Notify a sender of work for the tenant. Never raises."""
        self.wakeup_pipe.notify(self.label)

    @property
    def place(self) -> str:
        """Where the tenant's data is, for the operator."""
        raise NotImplementedError

    def read_first_row(self, sql: str, wait_seconds: float = 0) -> tuple[Any, ...] | None:
        """Read the first row of one statement without a session, whatever the version."""

    def version(self) -> int:
        """Return the version of the data model that the tenant has."""
        raise NotImplementedError

    def check(self, full: bool) -> tuple[int, list[str]]:
        """Return the version, and what is wrong with the data; `full`: read everything."""
        raise NotImplementedError

    def migrate(self) -> int:
        """Bring the tenant up to date, and return the version that it had."""
        raise NotImplementedError

    def write_archive(self, to: Path) -> None:
        """Write the tenant to a path where nothing is, as one SQLite file: checked and synced."""

    def scrub(self, tables: Iterable[str]) -> None:
        """Remove what was deleted from the bytes of the tenant's files too, outside transactions.

        tables: those with deleted rows. Raises Busy, StorageFull, errors of the engine.
        """

    def refusal(self, error: BaseException) -> CRMError | None:
        """Return the error to raise for an error of the engine; None if it is another's."""
