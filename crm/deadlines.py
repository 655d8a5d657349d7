"""An end for a talk with somebody who may be slow on purpose."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self


class ConnectionDeadline:
    """Shuts a connection at `until` (monotonic seconds); leaving it then is a TimeoutError.

    Timeouts of sockets count from byte to byte, so one who sends slowly can hold them for ever. It
    acts on a duplicate, because TLS takes the socket over, and a closed descriptor may be reused.
    """

    def __init__(self, connection: socket.socket, until: float):
        self._connection = connection.dup()
        self._lock = threading.Lock()
        self._barked = False
        self._timer = threading.Timer(max(0.0, until - time.monotonic()), self._bark)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # none starts while the process ends; the timeouts remain
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._connection.close()
        if self._barked:
            raise TimeoutError  # also when all seems to be well: what came was cut

    def _bark(self) -> None:
        with self._lock, suppress(OSError):
            self._barked = True
            self._connection.shutdown(socket.SHUT_RDWR)
