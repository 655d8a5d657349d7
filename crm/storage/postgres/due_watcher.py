"""What makes the sender of a node look at tenants that other processes have deliveries for.

A process notifies the sender of its own machine by the wake-up pipe. Where there is none, it
notifies all nodes through the database: each has one connection that listens (LISTEN). The notes of
what is due (`crm.due`) are polled as well, so that what a killed node leaves is found, and what
nobody was notified of.
"""

import logging
import threading
import time
from collections.abc import Callable

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
                self._notify_due()
                with self._database.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    while not self._stopping.is_set():
                        self._notify_due()  # after listening: what is noted in between comes twice
                        self._hand_on(connection)
            except ServerError as error:
                log.debug("no notifications of other nodes: %s", error)
                self._stopping.wait(POLL_SECONDS)
            except Exception:
                log.exception("what is due on other nodes is looked for again")
                self._stopping.wait(POLL_SECONDS)

    def _notify_due(self) -> None:
        for label in self._list_due():
            self._notify(label)

    def _hand_on(self, connection: CursorConnection) -> None:
        """Hand on notifications for POLL_SECONDS."""
        until = time.monotonic() + POLL_SECONDS
        while (seconds := until - time.monotonic()) > 0 and not self._stopping.is_set():
            for notification in connection.notifies(timeout=min(seconds, STOP_SECONDS)):
                self._notify(notification.payload)
