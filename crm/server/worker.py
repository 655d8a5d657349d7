"""gunicorn's threaded worker with another loop.

Threads run the application and nothing else. The loop receives a request completely before a thread
sees it, so a client that drips bytes holds a socket, never a thread. What a client may take:

    request line and headers   HEAD_SECONDS from their first byte, HEAD_BYTES
    body                       never BODY_SECONDS behind RATE, BODY_BYTES
    all long bodies together   HELD_BYTES
    the answer                 SEND_SECONDS of waiting, more at RATE
"""

import ctypes
import errno
import os
import selectors
import signal
import socket
import threading
import time
from functools import partial
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

from crm.server.connections import (
    BODY,
    HEAD,
    IDLE,
    LEAVING,
    Connection,
    Gone,
    Line,
    Refused,
    problem,
)

# What stops a worker; the parent holds them back until the worker can hear them.
STOPS = {signal.SIGTERM, signal.SIGQUIT}


class Worker(ThreadWorker):
    """Receives requests, then calls a thread for each."""

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
        # sendfile would go around Line.sendall and its deadline.
        self.cfg.set("sendfile", False)
        self.waiting: set[Connection] = set()
        self.working: set[Connection] = set()
        self.look_at = 0.0

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl or cfg.proxy_protocol != "off" or "h2" in cfg.http_protocols:
            raise RuntimeError("crm.server.Worker speaks plain HTTP/1.1: leave TLS to a proxy")

    def init_process(self) -> None:
        end_with(self.ppid)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # A terminal sends these to every process of its group; the parent decides alone.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

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
        if leave := getattr(self.wsgi, "leave", None):
            leave()
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
        line = Line(listener.family, listener.type, listener.proto, accepted.detach())
        line.setblocking(False)
        self.nr_conns += 1
        self.wait_for(Connection(line, client, listener.getsockname()), self.HEAD_SECONDS)
        return True

    def wait_for(self, conn: Connection, seconds: float) -> None:
        conn.until = time.monotonic() + seconds
        self.waiting.add(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.receive, conn))

    def stop_waiting(self, conn: Connection) -> None:
        if conn in self.waiting:
            self.waiting.remove(conn)
            self.poller.unregister(conn.sock)

    def drop(self, conn: Connection) -> None:
        self.stop_waiting(conn)
        self.nr_conns -= 1
        conn.sock.close()

    def receive(self, conn: Connection, line: Line) -> None:
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

    def advance(self, conn: Connection) -> None:
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
        except Refused as refused:
            self.refuse(conn, refused.status)
        except Exception:
            # Whatever a client sends, it must not end the loop.
            self.log.exception("error while receiving a request")
            self.refuse(conn, 500)

    def held(self) -> int:
        return sum(conn.held for conn in self.waiting if conn.held > 65536)

    def refuse(self, conn: Connection, status: int) -> None:
        asked = conn.request
        path, method = (getattr(asked, name, None) for name in ("path", "method"))
        conn.sock.say(problem(status, path, method))
        self.leave(conn)

    def leave(self, conn: Connection) -> None:
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

    def handle(self, conn: Connection) -> bool:
        """In a thread: run the application. Whether the connection may carry another request."""
        try:
            return bool(self.handle_request(conn.request, conn))
        except StopIteration:
            pass  # handle_request logged it; the answer was cut in the middle
        except Gone:
            self.log.debug("a client did not take its answer")
        except (Exception, SystemExit):
            # Neither the address nor the headers: they carry phones and keys.
            self.log.exception("error while answering %s", conn.request.method)
            if not conn.sock.answering:
                conn.sock.say(problem(500, conn.request.path))
        return False

    def finish_request(self, conn: Connection, future: Any) -> None:
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


def end_with(parent: int) -> None:
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
