"""The HTTP server: gunicorn with a worker that has its own event loop.

The command line calls `serve()`. `gunicorn app:app` works without this package.

Several worker processes may serve one data folder: writers take turns among all threads and
processes, and limits are counted for all of them together.
"""

import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.sock import TCP6Socket, TCPSocket

from crm.open_files import divide_open_files, raise_limit
from crm.server.loop import Loop
from crm.server.transfers import Transfers
from crm.server.worker import STOPS, Worker
from crm.storage import disk

WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# How long a new server waits for one that is ending to free the data folder.
TAKEOVER_SECONDS = 3.0
# How long requests in flight may take after SIGTERM; the process ends within 25 s.
STOP_SECONDS = 20
KEEPALIVE_SECONDS = 5
LOCK_BYTES = 20  # of serve.lock
# After so long without a sign of life a worker is killed, which frees the locks that it has.
HUNG_SECONDS = 45


class ServeError(Exception):
    """The server cannot run; the text is one sentence for the operator."""


class AlreadyServed(ServeError):
    """Another server has the data folder, at the same port."""


class Running(NamedTuple):
    """The process that serves a data folder, and its port; 0 for what is not known."""

    pid: int
    port: int


def serve(
    app_factory: Callable[[], WSGIApp],
    data: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    workers: int = 1,
    threads: int = 4,
    databases: int = 256,
    behind_proxy: bool = False,
    passes_writers: bool = False,
    hung_seconds: int = HUNG_SECONDS,
    announce: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then return. Call it in the main thread.

    `app_factory` runs in each of the `workers` after the fork, so the application may start
    threads. `threads` is how many requests may be slow at a time in a worker without delaying
    others, `databases` how many idle connections the application wants to keep open in a worker.
    `behind_proxy`: clients come through a proxy, so their addresses are not known here.
    `passes_writers`: connections that write for one host are all served by one of the workers, and
    those that read are spread over all.
    `hung_seconds`: a worker that gives no sign of life for so long is killed and replaced.
    `announce` is called once in the parent, when the socket listens and before a worker starts; an
    exception of it ends serve(). A host with several addresses is served on its first IPv4 one.
    Raises OSError, and ServeError: another server on `data`, port in use, unknown host, no start.
    """
    parent = os.getpid()
    lock = _lock(data, port)
    # A stop that comes before the parent has its handlers waits for _Arbiter.init_signals().
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        listener = _listen(host, port)
        raise_limit()
        transfers = Transfers(workers) if passes_writers and workers > 1 else None
        bounds = {
            "MAX_CONNECTIONS": divide_open_files(databases).clients,
            "CLIENTS_ARE_DIRECT": not behind_proxy,
            "TRANSFERS": transfers,
            "SPOOL_FOLDER": str(data),
        }
        loop_class = type("Loop", (Loop,), bounds)
        settings = {
            "workers": workers,
            "worker_class": type("Worker", (Worker,), {"loop_class": loop_class}),
            "threads": threads,
            "timeout": hung_seconds,
            "graceful_timeout": STOP_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",  # the application decides which proxies to trust
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "logger_class": _Log,
            "pre_fork": _prepare_fork,
            "child_exit": lambda _arbiter, worker: (
                transfers.end(worker.number) if transfers else None
            ),
            "when_ready": lambda _arbiter: announce() if announce else None,
        }
        arbiter = _Arbiter(_Application(app_factory, settings))
        kind = TCP6Socket if listener.family == socket.AF_INET6 else TCPSocket
        # Set here and not as bind="fd://…", of which gunicorn would leave a copy open.
        arbiter.LISTENERS = [kind(None, arbiter.cfg, arbiter.log, fd=listener.detach())]
        arbiter.run()
    except SystemExit as stop:
        # Workers end here too, and must not return to the caller of serve().
        if os.getpid() != parent:
            raise
        if stop.code:
            raise ServeError("the server did not start, the lines above say why") from None
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            os.close(lock)


def find_running(data: Path) -> Running | None:
    """Return what serves the data folder, or None."""
    try:
        lock = os.open(data / "serve.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(lock)
    finally:
        os.close(lock)
    return None


def _read_holder(lock: int) -> Running:
    """Return who holds the lock; earlier releases wrote the process alone."""
    with suppress(ValueError):
        pid, port, *_ = [*map(int, os.pread(lock, LOCK_BYTES, 0).split()), 0, 0]
        return Running(pid, port)
    return Running(0, 0)


def _lock(data: Path, port: int) -> int:
    """Lock data/serve.lock and return its descriptor. Raises ServeError, OSError.

    The workers inherit it and nothing unlocks it, so the folder is free when all processes ended.
    """
    began = time.monotonic()
    disk.make_folder(data)
    lock = os.open(data / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= began + TAKEOVER_SECONDS:
                running = _read_holder(lock)
                os.close(lock)
                text = f"another serve runs on {data} (pid {running.pid})"
                if running.port == port:
                    raise AlreadyServed(f"{text}, at this port") from None
                raise ServeError(text) from None
            time.sleep(0.1)
    with suppress(OSError):  # a full disk: only the text is lost
        os.pwrite(lock, f"{os.getpid()} {port}".ljust(LOCK_BYTES).encode(), 0)
    return lock


def _listen(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ServeError(f"{host!r} is not a known host or address") from None
    # The first IPv4 address, else the first one.
    family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
    try:
        dual = family == socket.AF_INET6  # `::` takes IPv4, too
        return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=dual)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ServeError(f"cannot listen on {host}:{port}: {reason}") from None


def _prepare_fork(arbiter: Arbiter, worker: Worker) -> None:
    taken = {other.number for other in arbiter.WORKERS.values()}
    worker.number = min({*range(arbiter.num_workers)} - taken)
    gc.freeze()  # collections of the worker skip what exists by now, so its memory stays shared
    # Text still buffered at the fork would be written twice.
    sys.stdout.flush()
    sys.stderr.flush()


class _Application(BaseApplication):
    """The application and the settings of the server, as gunicorn asks for them."""

    def __init__(self, app_factory: Callable[[], WSGIApp], settings: dict[str, Any]) -> None:
        self.app_factory, self.settings = app_factory, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> WSGIApp:
        return self.app_factory()


class _Log(Logger):
    """Writes gunicorn's lines into the process's log if it is set up, else to stderr."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if logging.getLogger().handlers:
            self.error_log.handlers.clear()
            self.error_log.propagate = True


class _Arbiter(Arbiter):
    """gunicorn's parent process, with a constant number of workers.

    SIGINT stops as gracefully as SIGTERM, a second one at once. SIGHUP stops too, except under
    nohup.
    """

    def init_signals(self) -> None:
        hangup = signal.getsignal(signal.SIGHUP)
        super().init_signals()
        if hangup is signal.SIG_IGN:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def handle_int(self) -> None:
        raise StopIteration

    handle_hup = handle_int

    def ignore(self) -> None:
        """Ignore the signals for more or fewer workers and for a second parent."""

    handle_ttin = handle_ttou = handle_usr2 = ignore

    def spawn_worker(self) -> int | None:
        # A signal that reaches the worker before it has its own handlers would be lost, and the
        # stop would take STOP_SECONDS: it is blocked until Worker.init_signals().
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        pid = super().spawn_worker()
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        return pid
