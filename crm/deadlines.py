"""A deadline for a connection, whose other end may be slow on purpose."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self


class ConnectionDeadline:
    """Shuts a connection down at a deadline; then leaving the `with` block raises TimeoutError.

    Timeouts of sockets count from byte to byte, so a peer that sends slowly could hold a
    connection for ever. This works on a duplicate of the socket, because TLS takes the socket
    over, and the number of a closed descriptor may be used again.
    """

    def __init__(self, connection: socket.socket, deadline: float):
        """`deadline` is in monotonic seconds."""
        self._connection = connection.dup()
        self._lock = threading.Lock()
        self._is_expired = False
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        with suppress(RuntimeError):  # no thread starts while the process ends: timeouts remain
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._connection.close()
        if self._is_expired:
            raise TimeoutError  # even if all seems well: what was received may be cut off

    def _expire(self) -> None:
        with self._lock, suppress(OSError):
            self._is_expired = True
            self._connection.shutdown(socket.SHUT_RDWR)
