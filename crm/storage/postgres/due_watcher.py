"""What makes the sender of a node look at tenants that other processes have deliveries for.

A process notifies the sender of its own machine by the wake-up pipe. Where there is none, it
notifies all nodes through the database: each has one connection that listens (LISTEN). The notes of
what is due (`crm.due`) are polled as well, so that what a killed node leaves is found, and what
nobody was notified of: behind PgBouncer in transaction mode no notification arrives.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crm.storage.file_errors import ServerError
from crm.storage.postgres.connections import CursorConnection, Database

CHANNEL = "crm_due"
POLL_SECONDS = 5.0
STOP_SECONDS = 0.2  # in which a thread that listens notices that it is to stop

log = logging.getLogger("crm.tenants")


class DueWatcher:
    """A thread that calls `notify(label)` for each tenant that is due, inside a `with` block.

    `list_due` returns the labels of tenants that are due now.
    """

    def __init__(
        self,
        database: Database,
        list_due: Callable[[], list[str]],
        notify: Callable[[str], object],
    ):
        self._database, self._list_due, self._notify = database, list_due, notify
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="due tenants", daemon=True)

    def __enter__(self) -> "DueWatcher":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                try:
                    with self._listening() as connection:
                        self._follow(connection)
                except ServerError as error:
                    log.debug("no notifications of other nodes: %s", error)
                    self._follow(None)
            except Exception:
                log.exception("what is due on other nodes is looked for again")
                self._stopping.wait(POLL_SECONDS)

    @contextmanager
    def _listening(self) -> Iterator[CursorConnection | None]:
        """Give a connection that listens; None behind a pooler, where that is of no use.

        Raises ServerError if none can be made, or it breaks.
        """
        with self._database.connect() as connection:
            ((pid,),) = connection.read("SELECT pg_backend_pid()")
            is_direct = pid == connection.pgconn.backend_pid
            if is_direct:
                connection.execute(f"LISTEN {CHANNEL}".encode())
            yield connection if is_direct else None

    def _follow(self, connection: CursorConnection | None) -> None:
        """Hand on what is due, and notifications; without a connection once, and wait a while."""
        while not self._stopping.is_set():
            # Listening has begun before: what is noted in between comes twice.
            for label in self._list_due():
                self._notify(label)
            if connection is None:
                self._stopping.wait(POLL_SECONDS)
                return
            until = time.monotonic() + POLL_SECONDS
            while (seconds := until - time.monotonic()) > 0 and not self._stopping.is_set():
                for notification in connection.notifies(timeout=min(seconds, STOP_SECONDS)):
                    self._notify(notification.payload)
