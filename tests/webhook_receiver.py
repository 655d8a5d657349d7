"""A receiver of webhooks: an HTTP server on loopback that records the requests."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.concurrency import serve_in_thread

TIMEOUT_SECONDS = 30


@dataclass
class Received:
    """One POST request as received."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)


class WebhookReceiver:
    """The requests received so far, and the function that answers them.

    `answer(received)` returns a status or (status, headers); tests replace it.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[Received], Any] = lambda received: 204
        self.url = ""
        self._changed = threading.Condition()

    def record(self, received: Received) -> Any:
        """Record the request and return what `answer` returns for it."""
        with self._changed:
            self.received.append(received)
            self._changed.notify_all()
        return self.answer(received)

    def wait_for(self, count: int, seconds: float = TIMEOUT_SECONDS) -> list[Received]:
        """Wait until at least `count` requests were received; return all of them."""
        with self._changed:
            is_done = self._changed.wait_for(lambda: len(self.received) >= count, seconds)
        assert is_done, f"{len(self.received)} of {count} requests were received"
        return list(self.received)

    def wait_until(self, condition: Callable[[], bool], seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until `condition()` is true; it is checked after each request."""
        with self._changed:
            is_true = self._changed.wait_for(condition, seconds)
        assert is_true, f"{len(self.received)} requests were received"


@contextmanager
def receive_webhooks(port: int = 0) -> Iterator[WebhookReceiver]:
    """Run a receiver that listens at `receiver.url` on 127.0.0.1."""
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender was killed while it sent
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.record(Received(self.path, headers, body))
            status, answer_headers = answer if isinstance(answer, tuple) else (answer, {})
            self.send_response(status)
            for name, value in {"Content-Length": "0", **answer_headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Write no line for each request."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """Write no traceback when a sender was killed."""

    server = Server(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    with serve_in_thread(server):
        yield receiver
