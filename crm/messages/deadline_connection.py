"""Connections to gateways of messages, mail servers and the public URL, with a deadline for the
whole exchange; requests over them."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from crm.deadlines import ConnectionDeadline
from crm.messages import Undelivered

STEP_TIMEOUT_SECONDS = 10.0  # to connect, and for each read and write


@contextmanager
def open_connection(
    host: str, port: int, tls: bool, seconds: float | None = None
) -> Iterator[socket.socket]:
    """Connect to a server and yield the socket, which is shut down after `seconds`.

    Without `seconds` the deadline is STEP_TIMEOUT_SECONDS, which also limits each single step.
    Any failure of the network inside the block is raised as Undelivered.
    """
    try:
        deadline = time.monotonic() + (seconds or STEP_TIMEOUT_SECONDS)
        address = "127.0.0.1" if host.endswith(".localhost") else host  # which few systems resolve
        with (
            socket.create_connection((address, port), STEP_TIMEOUT_SECONDS) as plain,
            ConnectionDeadline(plain, deadline),
        ):
            if not tls:
                yield plain
                return
            # With the system's certificates, or those in the SSL_CERT_FILE.
            context = ssl.create_default_context()
            with context.wrap_socket(plain, server_hostname=host) as secure:
                yield secure
    except (OSError, HTTPException) as error:
        # smtplib makes each of them a disconnection.
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        if TimeoutError in (type(error), type(cause)):
            raise Undelivered("there was no answer in time") from None
        # Not its text, which may have the server's words.
        reason = getattr(cause, "strerror", None) or type(cause).__name__
        raise Undelivered(f"the connection failed: {reason}") from None


def send_request(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None = None,
    max_answer_bytes: int = 0,
    seconds: float | None = None,
) -> tuple[int, bytes, Message]:
    """Send one request; return the response's status, the first `max_answer_bytes` of its body, and
    its headers.

    By the standard library, because urllib3 logs URLs, which may contain phone and text. Redirects
    are not followed. `seconds`: as of open_connection(). Raises Undelivered.
    """
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    all_headers = {"Host": parts.netloc, "User-Agent": "crm", "Connection": "close", **headers}
    with (
        open_connection(host, port, tls, seconds) as connected,
        closing(HTTPConnection(host, port)) as connection,
    ):
        connection.sock = connected
        connection.request(method, target, body, all_headers)
        with connection.getresponse() as response:
            content = response.read(max_answer_bytes) if max_answer_bytes else b""
            return response.status, content, response.headers
