"""Connections that are passed between worker processes, whole or not at all."""

import hashlib
import http.client
import logging
import socket
from collections import Counter
from contextlib import ExitStack, closing
from typing import Any
from zlib import crc32

import pytest

from crm.server import Loop, transfers
from crm.server.connections import ClientConnection, make_base_environ
from crm.server.loop import MAX_SHORT_BYTES
from crm.server.transfers import MAX_MESSAGE_BYTES, MIN_READS, SEND_BUFFER_BYTES, Transfers
from tests.waiting import wait_for

pytestmark = pytest.mark.process

CLIENTS = 60
HOST = next(host for host in "abc" if crc32(host.encode()) % 2)  # worker 1 writes for it


def post(size: int, host: str = "a") -> tuple[bytes, str]:
    """A request of so many bytes with its head, and the digest of its body."""
    head = f"POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: %d\r\n\r\n"
    length = size - len(head % size)
    while len(head % length) + length < size:
        length += 1
    body = bytes(index % 251 for index in range(length))
    return (head % length).encode() + body, hashlib.sha256(body).hexdigest()


def read_response(line: socket.socket) -> tuple[str, str]:
    """The worker that answers on a connection that is kept, and the body of its answer."""
    response = http.client.HTTPResponse(line)
    with closing(response):
        response.begin()
        assert response.status == 200
        return response.headers["X-Process"], response.read().decode()


def worker_of(line: socket.socket) -> str:
    """The worker that has a connection now; asking it is a read."""
    line.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return read_response(line)[0]


@pytest.fixture
def most(start):
    """The worker that has most connections, and some of them: each is passed with its next request
    unless something is against it.
    """
    served = start(workers=2, passes_writers=True)
    with ExitStack() as stack:
        lines = [stack.enter_context(served.connect()) for _ in range(CLIENTS)]

        def ask_all() -> list[str]:
            return [worker_of(line) for line in lines]

        def are_spread() -> bool:
            return sorted(Counter(ask_all()).values()) == [CLIENTS // 2] * 2

        wait_for(are_spread, 30)
        for _ in range(MIN_READS):
            workers = ask_all()
        most = workers[0]
        for line, worker in zip(lines, workers, strict=True):
            if worker != most:
                line.close()
        lines = [line for line, worker in zip(lines, workers, strict=True) if worker == most]

        def is_passed() -> bool:
            """Once the other worker has noticed that its clients have left."""
            line = lines.pop()
            line.sendall(post(1000)[0])
            return read_response(line)[0] != most

        wait_for(is_passed)
        yield most, lines


def test_requests_of_every_size_arrive_whole_and_too_large_ones_stay(most):
    owner, lines = most
    bounds = (MAX_SHORT_BYTES, MAX_MESSAGE_BYTES, SEND_BUFFER_BYTES, 2 * SEND_BUFFER_BYTES)
    sizes = sorted(bound + more for bound in bounds for more in (-1, 0, 1))
    for size in (*sizes, 300 << 10, 5 << 20):  # the last one is in a file
        request, digest = post(size)
        line = lines.pop()
        line.sendall(request)
        worker, answer = read_response(line)
        assert answer == digest, size
        assert (worker == owner) == (size > MAX_MESSAGE_BYTES), size


def connect(request: bytes) -> tuple[socket.socket, ClientConnection]:
    """A client's end of a connection, and the server's with a request that is read."""
    client, end = socket.socketpair()
    client.settimeout(10)
    conn = ClientConnection(end, (), make_base_environ(None, ""))
    conn.received += request
    assert conn.read_request()
    return client, conn


@pytest.fixture
def workers():
    """Two workers that serve; this process is the first one, until it begins as the second one."""
    workers = Transfers(2)
    workers.begin(1)
    workers.begin(0)
    yield workers
    for pair in workers._pairs:
        for end in pair:
            end.close()


CHANGE = f"POST /change HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@pytest.mark.parametrize("excess", [0, 1])
def test_what_has_come_behind_a_request_counts_too(workers, excess):
    sent = post(MAX_MESSAGE_BYTES - 1000, host=HOST)[0] + bytes(1000 + excess)
    client, conn = connect(sent)
    with client, conn.sock:
        assert workers.pass_on(conn, is_short_change=True) == (not excess)
        workers.begin(1)
        taken = list(workers.take())
        assert [received for _, _, received in taken] == [sent] * (not excess)
        for sock, _, _ in taken:
            sock.close()


def test_a_message_that_was_cut_is_never_served(workers, monkeypatch):
    client, conn = connect(CHANGE)
    with client:
        assert workers.pass_on(conn, is_short_change=True)
        conn.sock.close()
        workers.begin(1)
        monkeypatch.setattr(transfers, "MAX_MESSAGE_BYTES", len(CHANGE) - 1)
        assert list(workers.take()) == []
        assert client.recv(1) == b""


def make_loop(workers: Transfers, number: int) -> Loop:
    """The loop of a worker, which this process is from now on."""
    workers.begin(number)
    loop_class = type("StoppingLoop", (Loop,), {"TRANSFERS": workers, "LINGER_SECONDS": 0.0})
    return loop_class(
        answer, [], workers=2, threads=4, keepalive=5, stop_seconds=20, log=logging.getLogger()
    )


def answer(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]


answer.changes_record = lambda environ: environ["PATH_INFO"] == "/change"  # type: ignore


def test_what_is_on_its_way_to_a_worker_that_stops_is_answered(workers):
    client, conn = connect(CHANGE)
    with client:
        assert workers.pass_on(conn, is_short_change=True)
        conn.sock.close()
        loop = make_loop(workers, 1)
        loop.stop()
        loop.run()
        loop.close()
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_what_is_passed_to_a_worker_that_has_just_stopped_is_answered_here(workers, monkeypatch):
    loop = make_loop(workers, 0)
    client, conn = connect(CHANGE)

    def stop_and_send(*arguments: Any) -> int:
        workers.end(1)
        return send_fds(*arguments)

    send_fds = socket.send_fds
    monkeypatch.setattr(socket, "send_fds", stop_and_send)
    with client:
        loop.advance(conn)
        loop.runner.run_waiting()
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        loop.close()
