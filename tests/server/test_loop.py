"""No connection is closed on which a request has arrived: the loop, step by step."""

import logging
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest

from crm.server import Loop, loop
from crm.server.connections import NEW_SECONDS, RECEIVE_BYTES, ClientConnection, State
from crm.server.hand_over import HAND_OVER_SECONDS, LoopTaken
from tests.server.test_server import POST, ask
from tests.waiting import wait_for

PIECE = b"x" * 400_000  # more than a socket takes at once
ANSWER = b"HTTP/1.1 200 OK\r\n"
LOG = logging.getLogger("tests")


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [PIECE] * 8 if environ["PATH_INFO"] == "/big" else [b"small"]


class FullLoop(Loop):
    MAX_CONNECTIONS = 3
    CLIENTS_ARE_DIRECT = False


class SmallLoop(Loop):
    MAX_BUFFER_BYTES = 40_000
    CLIENTS_ARE_DIRECT = False


class Clients:
    """A loop that runs when a test says so, and connections to it whose bytes arrive at once."""

    def __init__(self, loop_class: type[Loop] = Loop) -> None:
        self.loop = loop_class(app, [], workers=1, threads=4, keepalive=5, stop_seconds=20, log=LOG)
        self.sockets = ExitStack()

    def connect(self) -> tuple[socket.socket, ClientConnection]:
        """A client's end of a connection and the server's."""
        end, client = socket.socketpair()
        client.setblocking(False)
        self.sockets.enter_context(client)
        return client, self.loop.add(end, "")

    def connect_early(self, sent: bytes) -> tuple[socket.socket, ClientConnection]:
        """The same of one that was opened long ago and has sent something now."""
        client, conn = self.connect()
        conn.opened_at -= NEW_SECONDS
        client.send(sent)
        return client, conn

    def run(self) -> None:
        """One round of the loop, except that nothing expires."""
        for key, _ in self.loop.selector.select(0):
            if isinstance(key.data, ClientConnection):
                self.loop.handle(key.data)
        self.loop.continue_parsing()

    def close(self) -> None:
        self.loop.close()
        self.sockets.close()


@pytest.fixture
def clients():
    clients = Clients()
    yield clients
    clients.close()


@pytest.fixture
def full():
    """A loop that has as many connections as it may."""
    clients = Clients(FullLoop)
    yield clients
    clients.close()


def receive(client: socket.socket) -> bytes | None:
    """What has arrived; b"" if the server has closed the connection, None if there is nothing."""
    try:
        return client.recv(1_000_000)
    except BlockingIOError:
        return None


def has_ended(client: socket.socket) -> bool:
    """Whether the server has closed the connection, whatever it has not read."""
    try:
        return receive(client) == b""
    except ConnectionResetError:
        return True


def test_a_request_that_has_arrived_is_answered_though_the_time_for_it_is_over(clients):
    (first, conn), (silent, silent_conn) = clients.connect(), clients.connect()
    for client in (first, silent):
        client.send(ask("/"))
    clients.run()
    assert receive(first) and receive(silent)
    first.send(ask("/"))
    clients.loop.expire(max(conn.until, silent_conn.until))
    assert receive(silent) == b""
    clients.run()
    assert (receive(first) or b"").startswith(ANSWER)


def test_so_is_one_that_came_together_with_the_request_before(clients):
    client, conn = clients.connect()
    client.send(ask("/") * 2)
    clients.loop.handle(conn)
    assert (receive(client) or b"").count(ANSWER) == 1
    clients.loop.expire(conn.until)
    clients.run()
    assert (receive(client) or b"").count(ANSWER) == 1


def test_who_has_sent_many_requests_has_one_turn_in_a_round_behind_others(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str] = []

    def note(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        served.append(environ["PATH_INFO"])
        return app(environ, start_response)

    clients.loop.application = note
    monkeypatch.setattr(loop, "TURN_SECONDS", 60)
    names = [f"/{number}" for number in range(5)]
    for name in names:
        client, _ = clients.connect()
        client.send(ask(name) * (2 * RECEIVE_BYTES // len(ask(name))))  # not read at once
    clients.run()
    other, _ = clients.connect()
    for _ in range(3):
        other.send(ask("/other"))
        served.clear()
        clients.run()
        assert served[0] == "/other"
        assert sorted(served[1:]) == names
    # However many they are, they have so much time together, and go on in their order.
    monkeypatch.setattr(loop, "TURN_SECONDS", 0)
    served.clear()
    for _ in range(2 * len(names)):
        clients.run()
    assert served[: len(names)] == served[len(names) :]
    assert sorted(served[: len(names)]) == names


def test_a_request_that_begins_in_time_has_the_time_of_a_head(clients: Clients) -> None:
    client, conn = clients.connect()
    client.send(b"GET / HT")
    clients.loop.expire(conn.until)
    clients.run()
    clients.loop.expire(conn.until)
    assert (receive(client) or b"").startswith(b"HTTP/1.1 408 ")


def test_a_full_server_closes_a_silent_connection_first(full):
    ends = [full.connect_early(sent)[0] for sent in (ask("/"), b"", b"")]
    ends.append(full.connect()[0])
    assert [receive(end) for end in ends] == [None, b"", None, None]
    full.run()
    assert (receive(ends[0]) or b"").startswith(ANSWER)


def test_one_where_all_have_sent_a_request_closes_who_waits_longest(full):
    ends = [full.connect_early(ask("/"))[0] for _ in range(3)]
    ends.append(full.connect()[0])
    assert [has_ended(end) for end in ends] == [True, False, False, False]
    full.run()
    assert [(receive(end) or b"")[:17] for end in ends[1:]] == [ANSWER, ANSWER, b""]


def test_one_where_all_wait_for_their_turn_refuses_who_waits_longest(full):
    ends = []
    for _ in range(3):
        end, conn = full.connect_early(ask("/"))
        conn.receive()
        assert conn.read_request()
        full.loop.waiting.put(conn, State.QUEUED, 20)
        full.loop.waiting.watch(conn, 0)
        ends.append(end)
    ends.append(full.connect()[0])
    assert [(receive(end) or b"")[:13] for end in ends] == [b"HTTP/1.1 503 ", b"", b"", b""]
    assert has_ended(ends[0])


def test_a_request_behind_another_is_refused_where_too_much_is_held():
    clients = Clients(SmallLoop)
    client, _ = clients.connect()
    client.send(ask("/") + POST + b"Content-Length: 60000\r\n\r\n" + bytes(50_000))
    clients.run()
    result = receive(client) or b""
    assert result.startswith(ANSWER)
    assert b"HTTP/1.1 503 " in result
    clients.close()


def test_a_stop_during_an_answer_leaves_time_for_the_next_request(clients):
    client, conn = clients.connect()
    client.send(ask("/big"))
    clients.run()
    assert conn.state is State.SENDING
    clients.loop.alive = False
    assert not clients.loop.has_stopped()
    result = b""
    while conn.state is State.SENDING:
        result += receive(client) or b""
        clients.run()
    result += receive(client) or b""
    assert b"Connection: keep-alive\r\n" in result
    client.send(ask("/"))
    clients.run()
    result = receive(client) or b""
    assert result.startswith(ANSWER)
    assert b"Connection: close\r\n" in result


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_clients_are_told_a_shorter_time_than_the_server_waits(clients, version):
    client, _ = clients.connect()
    client.send(ask("/", b"Connection: keep-alive\r\n").replace(b"1.1", version))
    began = time.monotonic()
    clients.run()
    result = receive(client) or b""
    assert b"\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n" in result
    clients.loop.expire(began + 5.5)
    assert receive(client) is None
    client.send(ask("/", b"Connection: close\r\n"))
    clients.run()
    assert b"Keep-Alive" not in (receive(client) or b"Keep-Alive")


def test_a_client_may_leave_while_a_group_waits_for_one_of_its_changes():
    clients = Clients()
    loop, answered = clients.loop, []
    hand_over = loop.runner.hand_over
    hand_over.wake_supervisor = loop.wakeup_end.fileno()  # it has none

    def change(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/first":  # slow: another thread continues the loop
            time.sleep(HAND_OVER_SECONDS)
            hand_over.check_task()
            leaving.close()
            for _ in range(2):  # the second one is read in a round after the end of `leaving`
                other.sendall(ask("/other"))
                answered.append(other.recv(1000))
        start_response("200 OK", [])
        return [b""]

    loop.application = change
    loop.changes_record = lambda environ: environ["PATH_INFO"] != "/other"
    (first, _), (leaving, _), (staying, _) = (clients.connect() for _ in range(3))
    other, _ = clients.connect()
    for client, path in ((first, "/first"), (leaving, "/leaving"), (staying, "/staying")):
        client.sendall(POST.replace(b"/echo", path.encode()) + b"Content-Length: 0\r\n\r\n")
    for client in (first, staying, other):
        client.settimeout(10)
    try:
        with pytest.raises(LoopTaken):
            loop.run()
        for answer in (*answered, first.recv(1000), staying.recv(1000)):
            assert answer.startswith(ANSWER)
        assert hand_over.exit_code is None
    finally:
        loop.stop()
        wait_for(lambda: hand_over.exit_code == 0)
        clients.close()
