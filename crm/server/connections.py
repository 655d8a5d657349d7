"""One client's connection: its current request and response."""

import socket
import sys
from contextlib import suppress
from enum import IntEnum
from typing import Any

from crm.server.bounds import Bound
from crm.server.requests import END_OF_HEAD, MAX_HEAD_BYTES, Request, RequestRefused
from crm.server.responses import Response

RECEIVE_BYTES = 64 * 1024
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class State(IntEnum):
    """What a connection waits for. A full server closes connections in this order."""

    IDLE = 0  # for the first byte of a request
    LEAVING = 1  # for its client to close, after the last answer
    HEAD = 2  # for the rest of a request's head
    SENDING = 3  # for its client to take the answer
    BODY = 4  # for the rest of a request's body
    QUEUED = 5  # for its turn: too many slow requests are under way
    WORKING = 6  # for the application
    CLOSED = 7


class Connection:
    """One connection. Only the thread of the loop uses it, except while it is WORKING."""

    __slots__ = (
        "_environ",
        "_output",
        "_received",
        "environ",
        "_held",
        "_held_in",
        "networks",
        "request",
        "response",
        "send_until",
        "sock",
        "state",
        "until",
        "watched",
    )

    def __init__(self, sock: socket.socket, networks: tuple[str, ...], environ: dict[str, Any]):
        """`environ` is the part of the WSGI environ that all requests of the connection share."""
        self.sock = sock
        self.networks = networks
        self.state = State.IDLE
        self.until = 0.0  # monotonic seconds: the end of the time for this state
        self.send_until = 0.0  # and for the client to read the response; 0: it has read all so far
        self.watched = 0  # the events that the loop waits for
        self._held = 0
        self._held_in: Bound | None = None
        self._environ = environ
        self._received = bytearray()
        self._output = memoryview(b"")
        self.request: Request | None = None
        self.response: Response | None = None
        self.environ: dict[str, Any] = {}

    def receive(self) -> int:
        """Read without waiting and return the number of bytes, 0 at the end. Raises OSError."""
        data = self.sock.recv(RECEIVE_BYTES)
        if self.state is State.LEAVING:
            self._received.clear()
        else:
            self._received += data
        return len(data)

    def read_request(self) -> bool:
        """Parse what was received; return whether it is complete. Raises RequestRefused."""
        if self.request is None:
            received = self._received
            while received[:2] == b"\r\n":  # empty lines before a request are allowed
                del received[:2]
            end = received.find(END_OF_HEAD, 0, MAX_HEAD_BYTES)
            if end < 0:
                if len(received) >= MAX_HEAD_BYTES:
                    raise RequestRefused(431)
                return False
            head = bytes(received[: end + 4])
            del received[: end + 4]
            self.environ = self._environ.copy()
            self.request = Request(head, self.environ)
        return self.request.take_body(self._received)

    @property
    def kind(self) -> tuple[str, bool]:
        """The host of the request and whether it only reads: slow requests are counted by it."""
        host = self.environ.get("HTTP_HOST", "").lower().partition(":")[0]
        return host, self.environ["REQUEST_METHOD"] in SAFE_METHODS

    @property
    def received_bytes(self) -> int:
        """Bytes held of requests that are incomplete or wait."""
        return len(self._received) + (len(self.request.body) if self.request else 0)

    def put_output(self, data: bytes) -> None:
        """Set the bytes to send next, once all bytes before them are sent."""
        self._output = memoryview(data)

    @property
    def output_bytes(self) -> int:
        """Bytes of the response that are held until the client reads them."""
        return len(self._output)

    def send(self) -> int:
        """Send as much as possible without waiting; return its size. Raises OSError."""
        if not self._output:
            return 0
        try:
            sent_bytes = self.sock.send(self._output)
        except BlockingIOError:
            return 0
        self._output = self._output[sent_bytes:]
        return sent_bytes

    def send_briefly(self, data: bytes) -> None:
        """Send a few bytes if it is possible without waiting, else nothing."""
        with suppress(OSError):
            self.sock.send(data)

    def hold(self, bound: Bound, amount: int) -> None:
        """Count the bytes that are held for it in a bound, instead of those counted before."""
        self.release()
        self._held, self._held_in = amount, bound
        bound.add(self.networks, amount)

    def release(self) -> None:
        """Stop counting bytes that are held for it."""
        if self._held_in is not None:
            self._held_in.remove(self.networks, self._held)
            self._held, self._held_in = 0, None

    def end_response(self) -> None:
        """Drop the request and close its response. Raises what the application raises."""
        response, self.response, self.request = self.response, None, None
        self._output = memoryview(b"")
        self.send_until = 0.0
        if response is not None:
            response.close()


def make_base_environ(server: Any, client: Any) -> dict[str, Any]:
    """Return the part of the environ that all requests of a connection share (PEP 3333)."""
    if not isinstance(client, tuple):  # a Unix socket
        server, client = ("localhost", 80), ("", "")
    return {
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "SCRIPT_NAME": "",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_SOFTWARE": "crm",
        "wsgi.errors": sys.stderr,
        "wsgi.input_terminated": True,
        "wsgi.multiprocess": True,
        "wsgi.multithread": True,
        "wsgi.run_once": False,
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
    }
