"""One HTTP POST to a checked address, with one deadline for all of it (D15).

Whatever the receiver does becomes an Outcome, never an exception. Its status line and headers
decide: a body cut after them does not change the status, and of a long body only MAX_ANSWER_BYTES
are read. Redirects are not followed; their status is the outcome. An Outcome has no address and no
text of this service, because tenants read it.
"""

import math
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from crm.config.readers import COUNT, Allow
from crm.deadlines import ConnectionDeadline
from crm.networks import Address
from crm.outbox import destinations
from crm.outbox.destinations import DEFAULT_PORTS, Destination
from crm.values import InvalidValue

CALL_TIMEOUT_SECONDS = 15.0
MAX_ANSWER_BYTES = 4096
MAX_HEAD_BYTES = 16_384  # of status line and headers, with any 1xx responses before them
RECEIVE_BYTES = 4096
MAX_ADDRESSES = 4  # of one name that are tried

ERROR_NAMES: dict[type[Exception], str] = {  # the first that fits
    TimeoutError: "timeout",
    destinations.NameNotResolved: "name_not_resolved",
    destinations.ForbiddenAddress: "forbidden_address",
    InvalidValue: "invalid_url",
    ConnectionRefusedError: "connection_refused",
    ssl.SSLError: "tls_failed",
    HttpParserError: "bad_answer",
    HttpParserUpgrade: "bad_answer",
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
            _wrap_in_tls(connected, destination, context) as connection,
        ):
            _send_request(connection, destination, headers, body)
            result = _read_response(connection)
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


def _wrap_in_tls(
    connected: socket.socket, destination: Destination, context: ssl.SSLContext | None
) -> socket.socket:
    """Make the handshake of https, for which the certificate must be that of the URL's host."""
    if destination.scheme == "http":
        return connected
    context = context or _default_tls_context()
    try:
        return context.wrap_socket(connected, server_hostname=destination.host)
    except TimeoutError:
        raise
    except OSError:  # any other failure of the handshake
        raise ssl.SSLError from None


@lru_cache(1)
def _default_tls_context() -> ssl.SSLContext:
    """Return a context with the system's certificates; loading them takes 20 ms and 1 MB."""
    return ssl.create_default_context()


def _send_request(
    connection: socket.socket, destination: Destination, headers: dict[str, str], body: bytes
) -> None:
    host = f"[{destination.host}]" if ":" in destination.host else destination.host
    if destination.port != DEFAULT_PORTS[destination.scheme]:
        host = f"{host}:{destination.port}"
    headers = {
        **{"Host": host, "accept-encoding": "identity", "connection": "close"},
        **{"content-length": str(len(body)), **headers},
    }
    lines = [f"POST {destination.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("ascii")
    # A receiver that refuses early may close before it has read everything; its response counts.
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        connection.sendall(b"%b\r\n\r\n%b" % (head, body))


class _Response:
    """A response, as far as it was received; the parser calls the methods `on_…`."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.head_bytes = 0
        self.status = 0  # once the head is complete that follows any 1xx responses
        self.retry_after = ""
        self.body = b""
        self.is_complete = False  # or has more than MAX_ANSWER_BYTES

    def feed(self, data: bytes) -> None:
        """Parse what was received; raises HttpParserError and HttpParserUpgrade."""
        if not self.status:
            self.head_bytes += len(data)
            if self.head_bytes > MAX_HEAD_BYTES:
                raise HttpParserError
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self.retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self.status = status if status >= 200 else 0

    def on_body(self, data: bytes) -> None:
        self.body = (self.body + data)[:MAX_ANSWER_BYTES]
        self.is_complete = len(self.body) == MAX_ANSWER_BYTES

    def on_message_complete(self) -> None:
        self.is_complete = self.status > 0


def _read_response(connection: socket.socket) -> dict[str, Any]:
    """Return the fields of an Outcome that the response gives.

    After a whole head, the body is read as far as it can be.
    """
    response = _Response()
    try:
        while not response.is_complete and (received := connection.recv(RECEIVE_BYTES)):
            response.feed(received)
    except TimeoutError:
        raise
    except (OSError, HttpParserError):
        if not response.status:
            raise
    if not response.status:
        raise HttpParserError if response.head_bytes else ConnectionResetError
    return {
        "status": response.status,
        "answer": response.body.decode("utf-8", "replace").replace("\0", "\ufffd"),
        "retry_after": _parse_retry_after(response.status, response.retry_after),
    }


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
