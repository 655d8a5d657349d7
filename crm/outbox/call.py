"""One POST to a checked address, under one deadline for all of it (D15).

What the other side does, or fails to do, is an Outcome, never an exception. A receiver has spoken
with its status line and headers: a body that is cut after them doesn't change the status, and of a
long one the first 4096 bytes are read. Redirects are not followed: their status is the outcome. An
Outcome tells no address and no text of ours, because tenants read it.
"""

import io
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    IncompleteRead,
    RemoteDisconnected,
)
from ipaddress import ip_address
from typing import Any

import urllib3.connection

from crm.config import COUNT, Allow
from crm.deadlines import ConnectionDeadline
from crm.outbox import destinations
from crm.outbox.destinations import Address, Destination
from crm.values import InvalidValue

CALL_TIMEOUT_SECONDS = 15.0
MAX_ANSWER_BYTES = 4096
MAX_HEAD_BYTES = 65_536  # of a status line and headers, with the interim answers before them
MAX_ADDRESSES = 4  # addresses of one name

ERROR_NAMES: dict[type[Exception], str] = {  # the first that fits
    TimeoutError: "timeout",
    destinations.NameNotResolved: "name_not_resolved",
    destinations.ForbiddenAddress: "forbidden_address",
    InvalidValue: "invalid_url",
    ConnectionRefusedError: "connection_refused",
    ssl.SSLError: "tls_failed",
    RemoteDisconnected: "connection_failed",
    HTTPException: "bad_answer",
    OSError: "connection_failed",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: either a status with the beginning of the answer, or an error by name.

    `retry_after` is in seconds and comes from answers 429 and 503 only.
    """

    duration_ms: int
    status: int | None = None
    error: str | None = None
    answer: str | None = None
    retry_after: int | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and self.status is not None and 200 <= self.status < 300


def http_post(
    url: str,
    headers: dict[str, str],
    body: bytes,
    allow: Allow,
    *,
    seconds: float = CALL_TIMEOUT_SECONDS,
    resolve: Callable[..., list] = socket.getaddrinfo,
    context: ssl.SSLContext | None = None,
) -> Outcome:
    """Send the body; done after `seconds` at the latest, whatever the other side does."""
    began = time.monotonic()
    told: dict[str, Any] = {}
    try:
        to = destinations.parse_destination(url, allow)
        found = destinations.resolve_addresses(to, allow, seconds, resolve)
        with (
            _connect(found[:MAX_ADDRESSES], to.port, began + seconds) as dialed,
            ConnectionDeadline(dialed, began + seconds),
            closing(_make_connection(to, dialed, context)) as connection,
        ):
            told = _send_and_read(connection, to, headers, body)
    except tuple(ERROR_NAMES) as failure:
        told = {
            "error": next(name for kind, name in ERROR_NAMES.items() if isinstance(failure, kind))
        }
    return Outcome(round((time.monotonic() - began) * 1000), **told)


def _connect(found: list[Address], port: int, deadline: float) -> socket.socket:
    """A connection to the first address that takes one; each has its share of the time left."""
    for left, address in zip(range(len(found) - 1, -1, -1), found, strict=True):
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        try:
            dialed = socket.create_connection((str(address), port), seconds / (left + 1))
            break
        except OSError:
            if not left:
                raise
    try:
        if ip_address(dialed.getpeername()[0]) != address:
            raise destinations.ForbiddenAddress
        dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialed.settimeout(max(0.001, deadline - time.monotonic()))
        return dialed
    except BaseException:
        dialed.close()
        raise


class _StrictReader(io.BufferedReader):
    """What comes, by lines: http.client takes cut headers for whole ones, and a chunk of negative
    size for all that will ever come."""

    room = MAX_HEAD_BYTES

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        begun = self.room < MAX_HEAD_BYTES
        self.room -= len(line)
        if self.room < 0 or (not line.endswith(b"\n") and (line or begun)):
            raise HTTPException
        return line

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            raise HTTPException
        return super().read(size)


class _StrictResponse(HTTPResponse):
    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.fp = _StrictReader(self.fp.detach())


class _GivenSocketMixin:
    """A connection that uses the socket it is given and never looks a name up."""

    response_class = _StrictResponse
    dialed: socket.socket

    def _new_conn(self) -> socket.socket:
        return self.dialed

    def getresponse(self) -> HTTPResponse:
        # Not urllib3's, which would decompress bodies and log what strangers send.
        return HTTPConnection.getresponse(self)


class _PlainConnection(_GivenSocketMixin, urllib3.connection.HTTPConnection):
    """http."""


class _TLSConnection(_GivenSocketMixin, urllib3.connection.HTTPSConnection):
    """https; the certificate must be of the URL's host."""

    def connect(self) -> None:
        try:
            super().connect()
        except TimeoutError:
            raise
        except OSError:  # whatever ends a handshake
            raise ssl.SSLError from None


def _make_connection(
    to: Destination, dialed: socket.socket, context: ssl.SSLContext | None
) -> _PlainConnection | _TLSConnection:
    if to.scheme == "http":
        connection = _PlainConnection(to.host, to.port, timeout=dialed.gettimeout())
    else:
        connection = _TLSConnection(
            to.host,
            to.port,
            timeout=dialed.gettimeout(),
            ssl_context=context or _default_tls_context(),
        )
    connection.dialed = dialed
    return connection


@lru_cache(1)
def _default_tls_context() -> ssl.SSLContext:
    """With the certificates of the system; one for all threads, as it takes 20 ms and 1 MB."""
    context = ssl.create_default_context()
    # urllib3 sets these at every call, while OpenSSL may be reading them in another thread.
    context.set_alpn_protocols = lambda protocols: None
    return context


def _send_and_read(
    connection: _PlainConnection | _TLSConnection,
    to: Destination,
    headers: dict[str, str],
    body: bytes,
) -> dict[str, Any]:
    connection.connect()
    sent = {**headers, "connection": "close"}  # "accept-encoding: identity" is its default
    # One who refuses early may close before reading all; the refusal is there to be read.
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        connection.request("POST", to.target, body, sent)
    with closing(connection.getresponse()) as response:
        if response.status < 200:
            raise HTTPException
        return {
            "status": response.status,
            "answer": _read_beginning(response).decode("utf-8", "replace").replace("\0", "\ufffd"),
            "retry_after": _parse_retry_after(response.status, response.headers),
        }


def _read_beginning(response: HTTPResponse) -> bytes:
    try:
        return response.read(MAX_ANSWER_BYTES)
    except IncompleteRead as cut:
        return cut.partial
    except TimeoutError:
        raise
    except (OSError, HTTPException):
        return b""


def _parse_retry_after(status: int, headers: Mapping[str, str]) -> int | None:
    text = headers.get("retry-after", "").strip()
    if status not in (429, 503) or not text:
        return None
    if COUNT.match(text):
        return int(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    wait = when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)
    return max(0, math.ceil(wait.total_seconds()))
