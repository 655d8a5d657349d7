"""A receiver of webhooks on loopback: a real HTTP server that keeps what comes."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 10  # seconds for what has to come


@dataclass
class Received:
    """One POST as it came."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)


class Hook:
    """What came, and what is answered: `answer(received)` gives a status, or (status, headers)."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[Received], Any] = lambda received: 204
        self.url = ""
        self._came = threading.Condition()

    def take(self, received: Received) -> Any:
        with self._came:
            self.received.append(received)
            self._came.notify_all()
        return self.answer(received)

    def wait_for(self, count: int, seconds: float = PATIENCE) -> list[Received]:
        """The POSTs that came, as soon as there are so many."""
        with self._came:
            came = self._came.wait_for(lambda: len(self.received) >= count, seconds)
        assert came, f"{len(self.received)} of {count} came"
        return list(self.received)

    def wait_until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        with self._came:
            assert self._came.wait_for(holds, seconds), f"{len(self.received)} came"


@contextmanager
def receiving(port: int = 0) -> Iterator[Hook]:
    """A hook that listens at `hook.url` on 127.0.0.1."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # its sender was killed
            names = {name.lower(): value for name, value in self.headers.items()}
            told = hook.take(Received(self.path, names, body))
            status, headers = told if isinstance(told, tuple) else (told, {})
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Not on the screen."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: Any) -> None:
            """A sender that was killed."""

    server = Server(("127.0.0.1", port), Handler)
    hook.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
