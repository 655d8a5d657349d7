"""The worker's event loop: it reads from clients, runs the application, and writes to clients.

It never waits for a client. The limits:

    first byte of a request    HEAD_SECONDS, then `keepalive` and a margin between requests
    request line and headers   HEAD_SECONDS from their first byte, MAX_HEAD_BYTES
    body                       never BODY_SECONDS behind RATE, as long as the application reads
    response                   never SEND_SECONDS behind RATE
    all requests, responses    MAX_BUFFER_BYTES each, a part of that for one network
    large bodies, in files     MAX_SPOOLED_BYTES, a part of that for one network
    requests of one host       a part of each of these
    connections                what RLIMIT_NOFILE leaves, a part of that for one network

What is too much is taken from the network that has most, not from who came last: connections that
wait longest, idle ones first and new ones last, and the largest requests. None is closed as idle
after its next request has arrived. A body counts until its response is complete.

A connection that has more to parse continues once in a round, behind those that had nothing to
parse, and all of them for TURN_SECONDS. What it sends meanwhile is not read.

The application may have a method `max_body_bytes(environ)`, which must not wait for anything. The
loop asks it while a body is on its way, and does not wait for one that is longer: the application
answers without it (0: without any), and the connection ends. A method `changes_record(environ)`
tells whether a request is a short change, which may wait a moment to be committed with others.
"""

import errno
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from crm.networks import networks_of
from crm.server.connections import SAFE_METHODS, ClientConnection, State, Waiting, make_base_environ
from crm.server.hand_over import LoopTaken
from crm.server.limits import Limits
from crm.server.requests import MAX_BODY_BYTES, RequestRefused
from crm.server.responses import make_problem
from crm.server.runner import Runner
from crm.server.transfers import Transfers

EXPIRE_SECONDS = 0.25
TURN_SECONDS = 0.002  # in each round, for those who have sent more than they were answered
ACCEPTS_AT_ONCE = 16
MAX_SHORT_BYTES = 64 * 1024  # of a request that may be in a group with others
# How long an idle connection may start a last request when the server stops.
LAST_REQUEST_SECONDS = 1.0


class Loop:
    """Serves a WSGI application to the clients of some listening sockets."""

    HEAD_SECONDS = 10.0
    BODY_SECONDS = 30.0
    SEND_SECONDS = 30.0
    QUEUE_SECONDS = 20.0
    # An idle connection is closed so much later than its client is told (`Keep-Alive`): a request
    # that is on its way then is lost, and few clients send it again.
    KEEPALIVE_MARGIN_SECONDS = 1.0
    RATE = 16 * 1024  # bytes a second
    MAX_BUFFER_BYTES = 128 * 1024 * 1024
    MAX_SPOOLED_BYTES = 512 * 1024 * 1024
    SPOOL_FOLDER: str | None = None  # for large bodies; None: that for temporary files
    # How long a client may read the end of its response after it sent something, and in all.
    LINGER_SECONDS = 2.0
    MAX_LINGER_SECONDS = 30.0
    MAX_CONNECTIONS = 1000  # of clients; serve() sets what RLIMIT_NOFILE leaves
    # False behind a proxy, through which all clients seem to have one address.
    CLIENTS_ARE_DIRECT = True
    # None: connections stay in the worker that has accepted them.
    TRANSFERS: Transfers | None = None

    def __init__(
        self,
        application: Callable[..., Any],
        listeners: list[Any],
        *,
        workers: int,
        threads: int,
        keepalive: float,
        stop_seconds: float,
        log: Any,
    ):
        """`workers` is how many processes accept from the same listeners, `threads` how many
        requests may be slow at a time, `log` gunicorn's Logger.
        """
        self.application = application
        self.listeners = listeners
        self.keepalive, self.stop_seconds, self.log = keepalive, stop_seconds, log
        self.alive = True  # False: the loop must stop
        self.stop_at = 0.0
        self.selector = selectors.DefaultSelector()
        self.waiting = Waiting(self.selector)
        self.ready: deque[ClientConnection] = deque()  # with received bytes that are not parsed yet
        self.runner = Runner(self, threads)
        self.accepts_at_once = ACCEPTS_AT_ONCE if workers == 1 else 1  # others accept, too
        self.expire_at = 0.0
        sizes = self.MAX_CONNECTIONS, self.MAX_BUFFER_BYTES, self.MAX_SPOOLED_BYTES
        self.limits = Limits(*sizes, by_network=self.CLIENTS_ARE_DIRECT)
        self.max_body_bytes = getattr(application, "max_body_bytes", lambda _: MAX_BODY_BYTES)
        self.changes_record = getattr(application, "changes_record", lambda _: False)
        self.wakeup, self.wakeup_end = socket.socketpair()
        self.wakeup.setblocking(False)
        self.wakeup_end.setblocking(False)
        self.selector.register(self.wakeup, selectors.EVENT_READ)
        if self.TRANSFERS:
            self.selector.register(self.TRANSFERS, selectors.EVENT_READ, self.TRANSFERS)
        for listener in listeners:
            listener.setblocking(False)
            # Accepted connections inherit the option.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(listener.fileno(), selectors.EVENT_READ, listener)

    def stop(self) -> None:
        """Finish running requests, then end. May be called in any thread or signal handler."""
        self.alive = False
        self.wake()

    def close(self) -> None:
        """Close all connections and sockets, after the loop has ended."""
        for conn in list(self.waiting):
            self.drop(conn)
        self.selector.close()
        self.wakeup.close()
        self.wakeup_end.close()

    def wake(self) -> None:
        try:
            self.wakeup_end.send(b"1")
        except OSError:
            return  # the loop is being woken already, or has ended

    def run(self) -> None:
        """Serve until stop() is called and all requests are done. Raises LoopTaken."""
        self.runner.run_waiting()  # what another thread has left
        while self.alive or not self.has_stopped():
            # What has more to parse must not wait for the network, but sockets still get a turn.
            for key, _ in self.selector.select(0 if self.ready else EXPIRE_SECONDS):
                if isinstance(key.data, ClientConnection):
                    self.guard(key.data, self.handle)
                elif isinstance(key.data, Transfers):
                    self.take_over(key.data)
                elif key.data is not None:
                    self.accept(key.data)
                else:
                    self.wakeup.recv(4096)
            self.continue_parsing()
            self.runner.run_waiting()
            now = time.monotonic()
            if now >= self.expire_at:
                self.expire_at = now + EXPIRE_SECONDS
                self.expire(now)

    def continue_parsing(self) -> None:
        """Give those a turn that have more to parse, until the time for all of them is over."""
        until = time.monotonic() + TURN_SECONDS
        for _ in range(len(self.ready)):
            conn = self.ready.popleft()
            if conn.state in (State.IDLE, State.HEAD, State.BODY):
                self.guard(conn, self.advance)
                if time.monotonic() >= until:
                    return

    def guard(self, conn: ClientConnection, step: Callable[[ClientConnection], None]) -> None:
        """Call `step(conn)`; close the connection if it raises, so that the loop continues."""
        try:
            step(conn)
        except LoopTaken:
            raise
        except Exception:
            self.log.exception("error with a connection")
            self.drop(conn)

    def has_stopped(self) -> bool:
        """Begin to stop on the first call; return whether all requests or their time have ended."""
        now = time.monotonic()
        if not self.stop_at:
            self.stop_at = now + self.stop_seconds
            if stop_background_work := getattr(self.application, "stop_background_work", None):
                stop_background_work()
            for listener in self.listeners:
                while self.accept(listener):
                    pass
                self.selector.unregister(listener.fileno())
                listener.close()
            if self.TRANSFERS:
                self.TRANSFERS.end()
            for conn in self.waiting[State.IDLE]:
                conn.until = min(conn.until, now + LAST_REQUEST_SECONDS)
            for conn in [*self.runner.slow, *self.waiting[State.SENDING]]:
                if conn.response is not None and not conn.response.is_started:
                    conn.response.keep_alive = False
            self.wake()
            return False  # before the next round, which takes what is on its way to this worker
        busy = self.runner.slow or any(self.waiting)
        return not busy or now >= self.stop_at

    # Connections

    def is_short_change(self, conn: ClientConnection) -> bool:
        """Whether a complete request changes one record, so that it may be in a group."""
        if conn.environ["REQUEST_METHOD"] in SAFE_METHODS or conn.received_bytes > MAX_SHORT_BYTES:
            return False
        return self.changes_record(conn.environ)

    def accept(self, listener: Any) -> bool:
        """Accept the connections that wait; return whether there may be more."""
        for _ in range(self.accepts_at_once):
            try:
                sock, client = listener.accept()
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    continue  # the client has left already
                self.log.error("too many open files: the connection that waits longest is closed")
                if longest := self.waiting.find_longest(self.limits.connections.largest_group()):
                    self.end_waiting(longest)
                return False
            self.add(sock, client)
        return True

    def take_over(self, transfers: Transfers) -> None:
        """Continue with the connections that other workers pass on, each with a request."""
        for sock, client, received in transfers.take():
            conn = self.add(sock, client)
            conn.received += received
            self.guard(conn, self.advance)

    def add(self, sock: socket.socket, client: Any) -> ClientConnection:
        """Wait for the first request of a new connection."""
        sock.setblocking(False)
        # The client of a Unix socket is a proxy, and has no address.
        networks = networks_of(client[0]) if isinstance(client, tuple) else ()
        conn = ClientConnection(sock, networks, make_base_environ(sock.getsockname(), client))
        conn.spool_folder = self.SPOOL_FOLDER
        self.waiting.put(conn, State.IDLE, self.HEAD_SECONDS)
        self.waiting.watch(conn, selectors.EVENT_READ)
        for longest in self.limits.add(conn, self.waiting):
            self.end_waiting(longest)
        self.note_connections()
        return conn

    def count_bytes(self, conn: ClientConnection) -> None:
        """Count what is held of a connection's request and response; end what is too much."""
        for other in self.limits.count_bytes(conn):
            if other.state in (State.IDLE, State.HEAD, State.BODY, State.QUEUED):
                self.refuse(other, 503)
            else:
                self.drop(other)

    def end_waiting(self, conn: ClientConnection) -> None:
        """Close a connection that has waited too long, or longest of too many.

        An idle one on which a request has arrived stays, as one whose request has begun.
        """
        if conn.state is State.IDLE and conn.has_unread():
            self.waiting.put(conn, State.HEAD, self.HEAD_SECONDS)
        elif conn.state is State.QUEUED:
            self.refuse(conn, 503)
        else:
            self.drop(conn)

    def drop(self, conn: ClientConnection) -> None:
        """Close a connection in whatever state it is."""
        if conn.state is State.CLOSED:
            return
        self.waiting.take(conn, State.CLOSED)
        self.waiting.watch(conn, 0)
        conn.sock.close()
        self.end_response(conn)
        self.limits.remove(conn)
        self.note_connections()

    def note_connections(self) -> None:
        if self.TRANSFERS:
            self.TRANSFERS.note_count(len(self.limits.connections))

    def end_response(self, conn: ClientConnection) -> None:
        try:
            conn.end_response()
        except Exception:
            self.log.exception("error while closing a response")

    def expire(self, now: float) -> None:
        """Close or refuse the connections whose time for their state is over."""
        for conn in [conn for conn in self.waiting if conn.until <= now]:
            if conn.state in (State.HEAD, State.BODY):
                self.refuse(conn, 408)
            else:
                self.end_waiting(conn)

    # Requests

    def handle(self, conn: ClientConnection) -> None:
        """Continue with a connection that can be read, or written while it is SENDING."""
        if conn.state is State.SENDING:
            if conn.output_bytes:
                self.send(conn)
            else:
                self.runner.run(conn)
            return
        try:
            received = conn.receive()
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if not received:
            self.drop(conn)
        elif conn.state is State.LEAVING:
            conn.until = min(time.monotonic() + self.LINGER_SECONDS, conn.send_until)
        else:
            if conn.state is State.BODY:
                latest = time.monotonic() + self.BODY_SECONDS
                conn.until = min(conn.until + received / self.RATE, latest)
            self.advance(conn)

    def advance(self, conn: ClientConnection) -> None:
        """Parse what was received, and wait for more, run the application or refuse."""
        try:
            is_complete = conn.read_request()
            if not is_complete and conn.request is not None and conn.state is not State.BODY:
                is_complete = conn.request.body.limit(self.max_body_bytes(conn.environ))
        except RequestRefused as error:
            self.refuse(conn, error.status)
            return
        request = conn.request
        if is_complete:
            if self.TRANSFERS and self.TRANSFERS.pass_on(conn, self.is_short_change(conn)):
                self.drop(conn)
                self.take_over(self.TRANSFERS)
            else:
                self.runner.start(conn)
            return
        if request is None:
            if conn.state is State.IDLE and conn.received_bytes:
                self.waiting.put(conn, State.HEAD, self.HEAD_SECONDS)
        elif conn.state is not State.BODY:
            self.waiting.put(conn, State.BODY, self.BODY_SECONDS)
            if request.expects_continue:
                conn.send_briefly(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.read_on(conn, request is not None and request.body.has_more)

    def send(self, conn: ClientConnection) -> None:
        """Send what the client can receive now; wait to send the rest, or for the next request."""
        try:
            sent_bytes = conn.send()
        except OSError:
            self.drop(conn)
            return
        response = conn.response
        if not conn.output_bytes and response is not None and response.is_complete:
            self.finish(conn)
            return
        now = time.monotonic()
        latest = now + self.SEND_SECONDS
        conn.send_until = min((conn.send_until or latest) + sent_bytes / self.RATE, latest)
        self.waiting.put(conn, State.SENDING, conn.send_until - now)
        self.waiting.watch(conn, selectors.EVENT_WRITE)
        self.count_bytes(conn)

    def finish(self, conn: ClientConnection) -> None:
        """Wait for the next request after a response, or for the client to close."""
        response = conn.response
        if response is None or not response.keep_alive:
            self.linger(conn)
            return
        self.end_response(conn)
        seconds = self.keepalive + self.KEEPALIVE_MARGIN_SECONDS
        self.waiting.put(conn, State.IDLE, seconds if self.alive else LAST_REQUEST_SECONDS)
        self.read_on(conn, conn.received_bytes > 0)

    def read_on(self, conn: ClientConnection, has_more: bool) -> None:
        """Wait for what a client sends, or for the connection's turn if there is more to parse."""
        if has_more:
            self.ready.append(conn)
        self.waiting.watch(conn, 0 if has_more else selectors.EVENT_READ)
        self.count_bytes(conn)

    def refuse(self, conn: ClientConnection, status: int) -> None:
        """Send a response of the server itself, and close the connection."""
        conn.send_briefly(make_problem(status, conn.environ))
        self.linger(conn)

    def linger(self, conn: ClientConnection) -> None:
        """Close after LINGER_SECONDS of silence: with bytes unread, the response would be lost."""
        self.end_response(conn)
        conn.received.clear()
        self.count_bytes(conn)
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(conn)
            return
        conn.send_until = time.monotonic() + self.MAX_LINGER_SECONDS
        self.waiting.put(conn, State.LEAVING, self.LINGER_SECONDS)
        self.waiting.watch(conn, selectors.EVENT_READ)
