"""The server's seam: real processes on loopback, with a small application of their own."""

import contextlib
import hashlib
import http.client
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from crm import server
from crm.server.worker import give_back_memory
from tests.cases import loop_over
from tests.server_process import find_free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

APP = """
import hashlib, os, time
from pathlib import Path

kept = []

def late(body):
    yield b"x" * 300_000
    yield hashlib.sha256(body.read()).hexdigest().encode()

def half():
    yield b"half"
    raise OSError("disk")

def after(fifo):
    yield b"first"
    open(fifo).close()
    yield b"second"
    raise OSError("disk")

def app(environ, start_response):
    path, body = environ["PATH_INFO"], b""
    if path == "/slow":
        Path(environ["QUERY_STRING"]).touch()
        time.sleep(1.5)
    elif path == "/held":
        Path(environ["QUERY_STRING"]).touch()
        while not Path("over").exists():
            time.sleep(0.01)
    elif path == "/boom":
        raise ValueError("boom")
    elif path == "/lost":
        raise ConnectionResetError("of another connection")
    elif path == "/half":
        start_response("200 OK", [("Content-Length", "10")])
        return half()
    elif path == "/compute":
        Path(environ["QUERY_STRING"]).touch()
        while not Path("over").exists():
            for _ in range(100_000):
                pass
    elif path == "/stream":
        start_response("200 OK", [])
        endless = environ["QUERY_STRING"] == "endless"
        return (b"%8d" % number for number in range(10**9 if endless else 200_000))
    elif path == "/after":
        start_response("200 OK", [])
        return after(environ["QUERY_STRING"])
    elif path == "/headers":
        names = ("HTTP_X_FORWARDED_FOR", "HTTP_A", "PATH_INFO", "QUERY_STRING", "SCRIPT_NAME")
        body = repr([environ.get(name) for name in names]).encode()
    elif path == "/big":
        body = b"x" * 30_000_000
    elif path == "/some":
        body = b"x" * 300_000
    elif path == "/late":
        start_response("200 OK", [])
        return late(environ["wsgi.input"])
    elif path == "/keep":
        kept[:] = environ, environ["wsgi.input"]
    elif path == "/kept":
        body = repr(("wsgi.input" in kept[0], kept[1].closed)).encode()
    elif path == "/echo":
        body = hashlib.file_digest(environ["wsgi.input"], "sha256").hexdigest().encode()
    elif path == "/pieces":
        pieces, size = (b"%065536d" % number for number in range(320)), 320 * 65536
        headers = [("Content-Length", str(size)), ("Content-Range", f"bytes 0-{size - 1}/*")]
        start_response("206 Partial Content", headers)
        return pieces
    elif path == "/unread":
        body = b"unread"
    else:
        body = str(os.getpid()).encode()
    process = ("X-Process", str(os.getpid()))
    start_response("200 OK", [("Content-Length", str(len(body))), process])
    return [body]

app.max_body_bytes = lambda environ: 2**30
app.changes_record = lambda environ: environ["PATH_INFO"] == "/change"
"""

SERVE = """
import json, os, sys, threading, time, types
from pathlib import Path
from small import app

data, host, port, changes, house = sys.argv[1:]
# A stand-in for the package around it, which would import the whole application.
sys.modules["crm"] = types.ModuleType("crm")
sys.modules["crm"].__path__ = [house]
from crm import server
from crm.networks import networks_of
from crm.server import worker

changes = json.loads(changes)
for name, value in changes.items():
    owner = server.Loop if hasattr(server.Loop, name) else server
    setattr(owner, name, value)
if "slow_fork" in changes:
    worker.end_with_parent = lambda parent: time.sleep(0.5)
if "late_fork" in changes:
    end_with_parent = worker.end_with_parent
    def end_later(parent):
        Path(f"forked-{os.getpid()}").touch()
        while os.getppid() == parent:
            time.sleep(0.01)
        end_with_parent(parent)
    worker.end_with_parent = end_later
if "slow_start" in changes:
    server.raise_limit = lambda: time.sleep(0.5)  # the next after the socket listens
own_pid = os.getpid()

def build():
    assert os.getpid() != own_pid, "the application belongs to the worker"
    if "slow_load" in changes:
        Path("loading").touch()
        time.sleep(1)
    if "broken" in changes:
        raise RuntimeError("no such application")
    return app

def announce():
    assert threading.active_count() == 1, "a thread before the fork"
    print("listening")

try:
    names = ("workers", "databases", "passes_writers")
    options = {name: changes[name] for name in names if name in changes}
    server.serve(build, Path(data), host, int(port), **options, announce=announce)
except server.ServeError as error:
    sys.exit(f"error: {error}")
print("ended")
"""


class Served:
    """One server process, and what a client does to it."""

    def __init__(self, process: subprocess.Popen[str], host: str, port: int) -> None:
        self.process = process
        self.host = host
        self.port = port

    def listens(self) -> bool:
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], 15)
        return bool(ready) and self.process.stdout.readline() == "listening\n"

    def is_open(self) -> bool:
        with contextlib.suppress(ConnectionRefusedError), self.connect():
            return True
        return False

    def connect(self, address: str | None = None) -> socket.socket:
        """A connection, from this address of the machine if one is given."""
        source = address and (address, 0)
        return socket.create_connection((self.host, self.port), 10, source)

    def send(self, words: bytes) -> bytes:
        """The whole answer to raw bytes."""
        with self.connect() as line:
            line.sendall(words)
            return read_all(line)

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        link = http.client.HTTPConnection(self.host, self.port, timeout=10)
        with contextlib.closing(link):
            link.request(method, path, body)
            answer = link.getresponse()
            return answer.status, answer.read()

    def get(self, path: str = "/") -> bytes:
        status, body = self.request("GET", path)
        assert status == 200
        return body

    @property
    def worker(self) -> int:
        return int(self.get())

    def answers_within(self, seconds: float) -> bool:
        began = time.monotonic()
        self.get()
        return time.monotonic() - began < seconds

    def end(self) -> tuple[int, str]:
        """Its exit code and what it wrote on stderr."""
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


def read_all(line: socket.socket) -> bytes:
    got = b""
    while more := line.recv(65536):
        got += more
    return got


def read_one(line: socket.socket) -> bytes:
    """The body of one answer on a connection that is kept."""
    answer = http.client.HTTPResponse(line)
    with contextlib.closing(answer):
        answer.begin()
        return answer.read()


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


Start = Callable[..., Served]
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"


@contextlib.contextmanager
def starting(tmp_path: Path) -> Iterator[Start]:
    """start(data=…, host=…, port=…, listens=True, files=RLIMIT_NOFILE, **changes of the
    constants)."""
    (tmp_path / "home").mkdir()
    (tmp_path / "small.py").write_text(APP)
    (tmp_path / "serve.py").write_text(SERVE)
    started: list[subprocess.Popen[str]] = []

    def run(
        data: str = "data",
        host: str = "127.0.0.1",
        port: int | None = None,
        listens: bool = True,
        command: list[str] | None = None,
        files: int | None = None,
        **changes: object,
    ) -> Served:
        port = find_free_port() if port is None else port
        given = [str(tmp_path / data), host, str(port), json.dumps(changes), str(ROOT / "crm")]
        process = subprocess.Popen(
            command or [sys.executable, "-W", "error", str(tmp_path / "serve.py"), *given],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path / "home"),
                "PYTHONPATH": f"{ROOT}:{tmp_path}",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=files
            and partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files)),
        )
        started.append(process)
        served = Served(process, host, port)
        if listens and not command:
            assert served.listens(), process.communicate(timeout=20)
        return served

    yield run
    for process in started:
        # Its own session, so its worker ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """One server with nothing changed, for many tests."""
    with starting(tmp_path_factory.mktemp("plain")) as run:
        yield run()


class Drip:
    """Clients that send some bytes at once and then one byte every 50 ms."""

    def __init__(self, served: Served, count: int, words: bytes) -> None:
        self.lines = [served.connect() for _ in range(count)]
        for line in self.lines:
            line.sendall(words)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    def go_on(self) -> None:
        while not self.over.wait(0.05):
            for line in self.lines:
                with contextlib.suppress(OSError):
                    line.send(b"a")

    def __enter__(self) -> "Drip":
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        for line in self.lines:
            line.close()

    def statuses(self) -> list[bytes]:
        """The status line that each got before it was closed."""
        return [read_all_or_reset(line).partition(b"\r\n")[0] for line in self.lines]


def readable(lines: list[socket.socket]) -> list[socket.socket]:
    """Those on which something has arrived that is not read yet."""
    return select.select(lines, [], [], 0)[0]


def read_all_or_reset(line: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while more := line.recv(65536):
            got += more
    return got


# One process per data folder


def test_one_serve_per_data_folder(start, tmp_path):
    first = start()
    second = start(listens=False, TAKEOVER_SECONDS=0)
    code, said = second.end()
    assert code == 1
    assert said == (f"error: another serve runs on {tmp_path / 'data'} (pid {first.process.pid})\n")
    assert first.get()
    assert (tmp_path / "data" / "serve.lock").read_text().split()[0] == str(first.process.pid)


def test_a_killed_serve_is_followed_at_once(start):
    first = start()
    worker = first.worker
    first.process.kill()
    second = start(port=first.port)  # it waits TAKEOVER_SECONDS for the folder, no longer
    assert second.worker != worker
    assert is_gone(worker)


def test_worker_ends_when_its_parent_is_killed(start, tmp_path):
    served = start(workers=2, STOP_SECONDS=600)
    worker = served.worker
    wait_for(lambda: len(children_of(served)) == 2)
    siblings = children_of(served)
    with served.connect() as line:
        # In the midst of a request, for which an orderly stop would wait.
        line.sendall(ask("/held?began"))
        wait_for((tmp_path / "began").exists)
        served.process.kill()
        assert worker in siblings
        wait_for(lambda: all(map(is_gone, siblings)))


def test_worker_ends_whose_parent_was_killed_while_it_started(start, tmp_path):
    served = start(late_fork=True)
    wait_for(lambda: [*tmp_path.glob("forked-*")])
    (worker,) = children_of(served)
    served.process.kill()
    wait_for(lambda: is_gone(worker))


def children_of(served: Served) -> list[int]:
    pid = served.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("name", ["SIGHUP", "SIGTTIN"])
def test_no_signal_makes_a_second_worker(start, name):
    usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored when nohup runs the tests
    try:
        served = start()
    finally:
        signal.signal(signal.SIGHUP, usual)
    worker = served.worker
    served.process.send_signal(getattr(signal, name))
    if name == "SIGHUP":
        assert served.end() == (0, "")
    else:
        time.sleep(0.3)
        assert children_of(served) == [worker]
        assert served.worker == worker


# Slow clients


def test_dripping_clients_do_not_stop_the_server(start):
    served = start(HEAD_SECONDS=1.0, BODY_SECONDS=1.0, workers=2)
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
    with (
        Drip(served, 8, head + b"X: ") as heads,
        Drip(served, 8, head + b"Content-Length: 100000\r\n\r\n") as drip,
        Drip(served, 8, head + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n") as chunked,
    ):
        for _ in range(5):
            assert served.answers_within(8)
        for clients in (heads, drip, chunked):
            assert clients.statuses() == [b"HTTP/1.1 408 Request Timeout"] * 8


def test_an_honest_slow_upload_passes(start):
    served = start(BODY_SECONDS=2.0)
    body = os.urandom(96_000)
    head = f"POST /echo HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.monotonic()
    with served.connect() as line:
        line.sendall(head.encode())
        for at in range(0, len(body), 4000):
            line.sendall(body[at : at + 4000])
            time.sleep(0.1)
        assert hashlib.sha256(body).hexdigest().encode() in read_all(line)
    assert time.monotonic() - began > 2


@pytest.mark.parametrize("size", [0, 1, 65536, 10 * 1024 * 1024])
def test_uploads_arrive_whole(plain, size):
    body = os.urandom(size)
    digest = hashlib.sha256(body).hexdigest().encode()
    assert plain.request("POST", "/echo", body) == (200, digest)
    chunks = b"".join(
        b"%x;note=1\r\n%s\r\n" % (len(part), part)
        for part in (body[at : at + 70_000] for at in range(0, size, 70_000))
    )
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    assert digest in plain.send(head + b"\r\n" + chunks + b"0\r\nX-Trailer: a\r\n\r\n")


def test_requests_split_at_every_byte_and_sent_at_once_are_the_same(plain):
    chunked = b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    words = b"POST /echo HTTP/1.1\r\n" + chunked
    words += b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "
    words += b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    at_once = plain.send(words)
    with plain.connect() as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(words)):
            line.sendall(words[at : at + 1])
        split = read_all(line)
    for answers in (at_once, split):
        assert answers.count(b"200 OK") == 3
        assert hashlib.sha256(b"abcde").hexdigest().encode() in answers
        assert hashlib.sha256(b"").hexdigest().encode() in answers


def test_a_client_that_asks_before_sending_is_told_to_go_on(plain):
    with plain.connect() as line:
        line.sendall(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(b"abc")
        answer = read_all(line)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert hashlib.sha256(b"abc").hexdigest().encode() in answer


def ask(path: str, more: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode() + more + b"\r\n"


def test_answers_that_nobody_reads_keep_nobody_waiting(start):
    served = start(workers=2, SEND_SECONDS=600.0)  # nobody's time to read ends meanwhile
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(served.connect()) for _ in range(40)]
        for line in lines:
            line.sendall(ask("/big") * 50)
        wait_for(lambda: len(readable(lines)) == 40, 60)
        for _ in range(10):
            assert served.get()


@pytest.mark.deep
def test_a_streamed_answer_has_the_same_deadline(start):
    served = start(SEND_SECONDS=1.0, RATE=4_000_000)
    got, began = 0, time.monotonic()
    with served.connect() as line:
        line.sendall(ask("/stream?endless"))
        with contextlib.suppress(ConnectionResetError):
            while more := line.recv(40_000):
                got += len(more)
                if time.monotonic() - began < 3:
                    time.sleep(0.05)  # 800 kB a second, each piece in less than a second
                assert got < 50_000_000, "the answer goes on"


def test_unread_answers_share_a_bound(start):
    served = start(MAX_BUFFER_BYTES=80_000_000)  # of which one address may use half
    with contextlib.ExitStack() as lines:
        results = [lines.enter_context(served.connect()) for _ in range(3)]
        for line in results:
            line.sendall(ask("/big"))
            wait_for(lambda line=line: readable([line]))
        whole = [len(read_one_or_less(line)) == 30_000_000 for line in results]
    assert whole == [False, False, True]


def read_one_or_less(line: socket.socket) -> bytes:
    try:
        return read_one(line)
    except (http.client.IncompleteRead, ConnectionResetError):
        return b""


def test_one_address_cannot_use_up_all_connections(start):
    served = start(files=169)
    with contextlib.ExitStack() as lines:
        other = lines.enter_context(served.connect("127.0.0.2"))
        for _ in range(100):
            lines.enter_context(served.connect())
        assert served.get()  # so all of them are accepted
        other.sendall(ask("/"))
        assert read_one(other).isdigit()


# Quick and slow requests


def test_a_slow_request_keeps_no_other_waiting(start, tmp_path):
    served = start()
    assert served.get()
    with served.connect() as line:
        line.sendall(ask("/compute?began"))
        wait_for((tmp_path / "began").exists)
        for _ in range(10):
            assert served.get()
        (tmp_path / "over").touch()
        assert b"200 OK" in line.recv(1000)


def test_what_waits_too_long_for_slow_requests_is_told_to_come_back(start, tmp_path):
    served = start(QUEUE_SECONDS=0.5)
    with contextlib.ExitStack() as lines:
        results = [lines.enter_context(served.connect()) for _ in range(3)]
        for line, name in zip(results, ("first", "second", "third"), strict=True):
            line.sendall(ask(f"/held?{name}"))
            if name != "third":
                wait_for((tmp_path / name).exists)
        head, _, body = read_all(results[2]).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in head
        assert json.loads(body)["code"] == "busy"


def test_a_client_may_send_on_and_leave_while_its_slow_request_runs(start, tmp_path):
    served = start()
    with served.connect() as staying, served.connect() as leaving:
        leaving.sendall(ask("/slow?leaving") + ask("/"))
        staying.sendall(ask("/slow?staying"))
        wait_for(lambda: all((tmp_path / name).exists() for name in ("leaving", "staying")))
        leaving.close()
        staying.sendall(ask("/") + ask("/", b"Connection: close\r\n"))
        assert read_all(staying).count(b"200 OK") == 3
    assert served.get()


def test_a_streamed_answer_arrives_whole(plain):
    body = plain.get("/stream")
    assert len(body) == 200_000 * 8
    assert body.endswith(b"  199999")
    answer = plain.send(b"GET /stream HTTP/1.0\r\n\r\n")
    assert answer.partition(b"\r\n\r\n")[2] == body  # without chunks, up to the end


def test_the_answer_to_head_has_no_body(plain):
    answer = plain.send(b"HEAD /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 30000000" in answer


# What a request may be


def test_a_header_with_an_underscore_is_not_the_one_with_a_hyphen(plain):
    words = ask("/headers", b"X_Forwarded_For: 1.2.3.4\r\nScript_Name: /x\r\nA: 1\r\nA: 2\r\n")
    with plain.connect() as line:
        line.sendall(words)
        assert read_one(line) == b"[None, '1,2', '/headers', '', '']"


def test_a_target_may_hold_utf8_and_be_absolute(plain):
    with plain.connect() as line:
        line.sendall("GET /headers?q=коваль HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        sent = "".join(f"%{byte:02X}" for byte in "коваль".encode())
        assert read_one(line) == f"[None, None, '/headers', 'q={sent}', '']".encode()
        line.sendall(b"GET http://b.a/headers?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_one(line) == b"[None, None, '/headers', 'x=1', '']"


CHUNKED = b"Transfer-Encoding: chunked\r\n"
HIDDEN = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"


AMBIGUOUS = (
    POST + CHUNKED + b"Content-Length: 5\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + HIDDEN,
    POST + CHUNKED + CHUNKED + b"\r\n" + HIDDEN,
    POST + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n" + HIDDEN,
    POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + HIDDEN,
    POST + b"Transfer-Encoding : chunked\r\n\r\n" + HIDDEN,
    POST + b"X: y\nTransfer-Encoding: chunked\r\n\r\n" + HIDDEN,
    POST + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: +5\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 99999999999999999999\r\n\r\n" + HIDDEN,
    POST + b"Content-Length: 5\r\n \t\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n1;x\na\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n1;x\ra\r\na\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n1\r\na\n\r" + HIDDEN,
    POST + CHUNKED + b"\r\n0\r\nX: a\0\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n0\r\nno colon\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n0\r\nX: a\r\n b\r\n\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n" + b"1\r\na\r\n" * 9000 + HIDDEN,
    b"\r\n" * 9 + POST + b"\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n1\na\r\n" + HIDDEN,
    POST + CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n" + HIDDEN,
    POST.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + HIDDEN,
    POST.replace(b" HTTP/1.1", b"") + b"\r\n" + HIDDEN,
    b"POST /echo HTTP/1.1\nHost: a\n\n" + HIDDEN,
    POST + b"Host: b\r\n\r\n" + HIDDEN,
    POST + b"Authorization: a\r\nAuthorization: b\r\n\r\n" + HIDDEN,
    b"GET http://a:99999999/ HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN,
    b"GET / HTTP/1.1\r\nHost: b,a\r\n\r\n" + HIDDEN,
    b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN,
    POST + b"A: b\r\n" * 200 + b"\r\n" + HIDDEN,
    b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN,
    b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n" + HIDDEN,
)


def test_no_request_is_smuggled_behind_an_ambiguous_one(plain):
    for words in AMBIGUOUS:
        with plain.connect() as line:
            line.sendall(words)
            answer = read_all_or_reset(line)
        assert answer.count(b"\r\nContent-Length: ") == 1, words
        assert answer.split()[1][:1] in (b"4", b"5"), words
    assert plain.get()


@loop_over(
    ("words", "body"),
    [
        (b"Content-Length: 5\t\r\n\r\nabcde", b"abcde"),
        (CHUNKED + b'\r\n5 ; a="\xd0\xb6\t" \r\nabcde\r\n0;b\r\n\r\n', b"abcde"),
        (CHUNKED + b"\r\n0005\r\nabcde\r\n000\r\nX-Sum: \xff\t1\r\ny:\r\n\r\n", b"abcde"),
        (CHUNKED + b"\r\n" + b"1\r\na\r\n" * 2000 + b"0\r\n\r\n", b"a" * 2000),
    ],
)
def test_what_the_standard_allows_is_taken(plain, words, body):
    answer = hashlib.sha256(body).hexdigest().encode()
    for before in (b"", b"\r\n", b"\r\n\r\n"):
        with plain.connect() as line:
            for _ in range(2):
                line.sendall(before + POST + words)
                assert read_one(line) == answer


CODES = {
    400: "bad_request",
    413: "too_large",
    417: "expectation_failed",
    431: "request_header_fields_too_large",
    500: "internal_error",
    501: "not_implemented",
}


@loop_over(
    ("words", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000, 431),
        (POST + b"Content-Length: 54000000\r\n\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\nab", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 9000, 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (POST + b"Expect: wonders\r\n\r\n", 417),
        (b"GET /boom HTTP/1.1\r\nHost: a\r\n\r\n", 500),
        (b"GET /lost HTTP/1.1\r\nHost: a\r\n\r\n", 500),
    ],
)
def test_what_is_refused_before_the_application(plain, words, status):
    head, _, body = plain.send(words).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"application/problem+json" in head
    assert head.count(b"\r\nX-Content-Type-Options: nosniff\r\n") == 1
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, CODES[status])
    assert problem["request_id"].encode() in head
    assert plain.get()


@pytest.mark.parametrize(
    ("words", "status"), [(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400), (b"GET /", 408)]
)
def test_a_refusal_names_no_request_before_it(start, words, status):
    served = start(HEAD_SECONDS=0.5)
    with served.connect() as line:
        line.sendall(ask("/first"))
        assert read_one(line)
        line.sendall(words)
        head, _, body = read_all_or_reset(line).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body)["instance"] == "/"


def test_an_answer_that_breaks_off_stays_broken(plain):
    answer = plain.send(b"GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nhalf")
    assert plain.get()


def test_the_first_part_is_sent_before_the_second_and_an_error_then_ends_no_body(plain, tmp_path):
    os.mkfifo(fifo := tmp_path / "fifo")
    with plain.connect() as line:
        line.sendall(ask(f"/after?{fifo}"))
        received = b""
        while not received.endswith(b"5\r\nfirst\r\n"):
            received += line.recv(65536)
        assert b"\r\nTransfer-Encoding: chunked\r\n" in received
        fifo.write_text("")
        assert read_all(line) == b"6\r\nsecond\r\n"  # and no chunk of length 0


# Stopping


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.deep)])
def test_sigterm_finishes_what_is_in_flight(start, tmp_path, name):
    served = start(workers=2)
    with served.connect() as running, served.connect() as sending, served.connect() as kept:
        kept.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_one(kept).isdigit()
        running.sendall(ask("/held?began"))
        sending.sendall(POST + b"Content-Length: 3\r\n\r\na")
        wait_for((tmp_path / "began").exists)
        began = time.monotonic()
        # To the whole group, as a terminal and systemd do.
        os.killpg(served.process.pid, getattr(signal, name))
        wait_for(lambda: not served.is_open())
        (tmp_path / "over").touch()
        sending.sendall(b"bc")
        for line in (running, sending):
            answer = read_all(line)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert b"Connection: close" in answer
    assert served.end() == (0, "")
    assert time.monotonic() - began < server.STOP_SECONDS  # the idle connection holds nobody up


@pytest.mark.parametrize("stops", [2, pytest.param(50, marks=pytest.mark.deep)])
def test_no_stop_cuts_a_request_on_a_kept_connection(start, stops):
    for number in range(stops):
        served = start(f"data{number}", workers=2)
        # Some have a request under way all the time, others are idle when the stop comes.
        pauses = [0, 0.1, 0.2, 0.4] * 4
        answered, cut = [0] * len(pauses), []

        def client(
            index: int,
            served: Served = served,
            pauses: list = pauses,
            answered: list = answered,
            cut: list = cut,
        ) -> None:
            link = http.client.HTTPConnection(served.host, served.port, timeout=10)
            with contextlib.closing(link):
                link.connect()
                while link.sock is not None:  # closed after an answer with Connection: close
                    try:
                        link.request("GET", "/")
                        link.getresponse().read()
                        answered[index] += 1
                        time.sleep(pauses[index])
                    except (OSError, http.client.HTTPException) as error:
                        cut.append(error)
                        return

        clients = [threading.Thread(target=client, args=(index,)) for index in range(len(pauses))]
        for thread in clients:
            thread.start()
        wait_for(lambda answered=answered: all(answered) and sum(answered) > 200)
        served.process.terminate()
        for thread in clients:
            thread.join()
        assert served.end() == (0, "")
        assert not cut


@pytest.mark.parametrize("moment", ["slow_fork", "slow_start"])
def test_a_stop_during_the_start_is_not_lost(start, moment):
    served = start(listens=moment == "slow_fork", **{moment: True})
    wait_for(served.is_open)
    served.process.terminate()
    assert served.end() == (0, "")


def test_a_stop_while_the_application_loads_answers_who_waits(start, tmp_path):
    served = start(slow_load=True, workers=2)
    with served.connect() as line:
        line.sendall(ask("/"))
        wait_for((tmp_path / "loading").exists)
        served.process.terminate()
        assert b"200 OK" in read_all(line)
    assert served.end() == (0, "")


def test_what_does_not_finish_is_cut_off(start, tmp_path):
    served = start(STOP_SECONDS=1)
    with served.connect() as line:
        line.sendall(ask("/held?began"))
        wait_for((tmp_path / "began").exists)
        served.process.terminate()
        code, _ = served.end()
        assert code == 0
        assert read_all_or_reset(line) == b""


# Addresses and files


def test_port_in_use_is_one_clear_line(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        served = start(port=port, listens=False, TAKEOVER_SECONDS=0)
        said = f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        assert served.end() == (1, said)


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("no.such.host.invalid", 8000, "'no.such.host.invalid' is not a known host or address"),
        ("192.0.2.1", 8000, "cannot listen on 192.0.2.1:8000: Cannot assign requested address"),
    ],
)
def test_a_bad_address_is_one_clear_line(start, host, port, said):
    assert start(host=host, port=port, listens=False).end() == (1, f"error: {said}\n")


def test_an_application_that_does_not_start_ends_the_server(start):
    served = start(broken=True)
    code, said = served.end()
    assert code == 1
    assert "no such application" in said
    assert said.endswith("error: the server did not start, the lines above say why\n")


def test_ipv6(start):
    assert start(host="::1").get()


def test_localhost_is_served_on_ipv4(start):
    served = start(host="localhost")
    with socket.create_connection(("127.0.0.1", served.port), timeout=5):
        pass


def test_nothing_of_a_request_is_written_to_a_log(start):
    served = start()
    for path in (b"/boom", b"/"):
        served.send(
            b"POST " + path + b"?phone=+380501112233 HTTP/1.0\r\n"
            b"Authorization: Bearer crm_secret\r\n\r\n"
        )
    served.send(b"GET /?phone=+380501112233 HTTP/1.1\r\nAuthorization crm_secret\r\n\r\n")
    served.process.terminate()
    code, said = served.end()
    assert code == 0
    assert "ValueError: boom" in said
    assert "380501112233" not in said
    assert "crm_secret" not in said


def test_memory_that_is_free_between_what_stays_is_given_back() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    blocks = [bytes(3000) for _ in range(20_000)]
    del blocks[::2], blocks[::2], blocks[::2]
    before = resident_pages()
    give_back_memory()
    assert before - resident_pages() > 20_000 * 3000 / resource.getpagesize() / 2
