"""What clients from one or two addresses can do to a real server, in memory and in waiting."""

import contextlib
import hashlib
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.server import Loop, find_running
from crm.server.connections import ClientConnection, State, make_base_environ
from crm.server.loop import TURN_SECONDS
from tests.installations import copy_installation
from tests.server.test_commit_groups import unread_bytes
from tests.server.test_server import POST, ask, read_all_or_reset, read_one, readable
from tests.server_process import run_server
from tests.waiting import wait_for

pytestmark = pytest.mark.process

MIB = 1 << 20
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def service(furnished, tmp_path_factory):
    """The whole service with the tenants of the cast."""
    data = tmp_path_factory.mktemp("service") / "data"
    copy_installation(furnished[0], data)
    with run_server(data) as port:
        yield Service(data, port, furnished[1]["olena"])


class Service:
    def __init__(self, data: Path, port: int, key: str) -> None:
        self.data, self.port, self.key = data, port, key

    @property
    def worker(self) -> int:
        parent = find_running(self.data).pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

    def head(self, target: str, *fields: str, host: str = "acme.localhost") -> bytes:
        lines = [f"POST {target} HTTP/1.1", f"Host: {host}", "Connection: close", *fields]
        return "\r\n".join([*lines, f"Authorization: Bearer {self.key}", "\r\n"]).encode()

    def send(self, *words: bytes) -> bytes:
        """Return the whole answer; the client sends all it has before it reads."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as line:
            for part in words:
                line.sendall(part)
            return read_all_or_reset(line)


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def is_answered(line: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return line.recv(100).startswith(b"HTTP/1.1 200 ")
    return False


# What requests hold


def test_no_body_outlives_its_request(service):
    kind = "Content-Type: multipart/form-data; boundary=x"
    file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nwrong\r\n'
    file += b"a" * 9 * MIB + b"\r\n--x--\r\n"
    length, json = f"Content-Length: {len(file)}", "Content-Type: application/json"
    small = b"{}" + b" " * (MIB - 2)
    requests = [
        (404, service.head("/api/v1/leads", length, host="nobody.localhost"), file),
        (404, service.head("/nothing", length, host="evil.example"), file),
        (404, service.head("/api/v1/nothing", length), file),
        (405, service.head("/api/v1/leads/1", length), file),
        (413, service.head("/api/v1/leads", length, json), file),
        (422, service.head("/api/v1/products/import", length, kind), file),
        (302, service.head("/products/import", length, kind), file),
        (422, service.head("/api/v1/leads", f"Content-Length: {MIB}", json), small),
        (404, service.head("/api/v1/leads/0/convert", f"Content-Length: {MIB}", json), small),
        (404, service.head("/nothing", f"Content-Length: {MIB}"), small),
        (400, service.head("/login", f"Content-Length: {MIB}"), small),
    ]

    def send_all() -> None:
        for status, head, body in requests:
            answer = service.send(head, body)
            assert answer.startswith(b"HTTP/1.1 %d " % status), (head, answer)

    send_all()
    before = memory(service.worker)
    for _ in range(4):
        send_all()
    # Each round sends 67 MiB.
    assert memory(service.worker) - before < 60


def test_an_environ_that_is_kept_keeps_no_body(start):
    """As the traceback of an error keeps it."""
    served = start()
    assert served.request("POST", "/keep", b"a" * 10)[0] == 200
    assert served.get("/kept") == b"(False, True)"  # it has no input; its input is closed


def test_a_body_can_be_read_until_its_answer_ends(start):
    body = b"a" * 100_000
    answer = start().request("POST", "/late", body)[1]
    assert answer[300_000:] == hashlib.sha256(body).hexdigest().encode()


def test_a_body_counts_no_more_once_its_answer_is_made(start):
    served = start(MAX_BUFFER_BYTES=4_000_000)  # of which one address may use half
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    body = b"a" * 900_000
    with socket.socket() as first, contextlib.ExitStack() as lines:
        first.settimeout(10)
        # Its answer waits in the server: little of it fits into the sockets' buffers.
        first.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        first.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        first.connect((served.host, served.port))
        first.sendall(head % (b"/some", len(body)) + body)
        assert first.recv(8, socket.MSG_PEEK) == b"HTTP/1.1"
        others = [lines.enter_context(served.connect()) for _ in range(2)]
        for line in others:
            line.sendall(head % (b"/echo", len(body) + 1) + body)
        for line in others:
            line.sendall(b"a")
            assert len(read_one(line)) == 64
        assert len(read_one(first)) == 300_000


def test_what_nobody_reads_is_not_waited_for(service):
    huge, json = f"Content-Length: {15 * MIB}", "Content-Type: application/json"
    too_large = f"Content-Length: {51 * MIB}"
    kind = "Content-Type: multipart/form-data; boundary=x"
    for status, head in (
        (404, service.head("/api/v1/leads", huge, json, host="nobody.localhost")),
        (404, service.head("/", "Transfer-Encoding: chunked", host="evil.example")),
        (404, service.head("/api/v1/nothing", "Content-Length: 9")),
        (413, service.head("/api/v1/leads", f"Content-Length: {MIB + 2}", json)),
        (413, service.head("/api/v1/leads", huge, json, "Expect: 100-continue")),
        (413, service.head("/api/v1/products/import", too_large, kind)),
    ):
        began = time.monotonic()
        answer = service.send(head)
        assert answer.startswith(b"HTTP/1.1 %d " % status), (head, answer)
        assert b"\r\nConnection: close\r\n" in answer
        assert time.monotonic() - began < 8  # a body is waited for 30 s
    # A client that sends all of it gets the answer nevertheless.
    answer = service.send(service.head("/", huge, host="evil.example"), b"a" * 15 * MIB)
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_what_is_read_may_come_slowly_and_in_chunks(service):
    json = "Content-Type: application/json"
    body = b'{"name": "Olena", "phone": "0501234567"}' + b" " * (MIB - 100)
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    chunked = service.head("/api/v1/leads", "Transfer-Encoding: chunked", json)
    length = f"Content-Length: {len(body)}"
    assert b" 201 " in service.send(service.head("/api/v1/leads", f"{length}\t", json), body)[:20]
    expects = service.head("/api/v1/leads", length, json, "Expect: 100-continue")
    with socket.create_connection(("127.0.0.1", service.port), 20) as line:
        line.sendall(chunked)
        time.sleep(0.1)
        line.sendall(chunk + b"0\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 201 ")
    with socket.create_connection(("127.0.0.1", service.port), 20) as line:
        line.sendall(expects)
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        line.sendall(body)
        assert line.recv(100).startswith(b"HTTP/1.1 201 ")
    assert service.send(chunked, chunk * 2 + b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    # A page at the machine's own address belongs to the base host, whose forms are read.
    form = service.head("/language", "Content-Length: 1", host=f"127.0.0.1:{service.port}")
    with socket.create_connection(("127.0.0.1", service.port), 20) as line:
        line.sendall(form)
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)


def test_bodies_that_wait_share_a_bound(start):
    served = start()
    worker = served.worker
    head = b"POST %s HTTP/1.1\r\nHost: busy.a\r\nContent-Length: %d\r\n\r\n"
    words = head % (b"/slow?began", 8 * MIB) + b"a" * 8 * MIB
    before, peak = memory(worker), 0.0
    with contextlib.ExitStack() as lines:
        for number in range(60):
            line = lines.enter_context(served.connect(f"127.0.0.{2 + number % 8}"))
            with contextlib.suppress(OSError):
                line.sendall(words)  # its answer is not read
            peak = max(peak, memory(worker))
        assert served.answers_within(8)
    assert peak - before < 200  # all of them have 480 MiB


@pytest.mark.parametrize(("host", "refused"), [(b"b", 0), (b"a", 1)])
def test_one_host_may_use_a_part_of_the_bound(start, host, refused):
    served = start(MAX_BUFFER_BYTES=1_000_000)  # of which one host may use half
    head = b"POST /echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 300000\r\n\r\n"
    with contextlib.ExitStack() as lines:
        most = [lines.enter_context(served.connect("127.0.0.2")) for _ in range(3)]
        largest = lines.enter_context(served.connect("127.0.0.3"))
        largest.sendall(head % host + b"x" * 190_000)
        wait_for(lambda: unread_bytes(served.port) == 0)
        for line in most:
            line.sendall(head % b"a" + b"x" * 150_000)
        wait_for(lambda: unread_bytes(served.port) == 0)
        time.sleep(0.3)
        # Of the address that has most, though another one has the largest body.
        answered = readable([*most, largest])
        assert len(answered) == refused and largest not in answered
        for line in answered:
            assert line.recv(100).startswith(b"HTTP/1.1 503 ")


# Whom a full server closes


@contextlib.contextmanager
def repeating(count: int, step: Any) -> Iterator[None]:
    """Call step(number) over and over in `count` threads."""
    over = threading.Event()

    def run(number: int) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                step(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_full_server_spares_who_connects(start):
    served = start(files=169)  # 64 connections, 32 of one address
    flood: dict[int, list[socket.socket]] = {0: [], 1: []}

    def flood_once(number: int) -> None:
        line = served.connect(f"127.0.0.{2 + number}")
        line.sendall(POST + b"Content-Length: 9\r\n\r\na")
        flood[number].append(line)
        if len(flood[number]) > 100:
            flood[number].pop(0).close()
        time.sleep(0.01)

    with repeating(2, flood_once):
        wait_for(lambda: min(map(len, flood.values())) > 60, 20)
        answered = 0
        for _ in range(20):
            with served.connect() as line, contextlib.suppress(OSError):
                time.sleep(0.06)  # as from another country
                line.sendall(ask("/"))
                answered += is_answered(line)
    for line in [*flood[0], *flood[1]]:
        line.close()
    assert answered == 20


def test_who_holds_most_gives_way_to_a_new_body(start):
    served = start(MAX_BUFFER_BYTES=4_000_000)
    head = POST + b"Content-Length: 900000\r\n\r\n"
    with contextlib.ExitStack() as lines:
        held = [lines.enter_context(served.connect(f"127.0.0.{2 + n % 3}")) for n in range(6)]
        for line in held:
            line.sendall(head + b"x" * 650_000)
        wait_for(lambda: unread_bytes(served.port) == 0)
        body = b"y" * 300_000
        for _ in range(5):
            with served.connect() as line:
                line.sendall(POST + b"Content-Length: 300000\r\n\r\n" + body[:200_000])
                time.sleep(0.06)
                line.sendall(body[200_000:])
                answer = line.recv(10_000)
                assert hashlib.sha256(body).hexdigest().encode() in answer


# What parsing costs


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (CHUNKED + b"c\r\nabcdefghijkl\r\n" * 4000 + b"0\r\n\r\n", b"200"),
        (b"\r\n" * 500_000, b"400"),
    ],
    ids=["small chunks", "empty lines"],
)
def test_parsing_keeps_nobody_waiting(start, words, status):
    served = start()
    with contextlib.ExitStack() as lines:
        results = [lines.enter_context(served.connect()) for _ in range(100)]
        for line in results:
            line.settimeout(60)
        statuses: list[bytes] = []

        def send(line: socket.socket) -> None:
            with contextlib.suppress(OSError):
                line.sendall(words)
            with contextlib.suppress(OSError):
                statuses.append(line.recv(100)[9:12])

        threads = [threading.Thread(target=send, args=(line,)) for line in results]
        for thread in threads:
            thread.start()
        waits = []
        while any(thread.is_alive() for thread in threads):
            began = time.monotonic()
            served.get()
            waits.append(time.monotonic() - began)
        for thread in threads:
            thread.join()
    assert set(statuses) == {status}
    assert max(waits) < 1.5


def test_the_turn_of_those_that_have_sent_more_has_an_end():
    def app(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
        time.sleep(TURN_SECONDS / 4)
        start_response("200 OK", [])
        return [b""]

    log = logging.getLogger()
    loop = Loop(app, [], workers=1, threads=4, keepalive=5, stop_seconds=1, log=log)
    with contextlib.ExitStack() as clients:
        for _ in range(20):
            own, client = socket.socketpair()
            clients.enter_context(client)
            conn = ClientConnection(own, (), make_base_environ(None, ""))
            loop.waiting.put(conn, State.IDLE, 10)
            client.sendall(ask("/"))
            conn.receive()
            loop.ready.append(conn)
        loop.continue_parsing()
        assert 0 < 20 - len(loop.ready) <= 5
        loop.close()


def test_all_requests_sent_at_once_are_answered(start):
    served, count = start(), 1000
    with served.connect() as line:
        line.sendall(ask("/") * (count - 1) + ask("/", b"Connection: close\r\n"))
        assert read_all_or_reset(line).count(b"HTTP/1.1 200 OK") == count
