"""A local webhook receiver that checks, shows and answers each delivery (D15, `webhook listen`).

Without a secret no signature is checked. Only programs of the same machine reach it. The size
of a request is limited, and a delivery is shown without terminal control characters.
"""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self

from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.serving import WSGIRequestHandler, make_server

from crm.json import loads, pretty
from crm.outbox import signature
from crm.values import moment

HOST = "127.0.0.1"
MAX_BODY_BYTES = 2 * 1024 * 1024
READ_TIMEOUT_SECONDS = 10.0  # the sender waits for 15


class _Connection(WSGIRequestHandler):
    timeout = READ_TIMEOUT_SECONDS

    def log(self, *_: object) -> None:
        """Write nothing: the listener shows the deliveries."""


class WebhookListener:
    """A server that listens once it is made and serves inside `with`; `next_text()` gives each
    delivery as text.

    Raises OSError when the port cannot be used.
    """

    def __init__(
        self,
        port: int,
        secrets: Sequence[str] = (),
        status: int = 204,
        clock: Callable[[], float] = time.time,
    ):
        """`status` answers each delivery; without `secrets` no signature is checked."""
        self._secrets, self._status, self._clock = secrets, status, clock
        self._unread: SimpleQueue[str] = SimpleQueue()
        # Opened here, because make_server() would end the process if the port is in use.
        with socket.create_server((HOST, port), backlog=128) as opened:
            self.port: int = opened.getsockname()[1]
            options: dict[str, Any] = {"threaded": True, "request_handler": _Connection}
            self._server = make_server(
                HOST, self.port, self._receive, fd=opened.fileno(), **options
            )

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()  # which closes the socket

    @property
    def address(self) -> str:
        """The URL to register as a webhook."""
        return f"http://{HOST}:{self.port}/"

    def next_text(self) -> str:
        """Wait for the next delivery or refused request, and return it as lines to print."""
        return self._unread.get()

    def _receive(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        request.max_content_length = MAX_BODY_BYTES
        try:
            if request.method != "POST":
                raise MethodNotAllowed(["POST"])
            body = request.get_data()
        except HTTPException as refusal:
            self._unread.put(f"{self._now()}\trefused: {refusal.description}")
            return refusal(environ, start_response)
        fault = None
        if self._secrets:
            headers = dict(request.headers)
            fault = signature.verify(self._secrets, headers, body, self._clock())
        self._unread.put(self._format_delivery(request, body, fault))
        return Response(status=400 if fault else self._status)(environ, start_response)

    def _format_delivery(self, request: Request, body: bytes, fault: str | None) -> str:
        """Return a line of columns separated by tabs about the delivery, then its body."""
        result = f"signature bad: {fault}" if fault else "signature good"
        event, text = _parse_body(body)
        columns = (
            self._now(),
            str(event.get("type", "-")),
            str(event.get("sequence", "-")),
            request.headers.get("webhook-id", "-"),
            result if self._secrets else "signature not checked",
        )
        lines = ["\t".join(map(_escape_control_characters, columns))]
        lines += map(_escape_control_characters, text.split("\n"))
        return "\n".join(lines)

    def _now(self) -> str:
        return moment(datetime.fromtimestamp(self._clock(), UTC))


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
