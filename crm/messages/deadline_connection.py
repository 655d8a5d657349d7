"""Connections to gateways and mail servers: trusted, and over in time whatever they do."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

from crm.deadlines import ConnectionDeadline
from crm.messages import Undelivered

STEP_TIMEOUT_SECONDS = 10.0

REASONS: dict[type[BaseException], str] = {  # the first that fits
    TimeoutError: "there was no answer in time",
    socket.gaierror: "the name of the server was not found",
    ConnectionRefusedError: "the connection was refused",
    ssl.SSLCertVerificationError: "the certificate of the server is not trusted",
    ssl.SSLError: "TLS failed",
    HTTPException: "the answer was cut, or is no HTTP",
    OSError: "the connection failed",
}


@contextmanager
def open_connection(
    host: str, port: int, tls: bool, seconds: float | None = None
) -> Iterator[socket.socket]:
    """A connection that is shut after `seconds`. What goes wrong on it is Undelivered."""
    try:
        until = time.monotonic() + (seconds or STEP_TIMEOUT_SECONDS)
        with (
            socket.create_connection((host, port), STEP_TIMEOUT_SECONDS) as plain,
            ConnectionDeadline(plain, until),
        ):
            if not tls:
                yield plain
                return
            with create_tls_context().wrap_socket(plain, server_hostname=host) as secure:
                yield secure
    except TimeoutError:
        raise Undelivered(REASONS[TimeoutError]) from None
    except (OSError, HTTPException) as failure:
        raise Undelivered(_reason(failure)) from None


def create_tls_context() -> ssl.SSLContext:
    """TLS with the certificates of the system, or of the file that `SSL_CERT_FILE` names."""
    return ssl.create_default_context()


def _reason(failure: BaseException) -> str:
    if isinstance(failure.__context__, OSError):  # smtplib tells each as a disconnection
        failure = failure.__context__
    return next(reason for kind, reason in REASONS.items() if isinstance(failure, kind))
