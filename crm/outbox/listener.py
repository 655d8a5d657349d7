"""A receiver for a laptop: it checks, shows and answers each delivery (D15, `webhook listen`).

Without a secret nothing is checked. Only programs of the same machine reach it; bodies and the time
for a request are bounded, and what came is shown without characters that steer a terminal.
"""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Full, Queue
from socketserver import TCPServer
from threading import Thread, Timer
from typing import Any, Self

from crm.json import loads, pretty
from crm.outbox import signature
from crm.values import moment

HOST = "127.0.0.1"
MAX_BODY_BYTES = 2 * 1024 * 1024
REQUEST_TIMEOUT_SECONDS = (
    10.0  # for a request from its first byte to its last; the sender waits for 15
)
MAX_UNREAD = 64  # deliveries that wait to be shown; the next ones are refused


class WebhookListener(ThreadingHTTPServer):
    """Listens from the start, serves inside `with`; `next()` gives the text of a delivery.

    Raises OSError when the port cannot be had.
    """

    daemon_threads = True  # they only fill a queue: nothing is lost when the process ends
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        secrets: Sequence[str] = (),
        status: int = 204,
        clock: Callable[[], float] = time.time,
    ):
        self.secrets, self.status, self.clock = secrets, status, clock
        self.unread: Queue[str] = Queue(MAX_UNREAD)
        super().__init__((HOST, port), _Request)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        """To be registered as the endpoint's `url`."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def next(self) -> str:
        """What came, in lines to print; waits for it."""
        return self.unread.get()

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the network for a name that nobody reads.
        TCPServer.server_bind(self)


class _Request(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: WebhookListener
    protocol_version = "HTTP/1.1"  # else `Expect: 100-continue` stays without an answer
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def handle(self) -> None:
        late = Timer(REQUEST_TIMEOUT_SECONDS, self.cut)
        late.daemon = True
        late.start()
        try:
            with suppress(OSError):  # the caller has gone, or was too late
                self.handle_one_request()
        finally:
            late.cancel()

    def cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return self.send_error(411, "the body has no Content-Length")
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return self.send_error(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return self.send_error(408, "the body did not come whole and in time")
        wrong = self.wrong_with(body)
        try:
            self.server.unread.put_nowait(self.told(body, wrong))
        except Full:
            return self.send_error(503, "too much waits to be shown")
        self.answer(400 if wrong else self.server.status)

    def wrong_with(self, body: bytes) -> str | None:
        """Why the signature is bad, or None."""
        if not self.server.secrets:
            return None
        sent = {name.lower(): value for name, value in self.headers.items()}
        return signature.verify(self.server.secrets, sent, body, self.server.clock())

    def told(self, body: bytes, wrong: str | None) -> str:
        """A line of tabs about the delivery, then its body."""
        checked = f"signature bad: {wrong}" if wrong else "signature good"
        event, shown = _parse_body(body)
        parts = (
            self.time(),
            str(event.get("type", "-")),
            str(event.get("sequence", "-")),
            self.headers.get("webhook-id", "-"),
            checked if self.server.secrets else "signature not checked",
        )
        return (
            "\t".join(map(_escape_control_characters, parts))
            + "\n"
            + "\n".join(map(_escape_control_characters, shown.split("\n")))
        )

    def time(self) -> str:
        return moment(datetime.fromtimestamp(self.server.clock(), UTC))

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        if status not in (204, 304):
            self.send_header("Content-Length", "0")
        self.end_headers()

    def send_error(self, *refused: Any) -> None:
        super().send_error(*refused)
        # Closed with bytes unread, the connection would be reset and the answer lost.
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(65536):
            pass

    def log_error(self, format: str, *args: Any) -> None:
        """A refused request is shown by a line too."""
        with suppress(Full):
            self.server.unread.put_nowait(
                f"{self.time()}\trefused: {_escape_control_characters(str(args[-1]))}"
            )

    def log_request(self, *_: object) -> None:
        """Deliveries are shown by `told()`."""


def _parse_body(body: bytes) -> tuple[dict[str, Any], str]:
    """The event, empty if it is none, and the body for people."""
    try:
        found = loads(body)
        return found if isinstance(found, dict) else {}, pretty(found)
    except (ValueError, TypeError, RecursionError):  # no JSON, or nested deeper than any event
        return {}, f"(no JSON: {len(body)} bytes)"


def _escape_control_characters(line: str) -> str:
    """The line without control characters; JSON means the same with them escaped."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
