"""The connections of clients: each with its current request and response, listed by what they wait
for.
"""

import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from io import BytesIO
from typing import Any, cast

from crm.server.requests import END_OF_HEAD, MAX_HEAD_BYTES, Request, RequestRefused
from crm.server.responses import Response, make_problem

RECEIVE_BYTES = 64 * 1024
MAX_EMPTY_LINES = 4  # before a request
ALL = "all"  # instead of the name of a network
# Health checks, which wait for no other request: each is quick, or limits itself to a second.
URGENT_PATHS = frozenset({"/livez", "/readyz"})
# A full server closes a connection that is younger than this only if it finds no other one: its
# client may be about to send its request.
NEW_SECONDS = 3.0
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class State(IntEnum):
    """What a connection waits for. A full server closes those of one network in this order."""

    IDLE = 0  # for the first byte of a request
    LEAVING = 1  # for its client to close, after the last answer
    HEAD = 2  # for the rest of a request's head
    SENDING = 3  # for its client to take the answer
    BODY = 4  # for the rest of a request's body
    QUEUED = 5  # for its turn: too many slow requests are under way
    WORKING = 6  # for the application
    CLOSED = 7


class ClientConnection:
    """One connection. Only the thread of the loop uses it, except while it is WORKING."""

    def __init__(self, sock: socket.socket, networks: tuple[str, ...], environ: dict[str, Any]):
        """`environ` is the part of the WSGI environ that all requests of the connection share."""
        self.sock = sock
        self.networks = networks
        self.state = State.IDLE
        self.is_waiting = False  # while WORKING, for a lock or a database; set by its thread
        self.is_apart = False  # and other changes of its host need not wait for it
        self.opened_at = time.monotonic()
        self.until = 0.0  # monotonic seconds: the end of the time for this state
        self.send_until = 0.0  # and for the client to read the response; 0: it has read all so far
        self.watched = 0  # the events that the loop waits for
        self.reads = 0  # requests that only read, since the last short change
        self._environ = environ
        self.spool_folder: str | None = None  # for large bodies
        self.received = bytearray()  # and not parsed yet
        self._output = memoryview(b"")
        self.request: Request | None = None
        self.response: Response | None = None
        self.environ: dict[str, Any] = {}
        self._head = b""

    def receive(self) -> int:
        """Read without waiting and return the number of bytes, 0 at the end. Raises OSError."""
        data = self.sock.recv(RECEIVE_BYTES)
        if self.state is not State.LEAVING:
            self.received += data
        return len(data)

    def read_request(self) -> bool:
        """Parse what was received; return whether it is complete. Raises RequestRefused."""
        if self.request is None:
            received = self.received
            if received.startswith(b"\r"):
                self._skip_empty_lines()
            end = received.find(END_OF_HEAD, 0, MAX_HEAD_BYTES)
            if end < 0:
                if len(received) >= MAX_HEAD_BYTES:
                    raise RequestRefused(431)
                return False
            head = bytes(received[: end + 4])
            del received[: end + 4]
            self.environ, self._head = self._environ.copy(), head
            self.request = Request(head, self.environ, self.spool_folder)
        return self.request.body.take(self.received)

    def _skip_empty_lines(self) -> None:
        for _ in range(MAX_EMPTY_LINES):
            if self.received.startswith(b"\r\n"):
                del self.received[:2]
        if self.received.startswith(b"\r\n"):
            raise RequestRefused(400)

    @property
    def host(self) -> str:
        """The host that the request names, in lower case and without a port."""
        return self.environ.get("HTTP_HOST", "").lower().partition(":")[0]

    @property
    def kind(self) -> tuple[str, bool]:
        """The host of the request and whether it only reads: slow requests are counted by it.

        Of a health check, which is of no host, its path.
        """
        if (path := self.environ["PATH_INFO"]) in URGENT_PATHS:
            return path, True
        return self.host, self.environ["REQUEST_METHOD"] in SAFE_METHODS

    def received_request(self, max_bytes: int) -> bytes | None:
        """The bytes of the request, which is complete, and of what came behind it.

        None if they are more than `max_bytes`, if the body is in a file, or if it came in chunks,
        which are not held as they were.
        """
        if self.request is None or "HTTP_TRANSFER_ENCODING" in self.environ:
            return None
        file = self.request.body.file
        if len(self._head) + self.received_bytes > max_bytes or not isinstance(file, BytesIO):
            return None
        return self._head + file.getvalue() + self.received

    @property
    def received_bytes(self) -> int:
        """Bytes held of its requests, until the responses to them are complete."""
        return len(self.received) + (self.request.body.size if self.request else 0)

    @property
    def spooled_bytes(self) -> int:
        """Those of the received bytes that are in a temporary file, not in memory."""
        return self.request.body.spooled_bytes if self.request else 0

    def has_unread(self) -> bool:
        """Whether its client has sent something that is not parsed yet."""
        with suppress(OSError):
            return bool(self.received or self.sock.recv(1, socket.MSG_PEEK))
        return False

    def make_output(self, application: Callable[..., Any], keepalive: float, log: Any) -> None:
        """Let the application make the next bytes of the response.

        keepalive: seconds that the client may use the connection after the response; 0: it ends.
        log: gets the errors of the application.
        """
        response = self.response
        is_new = response is None
        if response is None:
            response = self.response = Response(cast(Request, self.request), keepalive)
        try:
            output = response.run(application) if is_new else response.next_piece()
        except (Exception, SystemExit):
            # Without the path and the headers, which contain phones and keys.
            log.exception("error while answering %s", self.environ["REQUEST_METHOD"])
            response.is_complete, response.keep_alive = True, False
            output = b"" if response.is_started else make_problem(500, self.environ)
        if response.is_complete:
            self.drop_body()  # its client may read slowly
        self._output = memoryview(output)

    def replace_response(self, data: bytes) -> None:
        """Replace a response, of which nothing was sent, unless it is a server error already.

        data: that of another response, after which the connection ends.
        """
        if self.response is not None and not self.response.is_server_error:
            self.response.is_complete, self.response.keep_alive = True, False
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

    def drop_body(self) -> None:
        """Free the request's body, and close its file: the application is done, or will not run."""
        if self.request is not None:
            self.request.body.drop()

    def end_response(self) -> None:
        """Drop the request and close its response. Raises what the application raises."""
        self.drop_body()
        self.environ.pop("wsgi.input", None)  # an error may have a traceback that has the environ
        response, self.response, self.request, self.environ = self.response, None, None, {}
        self._head = b""
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


class Waiting:
    """All connections but those that the application works for: a list for each state.

    In each list those that wait longest are first.
    """

    def __init__(self, selector: selectors.BaseSelector):
        self._selector = selector
        self._lists: dict[State, dict[ClientConnection, None]] = {state: {} for state in State}

    def __getitem__(self, state: State) -> dict[ClientConnection, None]:
        return self._lists[state]

    def __iter__(self) -> Iterator[ClientConnection]:
        for conns in self._lists.values():
            yield from conns

    def put(self, conn: ClientConnection, state: State, seconds: float) -> None:
        """Set a connection's state, for `seconds` at most, behind others in the same state."""
        self.take(conn, state)
        conn.until = time.monotonic() + seconds
        self._lists[state][conn] = None

    def take(self, conn: ClientConnection, state: State) -> None:
        """Set a connection's state, WORKING or CLOSED, in which it waits for no client."""
        self._lists[conn.state].pop(conn, None)
        conn.state = state

    def watch(self, conn: ClientConnection, events: int) -> None:
        """Set the events, reading or writing, that the loop waits for; 0: none."""
        if events == conn.watched:
            return
        if not events:
            self._selector.unregister(conn.sock)
        elif conn.watched:
            self._selector.modify(conn.sock, events, conn)
        else:
            self._selector.register(conn.sock, events, conn)
        conn.watched = events

    def find_longest(self, network: str) -> ClientConnection | None:
        """Return the connection of a network, or of ALL, that a full server is to close."""
        old_before = time.monotonic() - NEW_SECONDS
        newest = None
        for conn in self:
            if network is ALL or network in conn.networks:
                if conn.opened_at <= old_before:
                    return conn
                newest = newest or conn
        return newest
