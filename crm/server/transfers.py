"""Connections are passed between the worker processes of a server.

One that sends a short change goes to the process that writes for its host. So the changes of a
tenant meet in one process: they are committed in groups (`commit_groups.py`), wait for no lock of
another process, and leave its cached pages valid.

One that reads again goes to the process with the fewest connections, so that those which wrote
once do not all stay in the one that writes, and leave the other cores idle.
"""

import mmap
import socket
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from crm.server.connections import SAFE_METHODS, ClientConnection

SEND_BUFFER_BYTES = 256 * 1024  # of messages on their way; Linux takes twice as many
MAX_MESSAGE_BYTES = 192 * 1024  # the receiver reads no more, so a larger one is not sent
MAX_TAKEN = 16  # connections in one turn of the loop
MIN_READS = 2  # in a row, for a connection to be passed: not one read between two changes
NOT_SERVING = 2**32 - 1  # instead of a number of connections


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
        # How many connections each worker has; shared, and each writes its own.
        self._counts = memoryview(mmap.mmap(-1, 4 * workers)).cast("I")
        for number in range(workers):
            self.end(number)
        self._number = -1

    def fileno(self) -> int:
        """Return what can be read when there is a connection to take."""
        return self._pairs[self._number][0].fileno()

    def begin(self, number: int) -> None:
        """Take connections in this process, as the worker of this number."""
        self._number = number
        self._counts[number] = 0

    def end(self, number: int | None = None) -> None:
        """Note that a worker, or this one, takes no more than what is already on its way."""
        self._counts[self._number if number is None else number] = NOT_SERVING

    def note_count(self, connections: int) -> None:
        """Note how many connections this process has."""
        if self._counts[self._number] != NOT_SERVING:
            self._counts[self._number] = connections

    def pass_on(self, conn: ClientConnection, is_short_change: bool) -> bool:
        """Pass a connection with a complete request; return whether another worker has it now."""
        if is_short_change:
            conn.reads = 0
            other = crc32(conn.host.encode()) % len(self._pairs)
        else:
            conn.reads += conn.environ["REQUEST_METHOD"] in SAFE_METHODS
            other = self._find_reader() if conn.reads >= MIN_READS else self._number
        if other == self._number or NOT_SERVING in (
            self._counts[other],
            self._counts[self._number],
        ):
            return False
        message = conn.received_request(MAX_MESSAGE_BYTES)
        if message is None:
            return False
        try:
            socket.send_fds(self._pairs[other][1], [message], [conn.sock.fileno()])
        except OSError:  # too many are on their way
            return False
        return True

    def _find_reader(self) -> int:
        """Return the worker with the fewest connections; this one if it has about as few."""
        counts = self._counts.tolist()
        fewest = min(counts)
        is_fewest = fewest + 1 >= counts[self._number]
        return self._number if is_fewest else counts.index(fewest)

    def take(self) -> Iterator[tuple[socket.socket, Any, bytes]]:
        """Yield the connections that were passed: each with its client, and what that has sent.

        Also those that were passed to a worker just as it ended.
        """
        for number, (inbox, _) in enumerate(self._pairs):
            if number == self._number or self._counts[number] == NOT_SERVING:
                yield from self._take(inbox)

    def _take(self, inbox: socket.socket) -> Iterator[tuple[socket.socket, Any, bytes]]:
        for _ in range(MAX_TAKEN):
            try:
                received, descriptors, flags, _ = socket.recv_fds(inbox, MAX_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            if not descriptors:  # this process has too many open files
                continue
            sock = socket.socket(fileno=descriptors[0])
            if flags & socket.MSG_TRUNC:  # without its end it is another request
                sock.close()
                continue
            try:
                client = sock.getpeername()
            except OSError:  # it has left
                sock.close()
            else:
                yield sock, client, received
