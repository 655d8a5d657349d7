"""The worker's event loop: it reads from clients, runs the application, and writes to clients.

It never waits for a client. The limits:

    first byte of a request    HEAD_SECONDS, then `keepalive` between requests
    request line and headers   HEAD_SECONDS from their first byte, HEAD_BYTES
    body                       never BODY_SECONDS behind RATE, BODY_BYTES
    response                   never SEND_SECONDS behind RATE
    all requests, responses    MAX_BUFFER_BYTES each, a part of that for one network
    connections                what RLIMIT_NOFILE leaves, a part of that for one network

Of too many connections, those that wait longest are closed first, idle ones before others.

The application runs in the loop's own thread. When it takes long, another thread continues the
loop (`hand_over.py`). At most `threads` requests may be slow at a time, of one host half of them
for reading and one for writing; requests beyond that wait in a queue.
"""

import errno
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from crm.networks import networks_of
from crm.open_files import divide_open_files
from crm.server.bounds import ALL, Bound, SlowRequests
from crm.server.connections import Connection, State, make_base_environ
from crm.server.hand_over import HandOver, LoopTaken
from crm.server.requests import Request, RequestRefused
from crm.server.responses import Response, make_problem

EXPIRE_SECONDS = 0.25
ACCEPTS_AT_ONCE = 16
DATABASES = 256  # idle connections to tenants' files, as `CRM_MAX_IDLE_CONNECTIONS` has it
# How long an idle connection may start a last request when the server stops.
LAST_REQUEST_SECONDS = 1.0


class Loop:
    """Serves a WSGI application to the clients of some listening sockets."""

    HEAD_SECONDS = 10.0
    BODY_SECONDS = 30.0
    SEND_SECONDS = 30.0
    QUEUE_SECONDS = 20.0
    RATE = 16 * 1024  # bytes a second
    MAX_BUFFER_BYTES = 64 * 1024 * 1024
    # How long a client may read the end of its response while it may still be sending.
    LINGER_SECONDS = 2.0
    # How many clients may be connected; 0: what RLIMIT_NOFILE leaves besides the application.
    MAX_CONNECTIONS = 0
    # False behind a proxy, through which all clients seem to have one address.
    CLIENTS_ARE_DIRECT = True

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
        self.hand_over = HandOver(self.run, self.let_go, log)
        self.selector = selectors.DefaultSelector()
        self.waiting: dict[State, dict[Connection, None]] = {state: {} for state in State}
        self.ready: deque[Connection] = deque()  # with bytes received behind the last request
        self.finished: deque[Connection] = deque()  # slow requests, whose threads are done
        self.slow = SlowRequests(threads)
        self.accepts_at_once = ACCEPTS_AT_ONCE if workers == 1 else 1  # others accept, too
        self.queue_may_move = False
        self.expire_at = 0.0
        limit = self.MAX_CONNECTIONS or divide_open_files(DATABASES).clients
        self.connections = Bound(limit, self.CLIENTS_ARE_DIRECT)
        self.requests = Bound(self.MAX_BUFFER_BYTES, self.CLIENTS_ARE_DIRECT)
        self.answers = Bound(self.MAX_BUFFER_BYTES, self.CLIENTS_ARE_DIRECT)
        self.wakeup, self.wakeup_end = socket.socketpair()
        self.wakeup.setblocking(False)
        self.wakeup_end.setblocking(False)
        self.selector.register(self.wakeup, selectors.EVENT_READ)
        for listener in listeners:
            listener.setblocking(False)
            if listener.family != socket.AF_UNIX:  # accepted connections inherit the option
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(listener.fileno(), selectors.EVENT_READ, listener)

    def stop(self) -> None:
        """Finish running requests, then end. May be called in any thread or signal handler."""
        self.alive = False
        self.wake()

    def close(self) -> None:
        """Close all connections and sockets, after the loop has ended."""
        for conns in self.waiting.values():
            for conn in list(conns):
                self.drop(conn)
        self.selector.close()
        self.wakeup.close()
        self.wakeup_end.close()

    def wake(self) -> None:
        try:
            self.wakeup_end.send(b"1")
        except OSError:
            return  # the loop is being woken already, or has ended

    def let_go(self, conn: Connection) -> None:
        """Prepare for another thread to continue the loop, while `conn` has a slow request."""
        self.slow.add(conn)
        self.watch(conn, 0)  # what its client sends is read after the response

    def run(self) -> None:
        """Serve until stop() is called and all requests are done. Raises LoopTaken."""
        while self.alive or not self.has_stopped():
            for key, _ in self.selector.select(0 if self.ready else EXPIRE_SECONDS):
                if isinstance(key.data, Connection):
                    self.guard(key.data, self.handle)
                elif key.data is not None:
                    self.accept(key.data)
                else:
                    self.wakeup.recv(4096)
            while self.finished:
                conn = self.finished.popleft()
                self.slow.remove(conn)
                self.queue_may_move = True
                self.guard(conn, self.send)
            for _ in range(len(self.ready)):
                conn = self.ready.popleft()
                if conn.state is State.IDLE:
                    self.guard(conn, self.advance)
            if self.queue_may_move:
                self.move_queue()
            now = time.monotonic()
            if now >= self.expire_at:
                self.expire_at = now + EXPIRE_SECONDS
                self.expire(now)

    def guard(self, conn: Connection, step: Callable[[Connection], None]) -> None:
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
            for conn in self.waiting[State.IDLE]:
                conn.until = min(conn.until, now + LAST_REQUEST_SECONDS)
            for conn in [*self.slow, *self.waiting[State.SENDING]]:
                if conn.response is not None:
                    conn.response.keep_alive = False
        busy = self.slow or any(self.waiting.values())
        return not busy or now >= self.stop_at

    # Connections

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
                self.close_longest_waiting(ALL)
                return False
            sock.setblocking(False)
            # The client of a Unix socket is a proxy, and has no address.
            networks = networks_of(client[0]) if isinstance(client, tuple) else ()
            conn = Connection(sock, networks, make_base_environ(listener.getsockname(), client))
            self.connections.add(networks)
            while user := self.connections.exceeded(networks):
                if not self.close_longest_waiting(user):
                    break
            self.wait(conn, State.IDLE, self.HEAD_SECONDS)
            self.watch(conn, selectors.EVENT_READ)
        return True

    def close_longest_waiting(self, network: str) -> bool:
        """Close the connection that waits longest, of a network or ALL; False: none waits."""
        for state in State:
            for conn in self.waiting[state]:
                if network is ALL or network in conn.networks:
                    self.drop(conn)
                    return True
        return False

    def wait(self, conn: Connection, state: State, seconds: float) -> None:
        """Set a connection's state, for `seconds` at most, behind others in the same state."""
        self.waiting[conn.state].pop(conn, None)
        conn.state = state
        conn.until = time.monotonic() + seconds
        self.waiting[state][conn] = None

    def watch(self, conn: Connection, events: int) -> None:
        """Set the events, reading or writing, that the loop waits for; 0: none."""
        if events == conn.watched:
            return
        if not events:
            self.selector.unregister(conn.sock)
        elif conn.watched:
            self.selector.modify(conn.sock, events, conn)
        else:
            self.selector.register(conn.sock, events, conn)
        conn.watched = events

    def drop(self, conn: Connection) -> None:
        """Close a connection in whatever state it is."""
        if conn.state is State.CLOSED:
            return
        self.waiting[conn.state].pop(conn, None)
        conn.state = State.CLOSED
        self.watch(conn, 0)
        conn.sock.close()
        conn.release()
        self.connections.remove(conn.networks)
        self.end_response(conn)

    def end_response(self, conn: Connection) -> None:
        try:
            conn.end_response()
        except Exception:
            self.log.exception("error while closing an answer")

    def expire(self, now: float) -> None:
        """Close or refuse the connections whose time for their state is over."""
        for state, conns in self.waiting.items():
            for conn in [conn for conn in conns if conn.until <= now]:
                if state in (State.HEAD, State.BODY):
                    self.refuse(conn, 408)
                elif state is State.QUEUED:
                    self.refuse(conn, 503)
                else:
                    self.drop(conn)

    # Requests

    def handle(self, conn: Connection) -> None:
        """Continue with a connection that can be read, or written while it is SENDING."""
        if conn.state is State.SENDING:
            if conn.output_bytes:
                self.send(conn)
            else:
                self.run_application(conn)
            return
        try:
            received = conn.receive()
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if not received:
            self.drop(conn)
        elif conn.state is not State.LEAVING:
            if conn.state is State.BODY:
                latest = time.monotonic() + self.BODY_SECONDS
                conn.until = min(conn.until + received / self.RATE, latest)
            self.advance(conn)

    def advance(self, conn: Connection) -> None:
        """Parse what was received, and wait for more, run the application or refuse."""
        try:
            if conn.read_request():
                conn.release()
                if self.slow.leave_room_for(conn):
                    self.run_application(conn)
                else:
                    self.wait(conn, State.QUEUED, self.QUEUE_SECONDS)
                    self.watch(conn, 0)
                return
        except RequestRefused as error:
            self.refuse(conn, error.status)
            return
        if conn.request is None:
            if conn.state is State.IDLE and conn.received_bytes:
                self.wait(conn, State.HEAD, self.HEAD_SECONDS)
        elif conn.state is not State.BODY:
            self.wait(conn, State.BODY, self.BODY_SECONDS)
            if conn.request.expects_continue:
                conn.send_briefly(b"HTTP/1.1 100 Continue\r\n\r\n")
        conn.hold(self.requests, conn.received_bytes)
        if self.requests.exceeded(conn.networks):
            self.refuse(conn, 503)

    def move_queue(self) -> None:
        """Run queued requests that may run now. Raises LoopTaken."""
        for conn in list(self.waiting[State.QUEUED]):
            if self.slow.leave_room_for(conn):
                self.guard(conn, self.run_application)
        self.queue_may_move = False

    def run_application(self, conn: Connection) -> None:
        """Let the application make the response, or more of it, and send that.

        Raises LoopTaken if it took so long that another thread runs the loop.
        """
        self.waiting[conn.state].pop(conn, None)
        conn.state = State.WORKING
        self.hand_over.begin(conn)
        conn.put_output(self.make_output(conn))
        if not self.hand_over.end(conn):
            self.finished.append(conn)
            self.wake()
            raise LoopTaken
        self.send(conn)

    def make_output(self, conn: Connection) -> bytes:
        """Return the next bytes of the response, made by the application."""
        response = conn.response
        is_new = response is None
        if response is None:
            response = conn.response = Response(cast(Request, conn.request), self.alive)
        try:
            return response.run(self.application) if is_new else response.next_piece()
        except (Exception, SystemExit):
            # Without the path and the headers, which contain phones and keys.
            self.log.exception("error while answering %s", conn.environ["REQUEST_METHOD"])
            response.is_complete, response.keep_alive = True, False
            return b"" if response.is_started else make_problem(500, conn.environ)

    def send(self, conn: Connection) -> None:
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
        self.wait(conn, State.SENDING, conn.send_until - now)
        self.watch(conn, selectors.EVENT_WRITE)
        conn.hold(self.answers, conn.output_bytes + conn.received_bytes)
        while user := self.answers.exceeded(conn.networks):
            unread = self.waiting[State.SENDING]
            self.drop(next(c for c in unread if user is ALL or user in c.networks))

    def finish(self, conn: Connection) -> None:
        """Wait for the next request after a response, or for the client to close."""
        conn.release()
        response = conn.response
        self.end_response(conn)
        if response is None or not response.keep_alive:
            self.linger(conn)
            return
        self.wait(conn, State.IDLE, self.keepalive if self.alive else LAST_REQUEST_SECONDS)
        self.watch(conn, selectors.EVENT_READ)
        if conn.received_bytes:
            self.ready.append(conn)

    def refuse(self, conn: Connection, status: int) -> None:
        """Send a response of the server itself, and close the connection."""
        conn.send_briefly(make_problem(status, conn.environ))
        self.linger(conn)

    def linger(self, conn: Connection) -> None:
        """Close after LINGER_SECONDS: at once, with bytes unread, would discard the response."""
        conn.release()
        self.end_response(conn)
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(conn)
            return
        self.wait(conn, State.LEAVING, self.LINGER_SECONDS)
        self.watch(conn, selectors.EVENT_READ)
