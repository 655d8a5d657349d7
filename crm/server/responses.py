"""Responses: those of a WSGI application as bytes of HTTP/1.1, and those of the server itself."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from werkzeug.http import HTTP_STATUS_CODES

from crm import log
from crm.server.requests import Request

# How much of a response is made at a time; the rest is made when the client has read that.
PIECE_BYTES = 256 * 1024
NO_BODY = ("1", "204", "304")


class Response:
    """The response to one request, made piece by piece as its client reads it."""

    def __init__(self, request: Request, keepalive: float):
        """`keepalive`: seconds that the client may use the connection after that; 0: it ends."""
        self.request = request
        self._keepalive = keepalive
        self.keep_alive = keepalive > 0 and request.keep_alive and not request.body.is_cut
        self.is_started = False  # bytes of it were returned
        self.is_complete = False
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._body: Any = None
        self._parts: Iterator[bytes] = iter(())
        self._next_parts: list[bytes] = []  # what is in none of the pieces so far
        self._left: int | None = None  # of Content-Length
        self._chunked = self._is_broken = False
        self._sends_body = request.environ["REQUEST_METHOD"] != "HEAD"

    @property
    def is_server_error(self) -> bool:
        """Whether the application answers that it has failed."""
        return self._status.startswith("5")

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], Any]:
        """WSGI's start_response."""
        if exc_info and self.is_started:
            raise exc_info[1].with_traceback(exc_info[2])
        if self._status and not exc_info:
            raise RuntimeError("start_response was called twice")
        self._status, self._headers = status, headers
        return lambda data: self._next_parts.append(data)

    def run(self, application: Callable[..., Any]) -> bytes:
        """Call the application and return the first bytes. Raises what the application raises."""
        environ, file = self.request.environ, self.request.body.file
        file.seek(0)
        environ["wsgi.input"] = file
        self._body = application(environ, self.start)
        self._parts = iter(self._body)
        return self.next_piece()

    def next_piece(self) -> bytes:
        """Return the next bytes to send; set `is_complete` if they are the last ones.

        Raises what the application raises, unless there are bytes before the error: then the
        response and the connection end after them.
        """
        pieces, self._next_parts = self._next_parts, []
        size, error = sum(map(len, pieces)), None
        try:
            for part in self._parts:
                if size >= PIECE_BYTES and part:  # so the last piece is known as the last one
                    self._next_parts.append(part)
                    break
                pieces.append(part)
                size += len(part)
                if part and self._may_take_long():
                    break
            else:
                self.is_complete = True
        except Exception as raised:
            if not pieces or not self._status:
                raise
            error = raised
        head = b""
        if not self.is_started:
            if not self._status:
                raise RuntimeError("the application gave no status")
            head = self._make_head(size)
            self.is_started = True
        body = b"".join(pieces)
        if error is not None:
            self.is_complete = self._is_broken = True
            self.keep_alive = False
            about = {"about": log.describe_request(self.request.environ)}
            log.log.error("an answer broke off", exc_info=error, extra=about)
        return head + self._framed(body)

    def _may_take_long(self) -> bool:
        """Whether the response has not begun, and how much follows is not known yet."""
        is_known = hasattr(self._body, "__len__") or "Content-Length" in dict(self._headers)
        return not (self.is_started or is_known)

    def _make_head(self, size: int) -> bytes:
        """Return the head of the response; `size` is the body's length if it is complete."""
        has_length = has_date = False
        lines = [f"HTTP/1.1 {self._status}"]
        for name, value in self._headers:
            lowered = name.lower()
            if lowered == "content-length":
                has_length, self._left = True, int(value)
            elif lowered == "date":
                has_date = True
            elif lowered in ("connection", "transfer-encoding", "keep-alive"):
                continue  # the connection is the server's, not the application's
            lines.append(f"{name}: {value}")
        if self._status.startswith(NO_BODY):
            self._sends_body = False
        elif not has_length:
            if self.is_complete and self._sends_body:
                lines.append(f"Content-Length: {size}")
                self._left = size
            elif self._sends_body and self.request.is_http_1_1:
                lines.append("Transfer-Encoding: chunked")
                self._chunked = True
            elif self._sends_body:
                self.keep_alive = False  # the end of the connection is the end of the body
        if not has_date:
            lines.append(f"Date: {_http_date(int(time.time()))}")
        if self.keep_alive:
            lines.append("Connection: keep-alive")
            lines.append(f"Keep-Alive: timeout={int(self._keepalive)}")
        else:
            lines.append("Connection: close")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a header of the answer holds a line break")
        return f"{head}\r\n\r\n".encode("latin-1")

    def _framed(self, body: bytes) -> bytes:
        if not self._sends_body:
            return b""
        if self._chunked:
            framed = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            return framed + (b"0\r\n\r\n" if self.is_complete and not self._is_broken else b"")
        if self._left is not None:
            body = body[: self._left]
            self._left -= len(body)
            if self.is_complete and self._left:
                self.keep_alive = False  # cut short: only closing the connection shows that
        return body

    def close(self) -> None:
        """Notify the application that its response was sent, or that the client disconnected."""
        body, self._body = self._body, None
        if hasattr(body, "close"):
            body.close()


@lru_cache(maxsize=2)
def _http_date(seconds: int) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(seconds))


# The same codes as the application's for these statuses.
_PROBLEMS = {
    400: ("bad_request", "this is not a valid HTTP/1.1 request"),
    408: ("request_timeout", "the request came too slowly"),
    413: ("too_large", "the body is larger than allowed"),
    414: ("request_uri_too_long", "the request's address is too long"),
    417: ("expectation_failed", "the only expectation understood is 100-continue"),
    431: ("request_header_fields_too_large", "the request's headers are too long"),
    500: ("internal_error", "something went wrong on our side"),
    501: ("not_implemented", "the only transfer coding understood is chunked"),
    503: ("busy", "the server has too much to do at this moment, try again"),
    507: ("storage_full", "the service cannot store the body now: its disk is full"),
}


def make_problem(status: int, environ: dict[str, Any]) -> bytes:
    """Return a whole response in the format of all errors (D14), and write its log line.

    `environ` is that of the refused request, as far as it was read.
    """
    code, detail = _PROBLEMS[status]
    path = environ.get("PATH_INFO") or "/"
    request_id = secrets.token_hex(12)
    about = log.describe_request(environ) | {"request_id": request_id}
    log.log_request(status, at_once=True, **about)
    content = json.dumps(
        {
            "type": "about:blank",
            "title": HTTP_STATUS_CODES[status],
            "status": status,
            "detail": detail,
            "instance": path.encode("latin-1").decode(errors="replace"),
            "code": code,
            "request_id": request_id,
        }
    )
    retry_after = ["Retry-After: 5"] if status in (503, 507) else []
    lines = [
        f"HTTP/1.1 {status} {HTTP_STATUS_CODES[status]}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(content)}",
        "X-Content-Type-Options: nosniff",
        f"X-Request-Id: {request_id}",
        *("Connection: close", *retry_after, "", content),
    ]
    return "\r\n".join(lines).encode()
