"""One client's connection: what came over it, its line, and what it is told when refused."""

import io
import json
import re
import secrets
import select
import socket
import time
from typing import Any

from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    NoMoreData,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from werkzeug.http import HTTP_STATUS_CODES

from crm import log

IDLE, HEAD, BODY, LEAVING = "idle", "head", "body", "leaving"


class Connection:
    """One client: what has come from it, and the moment until which the loop waits for more."""

    def __init__(self, sock: "Line", client: Any, server: Any) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.state = IDLE
        self.until = 0.0
        self.buffer = bytearray()
        self.forget()

    def forget(self) -> None:
        self.request: Any = None
        self.body = bytearray()

    @property
    def held(self) -> int:
        return len(self.buffer) + len(self.body)

    def take_head(self, cfg: Any, most: int) -> bool:
        """Whether the request's head is here, parsed. gunicorn's parser refuses what is unclear."""
        end = self.buffer.find(b"\r\n\r\n", 0, most)
        if end < 0:
            if len(self.buffer) >= most:
                raise Refused(431)
            return False
        head = bytes(self.buffer[: end + 4])
        del self.buffer[: end + 4]
        try:
            self.request = Request(cfg, IterUnreader([head]), self.client)
        except (ParseException, NoMoreData) as error:
            raise Refused(_STATUS.get(type(error), 400)) from error
        return True

    def take_body(self, most: int) -> bool:
        """Whether the request's body is here, complete; the application then reads it."""
        reader = self.request.body.reader
        if isinstance(reader, ChunkedReader):
            if not self.take_chunks(most):
                return False
        else:
            if reader.length > most:
                raise Refused(413)
            if len(self.buffer) < reader.length:
                return False
            self.body = self.buffer[: reader.length]
            del self.buffer[: reader.length]
        self.request.body = io.BytesIO(self.body)
        self.body = bytearray()
        return True

    def take_chunks(self, most: int) -> bool:
        buffer = self.buffer
        while True:
            line = buffer.find(b"\r\n", 0, _CHUNK_LINE)
            if line < 0:
                if len(buffer) >= _CHUNK_LINE:
                    raise Refused(400)
                return False
            said = _CHUNK_SIZE.fullmatch(buffer, 0, line)
            if not said:
                raise Refused(400)
            size = int(said[1], 16)
            if len(self.body) + size > most:
                raise Refused(413)
            if size == 0:
                return self.take_trailers(line)
            start = line + 2
            if len(buffer) < start + size + 2:
                return False
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise Refused(400)
            self.body += buffer[start : start + size]
            del buffer[: start + size + 2]

    def take_trailers(self, line: int) -> bool:
        """Trailers are dropped: nobody asks for them."""
        end = self.buffer.find(b"\r\n\r\n", line, _CHUNK_LINE)
        trailers = self.buffer[line : end if end >= 0 else _CHUNK_LINE]
        if trailers.count(b"\n") != trailers.count(b"\r\n"):
            raise Refused(400)
        if end < 0:
            if len(self.buffer) >= _CHUNK_LINE:
                raise Refused(400)
            return False
        del self.buffer[: end + 4]
        return True


_CHUNK_LINE = 8192
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")


class Line(socket.socket):
    """A socket that never blocks, except a thread that sends, and that not for ever."""

    def allow(self, seconds: float, rate: float) -> None:
        """How long the coming answer may wait for its reader; `rate` earns the time back."""
        self.spare = self.most = seconds
        self.rate = rate
        self.answering = False

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.answering = True
        rest = memoryview(data)
        while rest:
            try:
                sent = self.send(rest)
            except BlockingIOError:
                self.wait_to_send()
                continue
            except OSError as error:
                raise Gone from error
            self.spare = min(self.spare + sent / self.rate, self.most)
            rest = rest[sent:]

    def wait_to_send(self) -> None:
        began = time.monotonic()
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        poll.poll(max(0.0, self.spare) * 1000)
        self.spare -= time.monotonic() - began
        if self.spare <= 0:
            raise Gone

    def say(self, words: bytes) -> None:
        """Send a few bytes if the client has room for them."""
        try:
            self.send(words)
        except OSError:
            return


class Gone(OSError):
    """The client left, or doesn't read its answer."""


class Refused(Exception):
    """The request is answered with `status` and never reaches the application."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


_STATUS = {
    LimitRequestLine: 414,
    LimitRequestHeaders: 431,
    UnsupportedTransferCoding: 501,
    ExpectationFailed: 417,
}
# The codes that the application gives for the same status.
_PROBLEMS = {
    400: ("bad_request", "this is not a valid HTTP/1.1 request"),
    408: ("request_timeout", "the request came too slowly"),
    413: ("too_large", "the body is larger than allowed"),
    414: ("request_uri_too_long", "the request's address is too long"),
    417: ("expectation_failed", "the only expectation understood is 100-continue"),
    431: ("request_header_fields_too_large", "the request's headers are too long"),
    500: ("internal_error", "something went wrong on our side"),
    501: ("not_implemented", "the only transfer coding understood is chunked"),
    503: ("busy", "too many long requests are arriving at once, try again"),
}


def problem(status: int, path: str | None, method: str | None = None) -> bytes:
    """The answer when the application gave none, in the shape of all errors (D14); the log is
    told of it."""
    code, detail = _PROBLEMS[status]
    request_id = secrets.token_hex(12)
    method = method if method in log.METHODS else "other"
    log.tell(status, request_id=request_id, tenant=None, route=None, method=method)
    body = {
        "type": "about:blank",
        "title": HTTP_STATUS_CODES[status],
        "status": status,
        "detail": detail,
        "instance": path or "/",
        "code": code,
        "request_id": request_id,
    }
    content = json.dumps(body)
    head = (
        f"HTTP/1.1 {status} {HTTP_STATUS_CODES[status]}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(content)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        "Connection: close\r\n"
    )
    retry = "Retry-After: 5\r\n" if status == 503 else ""
    return f"{head}{retry}\r\n{content}".encode()
