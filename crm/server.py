"""The seam that starts the server: gunicorn, one worker process, a few threads.

`serve()` is what the command line calls. `gunicorn app:app` works without this module, and
`gunicorn -k crm.server.Worker --threads 4 app:app` takes the worker alone: the deadlines and the
end with the parent, without the lock on the data folder (so keep to one worker).

One process per data folder, because writers queue for a lock of their process. Threads, because
SQLite lets go of the interpreter.

Threads run the application and nothing else. The worker's loop receives a request completely
before a thread sees it, so a client that drips bytes holds a socket, never a thread. What a
client may take:

    request line and headers   HEAD_SECONDS from their first byte, HEAD_BYTES
    body                       never BODY_SECONDS behind RATE, BODY_BYTES
    all long bodies together   HELD_BYTES
    the answer                 SEND_SECONDS of waiting, more at RATE
"""

import ctypes
import errno
import fcntl
import io
import json
import os
import re
import resource
import select
import selectors
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
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
from gunicorn.workers.gthread import ThreadWorker

WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# How long a new serve waits for a dying one to free the data folder and the port.
TAKEOVER_SECONDS = 10.0
# SIGTERM finishes what is in flight for so long; the process ends within 25 s.
STOP_SECONDS = 20
KEEPALIVE_SECONDS = 5
# A worker that boots may migrate many tenants before its loop first reports.
HUNG_SECONDS = 300


class ServeError(Exception):
    """Why the server cannot run, as one sentence for the operator."""


def serve(
    app_factory: Callable[[], WSGIApp],
    data: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    threads: int = 4,
    announce: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then return. To be called in the main thread.

    `app_factory` runs in the worker, after the fork, so the application may start threads.
    `announce` is called once, in the parent, when the socket listens. A name that has several
    addresses (localhost) is served on its first IPv4 address.
    Raises ServeError: another serve on `data`, port in use, unknown host, no start.
    """
    parent = os.getpid()
    until = time.monotonic() + TAKEOVER_SECONDS
    lock = _lock(data, until)
    try:
        listener = _listen(host, port, until)
        _allow_open_files()
        settings = {
            "bind": f"fd://{listener.detach()}",
            "workers": 1,
            "worker_class": Worker,
            "threads": threads,
            "timeout": HUNG_SECONDS,
            "graceful_timeout": STOP_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
            "control_socket_disable": True,
            "accesslog": None,
            "errorlog": "-",
            "loglevel": "warning",
            "logger_class": _Log,
            "pre_fork": _flush,
            "when_ready": lambda _arbiter: announce() if announce else None,
        }
        _Application(app_factory, settings).run()
    except SystemExit as stop:
        # The worker leaves through here too: it must not return to the caller of serve().
        if os.getpid() != parent:
            raise
        if stop.code:
            raise ServeError("the server did not start, the lines above say why") from None
    finally:
        if os.getpid() == parent:
            os.close(lock)


def _lock(data: Path, until: float) -> int:
    """The descriptor that holds data/serve.lock.

    The worker inherits it and nobody unlocks it: the folder is free when both processes ended.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.open(data / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServeError(f"cannot write in {data}: {error.strerror}") from None
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                pid = os.pread(lock, 20, 0).decode(errors="replace").strip()
                os.close(lock)
                raise ServeError(f"another serve runs on {data} (pid {pid})") from None
            time.sleep(0.1)
        except OSError as error:
            os.close(lock)
            raise ServeError(f"cannot lock {data}/serve.lock: {error.strerror}") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _listen(host: str, port: int, until: float) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ServeError(f"port {port} is not a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ServeError(f"{host!r} is not a known host or address") from None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    while True:
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and time.monotonic() < until:
                time.sleep(0.1)
                continue
            why = {
                errno.EADDRINUSE: f"port {port} on {host} is in use",
                errno.EADDRNOTAVAIL: f"{host} is not an address of this machine",
                errno.EACCES: f"port {port} on {host} needs more rights than this user has",
            }
            said = why.get(error.errno or 0, f"cannot listen on {host}: {error.strerror}")
            raise ServeError(said) from None


def _allow_open_files() -> None:
    # Connections and open tenants (three descriptors each) together pass the usual 1,024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _flush(_arbiter: Arbiter, _worker: "Worker") -> None:
    # Text still buffered at the fork would be written twice.
    sys.stdout.flush()
    sys.stderr.flush()


class _Application(BaseApplication):
    def __init__(self, app_factory: Callable[[], WSGIApp], settings: dict[str, Any]) -> None:
        self.app_factory = app_factory
        self.settings = settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> WSGIApp:
        return self.app_factory()

    def run(self) -> None:
        _Arbiter(self).run()


class _Log(Logger):
    error_fmt = "%(asctime)s %(levelname)s %(message)s"
    datefmt = "%Y-%m-%d %H:%M:%S"


class _Arbiter(Arbiter):
    """gunicorn's parent process, which here has one worker at any time.

    SIGINT stops as gently as SIGTERM, and a second one at once. SIGHUP stops too, unless nohup.
    """

    def init_signals(self) -> None:
        hangup = signal.getsignal(signal.SIGHUP)
        super().init_signals()
        if hangup is signal.SIG_IGN:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def handle_int(self) -> None:
        raise StopIteration

    handle_hup = handle_int

    def ignore(self) -> None:
        """Reload, more workers, a second parent: each would be a second process on the data."""

    handle_ttin = handle_ttou = handle_usr2 = ignore

    def spawn_worker(self) -> int | None:
        # A stop that reached the worker before it has its own handlers would be lost, and the
        # stop take STOP_SECONDS: the signal waits until Worker.init_signals.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        pid = super().spawn_worker()
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return pid


_STOPS = {signal.SIGTERM, signal.SIGQUIT}


class Worker(ThreadWorker):
    """gunicorn's threaded worker with another loop: receives, then calls a thread."""

    HEAD_SECONDS = 10.0
    HEAD_BYTES = 32 * 1024
    BODY_SECONDS = 30.0
    # Nothing in the product takes more than an import of 10 MiB.
    BODY_BYTES = 16 * 1024 * 1024
    HELD_BYTES = 64 * 1024 * 1024
    SEND_SECONDS = 30.0
    RATE = 16 * 1024
    # Time for a refused client to read its answer while it may still be sending.
    LINGER_SECONDS = 2.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # sendfile would go around _Line.sendall and its deadline.
        self.cfg.set("sendfile", False)
        self.waiting: set[_Connection] = set()
        self.working: set[_Connection] = set()
        self.look_at = 0.0

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl or cfg.proxy_protocol != "off" or "h2" in cfg.http_protocols:
            raise RuntimeError("crm.server.Worker speaks plain HTTP/1.1: leave TLS to a proxy")

    def init_process(self) -> None:
        _end_with(self.ppid)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # A terminal sends these to every process of its group; the parent decides alone.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

    def run(self) -> None:
        self.poller.register(
            self.method_queue.fileno(), selectors.EVENT_READ, self.method_queue.run_callbacks
        )
        while self.alive and self.is_parent_alive():
            self.set_accept_enabled(self.nr_conns < self.worker_connections)
            self.turn()
        self.finish()

    def turn(self) -> None:
        self.notify()
        self.wait_for_and_dispatch_events(0.25 if self.waiting else 1.0)
        now = time.monotonic()
        if now < self.look_at:
            return
        self.look_at = now + 0.25
        for conn in [conn for conn in self.waiting if conn.until <= now]:
            if conn.state in (HEAD, BODY):
                self.refuse(conn, 408)
            else:
                self.drop(conn)

    def finish(self) -> None:
        """Answer what has begun; a kept-alive connection gets a second to begin."""
        now = time.monotonic()
        self.set_accept_enabled(False)
        for listener in self.sockets:
            while self.nr_conns < self.worker_connections and self.accept(listener):
                pass
            listener.close()
        for conn in self.waiting:
            if conn.state is IDLE:
                conn.until = min(conn.until, now + 1)
        for conn in self.working:
            conn.request.force_close()
        while self.nr_conns > 0 and time.monotonic() < now + self.cfg.graceful_timeout:
            self.turn()
        # The queue's pipe stays open: a late thread would write its wake-up byte into
        # whatever file had got the number since, a database for example.
        self.tpool.shutdown(wait=False)

    def accept(self, listener: Any) -> bool:
        try:
            accepted, client = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.log.error("too many open files, a connection has to wait")
                time.sleep(0.1)
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return False
        line = _Line(listener.family, listener.type, listener.proto, accepted.detach())
        line.setblocking(False)
        self.nr_conns += 1
        self.wait_for(_Connection(line, client, listener.getsockname()), self.HEAD_SECONDS)
        return True

    def wait_for(self, conn: "_Connection", seconds: float) -> None:
        conn.until = time.monotonic() + seconds
        self.waiting.add(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.receive, conn))

    def stop_waiting(self, conn: "_Connection") -> None:
        if conn in self.waiting:
            self.waiting.remove(conn)
            self.poller.unregister(conn.sock)

    def drop(self, conn: "_Connection") -> None:
        self.stop_waiting(conn)
        self.nr_conns -= 1
        conn.sock.close()

    def receive(self, conn: "_Connection", line: "_Line") -> None:
        try:
            came = line.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        if not came:
            self.drop(conn)
        elif conn.state is not LEAVING:
            conn.buffer += came
            if conn.state is BODY:
                ahead = time.monotonic() + self.BODY_SECONDS
                conn.until = min(conn.until + len(came) / self.RATE, ahead)
            self.advance(conn)

    def advance(self, conn: "_Connection") -> None:
        """Go on with what has come: to the body, to a thread, or to a refusal."""
        try:
            if conn.state is IDLE:
                conn.state = HEAD
                conn.until = time.monotonic() + self.HEAD_SECONDS
            if conn.state is HEAD and conn.take_head(self.cfg, self.HEAD_BYTES):
                conn.state = BODY
                conn.until = time.monotonic() + self.BODY_SECONDS
            if conn.state is BODY:
                complete = conn.take_body(self.BODY_BYTES)
                if conn.request._expected_100_continue:
                    conn.request._expected_100_continue = False
                    if not complete:
                        conn.sock.say(b"HTTP/1.1 100 Continue\r\n\r\n")
                if complete:
                    self.stop_waiting(conn)
                    conn.sock.allow(self.SEND_SECONDS, self.RATE)
                    self.working.add(conn)
                    self.enqueue_req(conn)
                elif conn.held > 65536 and self.held() > self.HELD_BYTES:
                    self.refuse(conn, 503)
        except _Refused as refused:
            self.refuse(conn, refused.status)
        except (ParseException, NoMoreData) as error:
            self.refuse(conn, _STATUS.get(type(error), 400))
        except Exception:
            # Whatever a client sends, it must not end the loop.
            self.log.exception("error while receiving a request")
            self.refuse(conn, 500)

    def held(self) -> int:
        return sum(conn.held for conn in self.waiting if conn.held > 65536)

    def refuse(self, conn: "_Connection", status: int) -> None:
        conn.sock.say(_problem(status, getattr(conn.request, "path", None)))
        self.leave(conn)

    def leave(self, conn: "_Connection") -> None:
        """Close, but not over an answer: a close with bytes unread would make it vanish."""
        conn.state = LEAVING
        conn.forget()
        conn.buffer.clear()
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(conn)
            return
        self.stop_waiting(conn)
        self.wait_for(conn, self.LINGER_SECONDS)

    def handle(self, conn: "_Connection") -> bool:
        """In a thread: run the application. Whether the connection may carry another request."""
        try:
            return bool(self.handle_request(conn.request, conn))
        except StopIteration:
            pass  # handle_request logged it; the answer was cut in the middle
        except _Gone:
            self.log.debug("a client did not take its answer")
        except (Exception, SystemExit):
            # Neither the address nor the headers: they carry phones and keys.
            self.log.exception("error while answering %s", conn.request.method)
            if not conn.sock.answering:
                conn.sock.say(_problem(500, conn.request.path))
        return False

    def finish_request(self, conn: "_Connection", future: Any) -> None:
        """In the loop again, after the thread."""
        self.working.remove(conn)
        conn.forget()
        if future.cancelled() or future.exception() or not future.result():
            self.leave(conn)
            return
        conn.state = IDLE
        self.wait_for(conn, self.cfg.keepalive if self.alive else 1)
        if conn.buffer:
            self.advance(conn)


IDLE, HEAD, BODY, LEAVING = "idle", "head", "body", "leaving"


class _Connection:
    """One client: what has come from it, and the moment until which the loop waits for more."""

    def __init__(self, sock: "_Line", client: Any, server: Any) -> None:
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
                raise _Refused(431)
            return False
        head = bytes(self.buffer[: end + 4])
        del self.buffer[: end + 4]
        self.request = Request(cfg, IterUnreader([head]), self.client)
        return True

    def take_body(self, most: int) -> bool:
        """Whether the request's body is here, complete; the application then reads it."""
        reader = self.request.body.reader
        if isinstance(reader, ChunkedReader):
            if not self.take_chunks(most):
                return False
        else:
            if reader.length > most:
                raise _Refused(413)
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
                    raise _Refused(400)
                return False
            said = _CHUNK_SIZE.fullmatch(buffer, 0, line)
            if not said:
                raise _Refused(400)
            size = int(said[1], 16)
            if len(self.body) + size > most:
                raise _Refused(413)
            if size == 0:
                return self.take_trailers(line)
            start = line + 2
            if len(buffer) < start + size + 2:
                return False
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise _Refused(400)
            self.body += buffer[start : start + size]
            del buffer[: start + size + 2]

    def take_trailers(self, line: int) -> bool:
        """Trailers are dropped: nobody asks for them."""
        end = self.buffer.find(b"\r\n\r\n", line, _CHUNK_LINE)
        trailers = self.buffer[line : end if end >= 0 else _CHUNK_LINE]
        if trailers.count(b"\n") != trailers.count(b"\r\n"):
            raise _Refused(400)
        if end < 0:
            if len(self.buffer) >= _CHUNK_LINE:
                raise _Refused(400)
            return False
        del self.buffer[: end + 4]
        return True


_CHUNK_LINE = 8192
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")


class _Line(socket.socket):
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
                raise _Gone from error
            self.spare = min(self.spare + sent / self.rate, self.most)
            rest = rest[sent:]

    def wait_to_send(self) -> None:
        began = time.monotonic()
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        poll.poll(max(0.0, self.spare) * 1000)
        self.spare -= time.monotonic() - began
        if self.spare <= 0:
            raise _Gone

    def say(self, words: bytes) -> None:
        """Send a few bytes if the client has room for them."""
        try:
            self.send(words)
        except OSError:
            return


class _Gone(OSError):
    """The client left, or doesn't read its answer."""


class _Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


_STATUS = {
    LimitRequestLine: 414,
    LimitRequestHeaders: 431,
    UnsupportedTransferCoding: 501,
    ExpectationFailed: 417,
}
_PROBLEMS = {
    400: ("malformed_request", "this is not a valid HTTP/1.1 request"),
    408: ("request_timeout", "the request came too slowly"),
    413: ("too_large", "the request's body is too long"),
    414: ("too_large", "the request's address is too long"),
    417: ("malformed_request", "the only expectation understood is 100-continue"),
    431: ("too_large", "the request's headers are too long"),
    500: ("internal_error", "something went wrong here, it is not the request's fault"),
    501: ("malformed_request", "the only transfer coding understood is chunked"),
    503: ("busy", "too many long requests are arriving at once, try again"),
}


def _problem(status: int, path: str | None) -> bytes:
    """The answer when the application gave none, in the shape of all errors (D14)."""
    code, detail = _PROBLEMS[status]
    request_id = uuid.uuid4().hex
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": path or "/",
        "code": code,
        "request_id": request_id,
    }
    content = json.dumps(body)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(content)}\r\n"
        f"X-Request-Id: {request_id}\r\n"
        "Connection: close\r\n"
    )
    retry = "Retry-After: 5\r\n" if status == 503 else ""
    return f"{head}{retry}\r\n{content}".encode()


def _end_with(parent: int) -> None:
    """End this process as soon as `parent` does, even when that is killed."""
    if not _kernel_ends_us():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)  # it died before the kernel was asked


def _kernel_ends_us() -> bool:
    set_parent_death_signal = 1
    try:
        return ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
