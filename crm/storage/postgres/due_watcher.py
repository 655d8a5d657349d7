"""What makes the sender of a node look at tenants that other processes have deliveries for.

A process notifies the sender of its own machine by the wake-up pipe. Where there is none, it
notifies all nodes through the database: each has one connection that listens (LISTEN). The notes of
what is due (`crm.due`) are polled as well, so that what a killed node leaves is found, and what
nobody was notified of: behind PgBouncer in transaction mode no notification arrives.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable

import psycopg

from crm.storage.file_errors import ServerError
from crm.storage.postgres.connections import CursorConnection, Database

CHANNEL = "crm_due"
POLL_SECONDS = 5.0
STOP_SECONDS = 0.2  # in which a thread that listens notices that it is to stop
MAX_RECONNECT_SECONDS = 60.0  # between tries to listen, beginning with POLL_SECONDS

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
        self._connection: CursorConnection | None = None
        self._connect_at, self._connect_delay = 0.0, POLL_SECONDS  # monotonic seconds
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
                # Listening begins before the poll: what is noted in between comes twice.
                self._listen()
                for label in self._list_due():
                    self._notify(label)
            except Exception:
                log.exception("what is due on other nodes is looked for again")
            self._wait(time.monotonic() + POLL_SECONDS)
        self._disconnect()

    def _listen(self) -> None:
        """Make the connection that listens, if it is time to try."""
        if self._connection is not None or time.monotonic() < self._connect_at:
            return
        self._connect_at = time.monotonic() + self._connect_delay
        self._connect_delay = min(self._connect_delay * 2, MAX_RECONNECT_SECONDS)
        try:
            self._connection = connection = self._database.connect()
            ((pid,),) = connection.read("SELECT pg_backend_pid()")
            if pid != connection.pgconn.backend_pid:  # a pooler such as PgBouncer: see above
                self._disconnect()
                self._connect_at = float("inf")
                return
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self._connect_delay = POLL_SECONDS
        except (psycopg.Error, ServerError) as error:
            self._disconnect(error)

    def _wait(self, until: float) -> None:
        """Hand on notifications until that time, in monotonic seconds, or until a stop."""
        while (seconds := until - time.monotonic()) > 0 and not self._stopping.is_set():
            if self._connection is None:
                self._stopping.wait(seconds)
                continue
            try:
                for notification in self._connection.notifies(timeout=min(seconds, STOP_SECONDS)):
                    self._notify(notification.payload)
            except psycopg.Error as error:
                self._disconnect(error)

    def _disconnect(self, error: Exception | None = None) -> None:
        if error is not None:
            log.debug("no notifications of other nodes: %s", error)
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
