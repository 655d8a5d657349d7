"""Bodies beyond 1 MiB are in temporary files, and large answers are made as they are read."""

import contextlib
import hashlib
import http.client
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.test_full_disk import mounted
from tests.server.test_hostile_load import CHUNKED, MIB, memory
from tests.server.test_server import POST, ask, read_all, read_one
from tests.waiting import wait_for

pytestmark = pytest.mark.process

BODY = bytes(range(256)) * (20 * MIB // 256)
DIGEST = hashlib.sha256(BODY).hexdigest().encode()
HEAD = POST + b"Content-Length: %d\r\n\r\n" % len(BODY)
PIECES = hashlib.sha256(b"".join(b"%065536d" % number for number in range(320))).hexdigest()


def files_of(pid: int) -> list[str]:
    """What each descriptor of a process is open on."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(link))
    return links


def temporary_files(pid: int, folder: Path) -> int:
    return sum(
        link.startswith(f"{folder}/") and link.endswith(" (deleted)") for link in files_of(pid)
    )


def test_uploads_at_once_take_little_memory_and_leave_no_file(start, tmp_path):
    served = start()
    worker, data = served.worker, tmp_path / "data"
    assert served.request("POST", "/echo", BODY) == (200, DIGEST)
    before, files = memory(worker), len(files_of(worker))
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(served.connect()) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda line: line.sendall(HEAD + BODY[:-1]), lines))
        wait_for(lambda: temporary_files(worker, data) == 8)
        assert served.answers_within(8)
        assert memory(worker) - before < 40  # they have 160 MiB
        for line in lines:
            line.sendall(BODY[-1:])
        assert [read_one(line) for line in lines] == [DIGEST] * 8
        assert temporary_files(worker, data) == 0
        for line in lines[:4]:  # the connections are kept, and some clients leave in the middle
            line.sendall(HEAD + BODY[: 2 * MIB])
        wait_for(lambda: temporary_files(worker, data) == 4)
    wait_for(lambda: len(files_of(worker)) <= files)
    assert memory(worker) - before < 40


def test_a_body_in_chunks_is_in_a_file_too_and_a_request_may_follow(start, tmp_path):
    served = start()
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (300_000, BODY[at : at + 300_000]) for at in range(0, 6_000_000, 300_000)
    )
    with served.connect() as line:
        line.sendall(CHUNKED + chunks)
        wait_for(lambda: temporary_files(served.worker, tmp_path / "data") == 1)
        line.sendall(b"0\r\n\r\n" + POST)
        line.sendall(b"Connection: close\r\nContent-Length: 3\r\n\r\nabc")
        first, second = re.findall(rb"\r\n\r\n([0-9a-f]{64})", read_all(line))
        assert first == hashlib.sha256(BODY[:6_000_000]).hexdigest().encode()
        assert second == hashlib.sha256(b"abc").hexdigest().encode()


def test_a_full_disk_ends_the_request_and_its_connection_alone(start, tmp_path):
    with mounted(tmp_path / "disk", "24m") as disk:
        served = start(data="disk")
        worker = served.worker
        disk.fill()
        with served.connect() as other, served.connect() as line:
            line.sendall(HEAD + BODY)
            answer = read_all(line)
            assert answer.startswith(b"HTTP/1.1 507 Insufficient Storage\r\n")
            assert b"\r\nConnection: close\r\n" in answer and b'"code": "storage_full"' in answer
            other.sendall(POST + b"Content-Length: 900000\r\n\r\n" + BODY[:900_000])
            assert read_one(other) == hashlib.sha256(BODY[:900_000]).hexdigest().encode()
            assert temporary_files(worker, disk.path) == 0
            disk.free()
            other.sendall(HEAD + BODY)
            assert read_one(other) == DIGEST
        served.process.kill()


@pytest.mark.parametrize(("host", "refused"), [(b"b", 0), (b"a", 1)])
def test_files_of_bodies_share_a_bound(start, tmp_path, host, refused):
    """As those in memory: one address and one host may use half of it."""
    served = start(MAX_SPOOLED_BYTES=20 * MIB, MAX_BUFFER_BYTES=8 * MIB)
    worker, data = served.worker, tmp_path / "data"
    head = b"POST /echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 7000000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for number in (2, 3):
            line = stack.enter_context(served.connect(f"127.0.0.{number}"))
            line.sendall(head % (host if number == 3 else b"a") + BODY[: 6 * MIB])
        wait_for(lambda: temporary_files(worker, data) == 2 - refused)
        line = stack.enter_context(served.connect("127.0.0.4"))
        line.sendall(head % b"c" + BODY[:7_000_000])
        assert read_one(line) == hashlib.sha256(BODY[:7_000_000]).hexdigest().encode()
        assert temporary_files(worker, data) == 2 - refused


def test_an_answer_is_made_as_its_clients_read_it(start):
    served = start()
    worker = served.worker
    assert hashlib.sha256(served.send(ask("/pieces", b"Connection: close\r\n"))
                          .partition(b"\r\n\r\n")[2]).hexdigest() == PIECES  # fmt: skip
    before = memory(worker)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(served.connect()) for _ in range(8)]
        for line in lines:
            line.sendall(ask("/pieces"))
            assert line.recv(1, socket.MSG_PEEK)
        assert served.answers_within(8)
        threads = len(os.listdir(f"/proc/{worker}/task"))
        assert threads <= 4  # none of them waits for a client
        assert memory(worker) - before < 20  # they have 160 MiB
        for line in lines:
            assert hashlib.sha256(read_one(line)).hexdigest() == PIECES
    link = http.client.HTTPConnection(served.host, served.port, timeout=10)
    with contextlib.closing(link):
        link.request("HEAD", "/pieces")
        answer = link.getresponse()
        assert (answer.status, answer.headers["Content-Length"]) == (206, str(320 * 65536))
        assert answer.read() == b""
        link.request("GET", "/")
        assert link.getresponse().status == 200
