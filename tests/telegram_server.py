"""A stand-in for the HTTP API of Telegram's bots on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import wait_for

TOKEN = "1234:t0ken-of-the-bot"
POLL_SECONDS = 0.2  # that it waits for an update, whatever it is asked


class TelegramServer:
    """What was sent by the bot, what is sent to it, and how it answers."""

    def __init__(self) -> None:
        self.url = ""
        self.sent: list[tuple[str, str]] = []  # (chat, text)
        self.status = 200
        self.delay_seconds = 0.0  # before a message is answered, once it has arrived
        self._updates: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def receive(self, text: str, chat: int = 7001, kind: str = "private") -> None:
        """Let somebody send a text to the bot."""
        with self._changed:
            message = {
                "text": text,
                "chat": {"id": chat, "type": kind},
                "from": {"language_code": "en"},
            }
            number = 500 + len(self._updates)
            self._updates.append({"update_id": number, "message": message})
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[tuple[str, str]]:
        """Wait for so many messages of the bot, and return all."""
        wait_for(lambda: len(self.sent) >= count, what=lambda: f"{self.sent}")
        return self.sent

    def answer(self, method: str, sent: dict[str, Any]) -> tuple[int, Any]:
        if method == "getMe":
            return 200, {"username": "acme_bot"}
        if method == "getUpdates":

            def newer() -> list[dict[str, Any]]:
                return [update for update in self._updates if update["update_id"] >= sent["offset"]]

            with self._changed:
                self._changed.wait_for(newer, POLL_SECONDS)
                return 200, newer()
        assert method == "sendMessage"
        if self.status == 200:
            self.sent.append((sent["chat_id"], sent["text"]))
            threading.Event().wait(self.delay_seconds)
        return self.status, {}


@contextmanager
def serve_telegram() -> Iterator[TelegramServer]:
    """Serve until the block ends."""
    telegram = TelegramServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            token, method = self.path.removeprefix("/bot").split("/")
            status, result = telegram.answer(method, sent) if token == TOKEN else (401, {})
            body = json.dumps({"ok": status == 200, "result": result}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing: the CRM has ended meanwhile."""

    with Server(("127.0.0.1", 0), Handler) as server:
        telegram.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield telegram
        server.shutdown()
