"""One HTTP POST to a checked address, with one deadline for all of it (D15).

Whatever the receiver does becomes an Outcome, never an exception. Its status line and headers
decide: a body cut after them does not change the status, and of a long body only MAX_ANSWER_BYTES
are read. Redirects are not followed; their status is the outcome. An Outcome has no address and no
text of this service, because tenants read it.
"""

import io
import math
import socket
import ssl
import time
from collections.abc import Callable
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
from typing import Any, cast

import urllib3.connection

from crm.config import COUNT, Allow
from crm.deadlines import ConnectionDeadline
from crm.outbox import destinations
from crm.outbox.destinations import Address, Destination
from crm.values import InvalidValue

CALL_TIMEOUT_SECONDS = 15.0
MAX_ANSWER_BYTES = 4096
MAX_HEAD_BYTES = 65_536  # of status line and headers, with any 1xx responses before them
MAX_ADDRESSES = 4  # of one name that are tried

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
    """The result of a call: a status with the beginning of the body, or the name of an error.

    `retry_after` is in seconds, and only set for statuses 429 and 503.
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
    """POST the body to the URL and return what came of it, after `seconds` at the latest.

    `allow` names hosts that may be called though they are not public. `resolve` and `context`
    replace the system's resolver and TLS settings in tests. Raises nothing that the receiver, the
    network or the URL causes (D15).
    """
    began = time.monotonic()
    deadline = began + seconds
    result: dict[str, Any] = {}
    try:
        destination = destinations.parse_destination(url, allow)
        addresses = destinations.resolve_addresses(destination, allow, seconds, resolve)
        with (
            _connect(addresses[:MAX_ADDRESSES], destination.port, deadline) as connected,
            ConnectionDeadline(connected, deadline),
            closing(_make_connection(destination, connected, context)) as connection,
        ):
            result = _send_and_read(connection, destination, headers, body)
    except tuple(ERROR_NAMES) as error:
        names = (name for kind, name in ERROR_NAMES.items() if isinstance(error, kind))
        result = {"error": next(names)}
    return Outcome(round((time.monotonic() - began) * 1000), **result)


def _connect(addresses: list[Address], port: int, deadline: float) -> socket.socket:
    """Connect to the first address that accepts; the time left is shared by those not yet tried.

    `deadline` is in monotonic seconds. Raises OSError, and ForbiddenAddress if the peer is another.
    """
    for index, address in enumerate(addresses):
        untried = len(addresses) - index
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        try:
            connected = socket.create_connection((str(address), port), seconds / untried)
            break
        except OSError:
            if untried == 1:
                raise
    try:
        # A second check that the connection leads to the address that was checked.
        if ip_address(connected.getpeername()[0]) != address:
            raise destinations.ForbiddenAddress
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(max(0.001, deadline - time.monotonic()))
        return connected
    except BaseException:
        connected.close()
        raise


class _StrictReader(io.BufferedReader):
    """Reads a response and refuses what http.client accepts wrongly.

    These are headers that are cut off, and chunks of a negative size, which it reads to the end of
    the stream. At most MAX_HEAD_BYTES are read by lines.
    """

    lines_left_bytes = MAX_HEAD_BYTES

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        has_begun = self.lines_left_bytes < MAX_HEAD_BYTES
        self.lines_left_bytes -= len(line)
        if self.lines_left_bytes < 0 or (not line.endswith(b"\n") and (line or has_begun)):
            raise HTTPException
        return line

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            raise HTTPException
        return super().read(size)


class _StrictResponse(HTTPResponse):
    """A response that is read by _StrictReader."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.fp = _StrictReader(self.fp.detach())


class _GivenSocketMixin:
    """Makes a connection of urllib3 use the connected socket that it is given.

    So it resolves no name, whose addresses could differ from those that were checked.
    """

    response_class = _StrictResponse
    connected: socket.socket

    def _new_conn(self) -> socket.socket:
        return self.connected

    def getresponse(self) -> HTTPResponse:
        # Not urllib3's method, which would decompress bodies and log what receivers send.
        return HTTPConnection.getresponse(cast(HTTPConnection, self))


class _PlainConnection(_GivenSocketMixin, urllib3.connection.HTTPConnection):  # type: ignore[misc]
    """A connection by http."""


class _TLSConnection(_GivenSocketMixin, urllib3.connection.HTTPSConnection):  # type: ignore[misc]
    """A connection by https; the certificate must be that of the URL's host."""

    def connect(self) -> None:
        try:
            super().connect()
        except TimeoutError:
            raise
        except OSError:  # any other failure of the handshake
            raise ssl.SSLError from None


def _make_connection(
    destination: Destination, connected: socket.socket, context: ssl.SSLContext | None
) -> _PlainConnection | _TLSConnection:
    connection: _PlainConnection | _TLSConnection
    host, port, timeout = destination.host, destination.port, connected.gettimeout()
    if destination.scheme == "http":
        connection = _PlainConnection(host, port, timeout=timeout)
    else:
        context = context or _default_tls_context()
        connection = _TLSConnection(host, port, timeout=timeout, ssl_context=context)
    connection.connected = connected
    return connection


@lru_cache(1)
def _default_tls_context() -> ssl.SSLContext:
    """Return a context with the system's certificates; loading them takes 20 ms and 1 MB."""
    context = ssl.create_default_context()
    # urllib3 sets these at every call, while OpenSSL may be reading them in another thread.
    setattr(context, "set_alpn_protocols", lambda alpn_protocols: None)  # noqa: B010
    return context


def _send_and_read(
    connection: _PlainConnection | _TLSConnection,
    destination: Destination,
    headers: dict[str, str],
    body: bytes,
) -> dict[str, Any]:
    """Send the request and return the fields of an Outcome that the response gives."""
    connection.connect()
    all_headers = {**headers, "connection": "close"}  # "accept-encoding: identity" is the default
    # A receiver that refuses early may close before it has read everything; its response counts.
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        connection.request("POST", destination.target, body, all_headers)
    with closing(connection.getresponse()) as response:
        if response.status < 200:
            raise HTTPException
        return {
            "status": response.status,
            "answer": _read_beginning(response).decode("utf-8", "replace").replace("\0", "\ufffd"),
            "retry_after": _parse_retry_after(
                response.status, response.headers.get("retry-after", "")
            ),
        }


def _read_beginning(response: HTTPResponse) -> bytes:
    """Return the first MAX_ANSWER_BYTES of the body, or as much as can be read."""
    try:
        return response.read(MAX_ANSWER_BYTES)
    except IncompleteRead as error:
        return error.partial
    except TimeoutError:
        raise
    except (OSError, HTTPException):
        return b""


def _parse_retry_after(status: int, header: str) -> int | None:
    """Return the seconds of a Retry-After header, which has a number or a date."""
    text = header.strip()
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
