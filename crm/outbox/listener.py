"""A local webhook receiver that checks, shows and answers each delivery (D15, `webhook listen`).

Without a secret no signature is checked. Only programs of the same machine reach it. The size
of a request is limited, and a delivery is shown without terminal control characters.
"""

import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from socketserver import TCPServer
from threading import Thread
from typing import Any, Self

from crm.json import loads, pretty
from crm.outbox import signature
from crm.values import moment

HOST = "127.0.0.1"
MAX_BODY_BYTES = 2 * 1024 * 1024
READ_TIMEOUT_SECONDS = 10.0  # the sender waits for 15


class WebhookListener(ThreadingHTTPServer):
    """A server that listens once it is made and serves inside `with`; `next_text()` gives each
    delivery as text.

    Raises OSError when the port cannot be used.
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
        """`status` answers each delivery; without `secrets` no signature is checked."""
        self.secrets, self.status, self.clock = secrets, status, clock
        self.unread: SimpleQueue[str] = SimpleQueue()
        super().__init__((HOST, port), _Request)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        """The URL to register as a webhook."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def next_text(self) -> str:
        """Wait for the next delivery or refused request, and return it as lines to print."""
        return self.unread.get()

    def handle_error(self, *_: Any) -> None:
        """Write nothing: the sender has gone."""

    def server_bind(self) -> None:
        # Not HTTPServer's method, which looks up a host name that nobody reads.
        TCPServer.server_bind(self)


class _Request(BaseHTTPRequestHandler):
    """One connection with one request."""

    server: WebhookListener
    timeout = READ_TIMEOUT_SECONDS
    protocol_version = "HTTP/1.1"  # else `Expect: 100-continue` would get no response
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return self.send_error(411, "the body has no Content-Length")
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            return self.send_error(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return self.send_error(408, "the body did not come whole and in time")
        error = self.check_signature(body)
        self.server.unread.put(self.format_delivery(body, error))
        self.send_status(400 if error else self.server.status)

    def check_signature(self, body: bytes) -> str | None:
        """Return what is wrong with the signature, or None."""
        if not self.server.secrets:
            return None
        return signature.verify(self.server.secrets, dict(self.headers), body, self.server.clock())

    def format_delivery(self, body: bytes, error: str | None) -> str:
        """Return a line of columns separated by tabs about the delivery, then its body."""
        result = f"signature bad: {error}" if error else "signature good"
        event, text = _parse_body(body)
        columns = (
            self.format_time(),
            str(event.get("type", "-")),
            str(event.get("sequence", "-")),
            self.headers.get("webhook-id", "-"),
            result if self.server.secrets else "signature not checked",
        )
        lines = ["\t".join(map(_escape_control_characters, columns))]
        lines += map(_escape_control_characters, text.split("\n"))
        return "\n".join(lines)

    def format_time(self) -> str:
        return moment(datetime.fromtimestamp(self.server.clock(), UTC))

    def send_status(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        if status not in (204, 304):
            self.send_header("Content-Length", "0")
        self.end_headers()

    def send_error(self, *args: Any) -> None:
        super().send_error(*args)
        # Closed with bytes unread, the connection would be reset and the response lost.
        self.connection.shutdown(socket.SHUT_WR)
        while self.rfile.read1(65536):
            pass

    def log_error(self, format: str, *args: Any) -> None:
        """Show a refused request as a line, too."""
        reason = _escape_control_characters(str(args[-1]))
        self.server.unread.put(f"{self.format_time()}\trefused: {reason}")

    def log_request(self, *_: object) -> None:
        """Write nothing: format_delivery() shows the deliveries."""


def _parse_body(body: bytes) -> tuple[dict[str, Any], str]:
    """Return the event, empty if the body is not one, and the body indented for reading."""
    try:
        event = loads(body)
        return event if isinstance(event, dict) else {}, pretty(event)
    except (ValueError, TypeError, RecursionError):  # not JSON, or nested deeper than any event
        return {}, f"(no JSON: {len(body)} bytes)"


def _escape_control_characters(line: str) -> str:
    """Return the line without control characters; JSON means the same with them escaped."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
