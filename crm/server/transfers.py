"""Connections that write are passed to the worker process that writes for their host.

So the changes of a tenant meet in one process: they are committed in groups (`changes.py`), wait
for no lock of another process, and leave its cached pages valid.
"""

import mmap
import socket
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from crm.server.connections import Connection

SEND_BUFFER_BYTES = 256 * 1024  # of messages on their way; one has up to 150 kB
MAX_MESSAGE_BYTES = 192 * 1024
MAX_TAKEN = 16  # connections in one turn of the loop


class Transfers:
    """Passes connections between the workers of a server, which are numbered from 0.

    It is made before the workers are forked. What does not fit, or has no worker to go to, is not
    passed: every worker can serve every host.
    """

    def __init__(self, workers: int):
        self._pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(workers)
        ]
        for pair in self._pairs:
            pair[0].setblocking(False)
            pair[1].setblocking(False)
            pair[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._serving = mmap.mmap(-1, workers)  # shared: 1 for each worker that takes connections
        self._number = -1

    def fileno(self) -> int:
        """Return what can be read when there is a connection to take."""
        return self._pairs[self._number][0].fileno()

    def begin(self, number: int) -> None:
        """Take connections in this process, as the worker of this number."""
        self._number = number
        self._serving[number] = 1

    def end(self, number: int | None = None) -> None:
        """Note that a worker, or this one, takes no more than what is already on its way."""
        self._serving[self._number if number is None else number] = 0

    def pass_on(self, conn: Connection) -> bool:
        """Pass a connection with a complete request; return whether another worker has it now."""
        owner = crc32(conn.host.encode()) % len(self._pairs)
        if owner == self._number or not self._serving[owner] or not self._serving[self._number]:
            return False
        message = conn.received_request()
        if message is None:
            return False
        try:
            socket.send_fds(self._pairs[owner][1], [message], [conn.sock.fileno()])
        except OSError:  # too many are on their way
            return False
        return True

    def take(self) -> Iterator[tuple[socket.socket, Any, bytes]]:
        """Yield the connections that were passed: each with its client, and what that has sent."""
        inbox = self._pairs[self._number][0]
        for _ in range(MAX_TAKEN):
            try:
                received, descriptors, _, _ = socket.recv_fds(inbox, MAX_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            if not descriptors:  # this process has too many open files
                continue
            sock = socket.socket(fileno=descriptors[0])
            try:
                client = sock.getpeername()
            except OSError:  # it has left
                sock.close()
            else:
                yield sock, client, received
