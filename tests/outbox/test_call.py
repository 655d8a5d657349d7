"""One POST under one deadline, against real receivers on loopback that do what they should not."""

import dataclasses
import gc
import os
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network
from typing import Any

import pytest
import trustme

from crm.config import LOOPBACK, Allow
from crm.outbox import call
from crm.outbox.call import Outcome
from tests.cases import loop_over
from tests.concurrency import run_in_threads

pytestmark = pytest.mark.slow

parametrize = pytest.mark.parametrize
SHORT = 0.15  # seconds for those who never end
LATE = SHORT * 1000 + 10_000  # milliseconds: a busy machine may be late, a hanging call is later
BODY = '{"name":"Їжак"}'.encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Acts = Callable[["Client"], None]


class Client:
    """The receiver's side of one connection."""

    def __init__(self, connection: socket.socket, over: threading.Event):
        self.connection, self.over = connection, over
        self.head = self.body = b""

    def read(self) -> "Client":
        """The whole request."""
        sent = self.more()
        while b"\r\n\r\n" not in sent:
            sent += self.more()
        self.head, _, self.body = sent.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", self.head, re.I)[1])
        while len(self.body) < length:
            self.body += self.more()
        return self

    def more(self) -> bytes:
        part = self.connection.recv(65536)
        if not part:
            raise ConnectionError("the caller has gone")
        return part

    def say(self, *parts: bytes) -> None:
        self.read()
        for part in parts:
            self.connection.sendall(part)

    def drip(self, said: bytes, tail: bytes = b"x") -> None:
        """Some bytes at once, and then one after the other for ever."""
        self.say(said)
        while not self.over.wait(0.02):
            self.connection.sendall(tail)

    def flood(self, said: bytes, tail: bytes) -> None:
        self.say(said)
        while not self.over.is_set():
            self.connection.sendall(tail * 1000)

    def hang(self) -> None:
        self.over.wait(60)

    def reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Receiver:
    """Listens on loopback and does with each connection what `acts` says."""

    def __init__(self, acts: Acts, tls: ssl.SSLContext | None = None, address="127.0.0.1"):
        self.acts, self.tls = acts, tls
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.clients: list[Client] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def url(self, host: str = "127.0.0.1", path: str = "/hook") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            if self._over.is_set():
                return connection.close()
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(60)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                self.clients.append(Client(connection, self._over))
                self.acts(self.clients[-1])

    def close(self) -> None:
        self._over.set()
        socket.create_connection(self.listener.getsockname()[:2]).close()
        for thread in self._threads:
            thread.join()
        self.listener.close()


@contextmanager
def receiver(acts: Acts, **options: Any) -> Iterator[Receiver]:
    opened = Receiver(acts, **options)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def full_listener(address: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """The port of a listener that takes no more connections."""
    with ExitStack() as sockets:
        full, *waiting = (sockets.enter_context(socket.socket()) for _ in range(5))
        full.bind((address, port))
        full.listen(0)
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def says(*parts: bytes) -> Acts:
    return lambda client: client.say(*parts)


def answers(status: int, headers: str = "", body: bytes = b"") -> Acts:
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return says(head.encode() + body)


def post(url: str, **options: Any) -> Outcome:
    options = {"seconds": 5.0, "allow": LOOPBACK} | options
    headers = {"content-type": "application/json", "user-agent": "crm/1", "webhook-id": "evt_1"}
    return call.http_post(url, headers, BODY, options.pop("allow"), **options)


def post_to_receiver(acts: Acts, **options: Any) -> Outcome:
    """The outcome of a POST to a receiver that acts like this."""
    with receiver(acts) as server:
        return post(server.url(), **options)


def without_time(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, duration_ms=0)


@pytest.fixture(autouse=True, scope="module")
def others_are_closed():
    """Close what the tests of other modules left open, before it is counted here."""
    gc.collect()


@pytest.fixture(autouse=True)
def everything_is_closed():
    """No test leaves a descriptor open."""
    before = len(os.listdir("/dev/fd"))
    yield
    assert len(os.listdir("/dev/fd")) == before


# A receiver that does its part


def test_the_request_is_what_was_given():
    with receiver(answers(204)) as server:
        outcome = post(server.url(path="/a/b?c=%D1%97&d=1"))
        port = server.port
        (client,) = server.clients
    assert without_time(outcome) == Outcome(0, status=204, answer="")
    assert outcome.ok
    first, *lines = client.head.decode().split("\r\n")
    assert first == "POST /a/b?c=%D1%97&d=1 HTTP/1.1"
    assert sorted(line.lower() for line in lines) == [
        "accept-encoding: identity",
        "connection: close",
        f"content-length: {len(BODY)}",
        "content-type: application/json",
        f"host: 127.0.0.1:{port}",
        "user-agent: crm/1",
        "webhook-id: evt_1",
    ]
    assert client.body == BODY


@loop_over(
    ("status", "ok"),
    [(200, True), (204, True), (299, True), (304, False), (400, False), (410, False), (999, False)],
)
def test_only_2xx_is_good(status, ok):
    outcome = post_to_receiver(answers(status, body=b"" if status in (204, 304) else b"ok"))
    assert (outcome.status, outcome.error, outcome.ok) == (status, None, ok)
    assert outcome.answer == ("" if status in (204, 304) else "ok")


@parametrize(
    ("bytes_", "text"),
    [
        ("добре".encode(), "добре"),
        (b"a\0b\0", "a\ufffdb\ufffd"),
        (b"\xff\xfeok", "\ufffd\ufffdok"),
        (b"<b>no & yes</b>\r\n", "<b>no & yes</b>\r\n"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_the_answer_is_text_that_can_be_kept(bytes_, text):
    assert post_to_receiver(answers(500, body=bytes_)).answer == text


def test_an_answer_in_chunks_is_put_together():
    chunks = says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n", b"2;x=y\r\nde\r\n", b"0\r\nTrailer: x\r\n\r\n",
    )  # fmt: skip
    assert without_time(post_to_receiver(chunks)) == Outcome(0, status=200, answer="abcde")


def test_an_answer_may_end_with_the_connection_and_be_of_http_1_0():
    assert post_to_receiver(says(b"HTTP/1.0 200 OK\r\n\r\nok")).answer == "ok"
    assert post_to_receiver(says(b"HTTP/1.1 200\r\n\r\nok")).answer == "ok"


def test_one_who_leaves_the_connection_open_after_the_answer_is_not_waited_for():
    outcome = post_to_receiver(lambda client: (client.say(HEAD + b"\r\nok"), client.hang()))
    assert outcome.ok and outcome.duration_ms < 1000


@parametrize(
    "acts",
    [
        answers(200, body=b"x" * 10_000_000),
        lambda client: client.flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100),
        lambda client: client.flood(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"64\r\n" + b"x" * 100 + b"\r\n",
        ),
    ],
    ids=["long", "endless", "endless-chunks"],
)
def test_of_a_body_without_end_the_beginning_is_read(acts):
    outcome = post_to_receiver(acts)
    assert (outcome.ok, outcome.answer) == (True, "x" * call.MAX_ANSWER_BYTES)
    assert outcome.duration_ms < 2000


@parametrize(
    ("acts", "answer"),
    [
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"), "half"),
        (says(CHUNKS + b"4\r\nhalf\r\n9\r\nx"), "halfx"),
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ""),
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000), ""),
    ],
    ids=["length", "chunk", "no-size", "long-size"],
)
def test_after_whole_headers_a_bad_body_does_not_change_the_status(acts, answer):
    assert without_time(post_to_receiver(acts)) == Outcome(0, status=200, answer=answer)


def test_a_refusal_before_the_body_was_read_is_heard():
    def refuse(client: Client) -> None:
        client.connection.recv(10)
        client.connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    with receiver(refuse) as server:
        assert call.http_post(server.url(), {}, bytes(5_000_000), LOOPBACK, seconds=5).status == 413


# Redirects


@loop_over("status", [301, 307])
def test_redirects_are_not_followed(status):
    with (
        receiver(answers(200)) as inside,
        receiver(answers(status, f"Location: {inside.url()}\r\n", b"over there")) as server,
    ):
        outcome = post(server.url())
        assert (outcome.status, outcome.ok, outcome.answer) == (status, False, "over there")
        assert (len(server.clients), len(inside.clients)) == (1, 0)


# Retry-After


@loop_over(
    ("header", "seconds"),
    [("120", 120), (" 7 ", 7), ("9999999999", None), ("-5", None), ("1.5", None), ("", None)]
    + [("٣", None), ("Mon, 02 Mar 2015 09:00:00 GMT", 0), ("Mon, 99 Mar 2015 09:00:00 GMT", None)]
    + [("Mon, 02 Mar 2015 09:00:00 +9999", None), ("9" * 5000, None)],
)
def test_the_wait_that_is_asked_for(header, seconds):
    outcome = post_to_receiver(answers(429, f"Retry-After: {header}\r\n"))
    assert (outcome.status, outcome.retry_after) == (429, seconds)


def test_a_wait_until_a_date():
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=3600), usegmt=True)
    outcome = post_to_receiver(answers(503, f"Retry-After: {when}\r\n"))
    assert 3590 <= outcome.retry_after <= 3600


# Those who never end: the time is bounded, whatever they are doing


NEVER = {
    "silence": lambda client: (client.read(), client.hang()),
    "nothing-read": Client.hang,
    "dripping-status": lambda client: client.drip(b"HTTP/1.1 200 "),
    "dripping-headers": lambda client: client.drip(HEAD, b"a"),
    "dripping-body": lambda client: client.drip(b"HTTP/1.1 200 OK\r\n\r\n"),
    "dripping-1xx": lambda client: client.drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body-hangs": lambda client: (client.say(HEAD + b"\r\no"), client.hang()),
}


@parametrize("acts", NEVER.values(), ids=NEVER)
def test_one_deadline_bounds_it_all_and_its_verdict_stands(acts):
    outcome = post_to_receiver(acts, seconds=SHORT)
    assert without_time(outcome) == Outcome(0, error="timeout")
    assert SHORT * 1000 - 5 <= outcome.duration_ms < LATE
    assert not outcome.ok


def test_a_body_that_is_not_taken_is_given_up():
    with receiver(Client.hang) as server:
        outcome = call.http_post(server.url(), {}, bytes(50_000_000), LOOPBACK, seconds=SHORT)
    assert without_time(outcome) == Outcome(0, error="timeout")
    assert outcome.duration_ms < LATE


def test_the_time_to_resolve_counts():
    over = threading.Event()

    def resolve(*_: Any, **__: Any) -> list:
        over.wait(60)
        return []

    outcome = post("https://hook.test/", seconds=SHORT, resolve=resolve)
    over.set()
    assert without_time(outcome) == Outcome(0, error="timeout")
    assert outcome.duration_ms < LATE

    def resolve_late(*_: Any, **__: Any) -> list:
        time.sleep(SHORT * 2 / 3)
        return towards("127.0.0.1")()

    with receiver(lambda client: (client.read(), client.hang())) as server:
        url = f"http://localhost:{server.port}/"
        outcome = post(url, seconds=SHORT, resolve=resolve_late)
    assert without_time(outcome) == Outcome(0, error="timeout")
    assert outcome.duration_ms < LATE


def test_many_at_once_end_in_time_and_without_crossing():
    """Descriptors are reused all the time here: a deadline must never shut another connection."""

    def acts(client: Client) -> None:
        client.read()
        if b"/hang" in client.head:
            client.hang()
        client.connection.sendall(HEAD + b"\r\nok")

    outcomes: list[tuple[str, Outcome]] = []
    with receiver(acts) as server:

        def run(number: int) -> None:
            path, times, seconds = ("/hang", 8, 0.05) if number % 2 else ("/good", 20, 5)
            for _ in range(times):
                outcomes.append((path, post(server.url(path=path), seconds=seconds)))

        run_in_threads(8, run)
    results = {(path, outcome.status, outcome.error) for path, outcome in outcomes}
    assert results == {("/hang", None, "timeout"), ("/good", 200, None)}
    assert len(outcomes) == 4 * 28


# Those who speak badly


BAD = {
    "garbage": says(b"\x16\x03\x01\0\xff garbage\r\n\r\n"),
    "http2": says(b"HTTP/2 200\r\n\r\n"),
    "only-hints": says(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "cut-status": says(b"HTTP/1.1 200 O"),
    "cut-headers": says(HEAD),
    "no-length": says(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok"),
    "huge-headers": says(
        HEAD + b"".join(b"X: %b\r\n" % (b"x" * 8000) for _ in range(20)) + b"\r\nok"
    ),
    "endless-headers": lambda client: client.flood(HEAD, b"X: y\r\n"),
    "endless-1xx": lambda client: client.flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@parametrize("acts", BAD.values(), ids=BAD)
def test_what_is_no_answer_is_a_bad_answer(acts):
    outcome = post_to_receiver(acts)
    assert without_time(outcome) == Outcome(0, error="bad_answer")
    assert outcome.duration_ms < 4000  # it is not waited for to the end


def test_interim_answers_are_passed_over():
    interim = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 3
    assert post_to_receiver(says(interim + b"HTTP/1.1 204 No Content\r\n\r\n")).status == 204


GONE = {
    "closes-at-once": lambda client: None,
    "reads-and-closes": Client.read,
    "resets": Client.reset,
}


@parametrize("acts", GONE.values(), ids=GONE)
def test_one_who_goes_without_an_answer_is_a_failed_connection(acts):
    assert without_time(post_to_receiver(acts)) == Outcome(0, error="connection_failed")


def test_nobody_there_is_a_refused_connection():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert without_time(post(f"http://127.0.0.1:{port}/")) == Outcome(0, error="connection_refused")


# TLS


def towards(*addresses: str) -> Callable[..., list]:
    """A resolver of every name, without a network."""

    def resolve(*_: Any, **__: Any) -> list:
        return [(0, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    return resolve


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusting(authority) -> ssl.SSLContext:
    """What the caller has: the certificates it trusts."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def certified(authority: trustme.CA, *names: str, **options: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **options).configure_cert(context)
    return context


def test_tls_names_the_server_it_wants(authority, trusting):
    asked: list[str | None] = []
    tls = certified(authority, "xn--80aln7i.test")
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    with receiver(answers(200), tls=tls) as server:
        url = server.url("Їжак.test.")
        assert post(url, context=trusting, resolve=towards("127.0.0.1")).ok
    assert asked == ["xn--80aln7i.test"]


EXPIRED = dict.fromkeys(("not_before", "not_after"), datetime(2020, 1, 1, tzinfo=UTC))


@parametrize(
    ("name", "options", "is_trusted"),
    [
        *((name, {}, True) for name in ("other.test", "a.hook.test", "*.hook.test", "127.0.0.1")),
        ("hook.test", EXPIRED, True),
        ("hook.test", {}, False),
    ],
)
def test_tls_with_a_certificate_that_is_not_valid_fails(
    authority, trusting, name, options, is_trusted
):
    context = {"context": trusting} if is_trusted else {}
    with receiver(answers(200), tls=certified(authority, name, **options)) as server:
        outcome = post(server.url("hook.test"), resolve=towards("127.0.0.1"), **context)
        assert without_time(outcome) == Outcome(0, error="tls_failed")
        assert not server.clients


def test_the_certificates_of_the_system_are_what_is_trusted(authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    call._default_tls_context.cache_clear()
    with receiver(answers(200), tls=certified(authority, "hook.test")) as server:
        outcomes = run_in_threads(
            8, lambda _: post(server.url("hook.test"), resolve=towards("127.0.0.1"))
        )
        other = post(server.url("other.test"), resolve=towards("127.0.0.1"))
    call._default_tls_context.cache_clear()
    assert {without_time(outcome) for outcome in outcomes} == {Outcome(0, status=200, answer="")}
    assert other.error == "tls_failed"


BAD_TLS = {
    "http": lambda client: client.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "closes": lambda client: client.connection.recv(10),
    "alert": lambda client: client.connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28"),
}


@parametrize("acts", BAD_TLS.values(), ids=BAD_TLS)
def test_a_handshake_that_fails_is_named(trusting, acts):
    with receiver(acts) as server:
        outcome = post(f"https://127.0.0.1:{server.port}/", context=trusting)
    assert without_time(outcome) == Outcome(0, error="tls_failed")


def dripping_handshake(client: Client) -> None:
    """One record of 16 KiB that comes byte by byte."""
    client.connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
    while not client.over.wait(0.02):
        client.connection.sendall(b"\x03")


def test_a_handshake_has_no_time_of_its_own(authority, trusting):
    for acts in (Client.hang, dripping_handshake):
        with receiver(acts) as server:
            url = f"https://127.0.0.1:{server.port}/"
            outcome = post(url, seconds=SHORT, context=trusting)
        assert without_time(outcome) == Outcome(0, error="timeout")
        assert outcome.duration_ms < LATE


def test_the_deadline_holds_inside_of_tls_too(authority, trusting):
    with receiver(NEVER["dripping-body"], tls=certified(authority, "127.0.0.1")) as server:
        outcome = post(server.url(), seconds=SHORT, context=trusting)
    assert without_time(outcome) == Outcome(0, error="timeout")
    assert outcome.duration_ms < LATE


# Addresses


def test_the_addresses_of_a_name_are_tried_in_their_order():
    with receiver(answers(200)) as server:
        url = f"http://localhost:{server.port}/"
        assert post(url, resolve=towards("127.0.0.9", "::1", "127.0.0.1")).ok
        assert len(server.clients) == 1
        others = [f"127.0.1.{number}" for number in range(call.MAX_ADDRESSES)]
        assert post(url, resolve=towards(*others[1:], "127.0.0.1")).ok
        outcome = post(url, resolve=towards(*others, "127.0.0.1"))
    assert without_time(outcome) == Outcome(0, error="connection_refused")
    assert len(server.clients) == 2


def test_one_who_is_not_at_the_checked_address_is_told_nothing():
    """The address 0.0.0.0 leads to loopback, where somebody else listens."""
    with receiver(answers(200)) as server:
        outcome = post(server.url("0.0.0.0"), allow=Allow((ip_network("0.0.0.0/32"),)))
    assert without_time(outcome) == Outcome(0, error="forbidden_address")
    assert not any(client.head for client in server.clients)


def test_an_address_that_does_not_answer_leaves_time_for_the_next():
    with receiver(answers(200)) as server, full_listener("127.0.0.2", server.port):
        url = f"http://localhost:{server.port}/"
        outcome = post(url, seconds=3.0, resolve=towards("127.0.0.2", "127.0.0.1"))
    assert outcome.ok and 1495 <= outcome.duration_ms < 3000


@parametrize("address", ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"])
def test_an_address_is_called_without_a_resolver(address):
    def resolve(*_: Any, **__: Any) -> list:
        raise AssertionError("nothing is to be resolved")

    with receiver(answers(200), address=address) as server:
        host = f"[{address}]" if ":" in address else address
        assert post(server.url(host), resolve=resolve).ok
        assert f"Host: {host}:{server.port}" in server.clients[0].head.decode()


def test_a_name_that_is_not_known_is_an_outcome_too():
    def resolve(*_: Any, **__: Any) -> list:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    outcome = post("https://nowhere.test/", resolve=resolve)
    assert without_time(outcome) == Outcome(0, error="name_not_resolved")
