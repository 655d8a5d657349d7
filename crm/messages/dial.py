"""Connections to gateways and mail servers: trusted, and over in time whatever they do."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException

from crm.messages import Undelivered

SECONDS = 10.0

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
def dialed(
    host: str, port: int, tls: bool, seconds: float | None = None
) -> Iterator[socket.socket]:
    """A connection that is shut after `seconds`. What goes wrong on it is Undelivered."""
    watch = _Watch()
    try:
        until = time.monotonic() + (seconds or SECONDS)
        with (
            socket.create_connection((host, port), SECONDS) as plain,
            watch.over(plain, until - time.monotonic()),
        ):
            if not tls:
                yield plain
                return
            with trusting().wrap_socket(plain, server_hostname=host) as secure:
                yield secure
    except (OSError, HTTPException, Undelivered) as failure:
        if watch.barked:  # whatever became of it: it was cut
            raise Undelivered(REASONS[TimeoutError]) from None
        if isinstance(failure, Undelivered):
            raise
        raise Undelivered(_reason(failure)) from None


def trusting() -> ssl.SSLContext:
    """TLS with the certificates of the system, or of the file that `SSL_CERT_FILE` names."""
    return ssl.create_default_context()


class _Watch:
    """Shuts a connection when its time is over: timeouts of sockets count from byte to byte, so
    one who answers slowly could hold it for ever."""

    barked = False

    @contextmanager
    def over(self, dialed: socket.socket, seconds: float) -> Iterator[None]:
        lock = threading.Lock()
        watched = dialed.dup()  # TLS takes the socket over, and a closed number may be reused

        def bark() -> None:
            with lock, suppress(OSError):
                self.barked = True
                watched.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, seconds), bark)
        timer.daemon = True
        with suppress(RuntimeError):  # none starts while the process ends; the timeouts remain
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with lock:
                watched.close()


def _reason(failure: BaseException) -> str:
    if isinstance(failure.__context__, OSError):  # smtplib tells each as a disconnection
        failure = failure.__context__
    return next(reason for kind, reason in REASONS.items() if isinstance(failure, kind))
