"""The receiver for a laptop: what it shows of a delivery, and how it answers."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from crm.outbox import listener, signature
from crm.outbox.listener import WebhookListener
from tests.conftest import Clock

NOW = "2026-03-02T09:00:00Z"  # what Clock() shows
EVENT = {"id": "evt_1", "type": "deal.won", "sequence": 7, "data": {"deal": {"title": "Стіл"}}}
BODY = json.dumps(EVENT).encode()
OLD, NEW = signature.new_secret(), signature.new_secret()

Start = Callable[..., WebhookListener]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(WebhookListener(0, clock=Clock(), **given))


@pytest.fixture
def plain(start: Start) -> WebhookListener:
    """It has no secret, so it checks nothing."""
    return start()


def post(to: WebhookListener, body: bytes = BODY, headers: dict[str, str] | None = None) -> int:
    """The status of the answer, which has no body."""
    sent = {"webhook-id": "evt_1", **(headers or {})}
    with closing(http.client.HTTPConnection("127.0.0.1", to.port, timeout=10)) as link:
        link.request("POST", "/hook?a=b", body, sent)
        answer = link.getresponse()
        assert answer.read() == b""
        assert answer.headers["Connection"] == "close"
        return answer.status


def signed(secret: str, body: bytes = BODY, at: float = 0) -> dict[str, str]:
    return signature.make_headers([secret], "evt_1", int(Clock().moment + at), body)


def line(shown: str) -> list[str]:
    return shown.split("\n")[0].split("\t")


def raw(to: WebhookListener, sent: bytes) -> bytes:
    """All that comes back until the end of the connection."""
    with socket.create_connection(("127.0.0.1", to.port), timeout=10) as link:
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        result = b""
        while came := link.recv(65536):
            result += came
        return result


# What is shown


def test_a_delivery_is_a_line_and_its_body(plain: WebhookListener) -> None:
    assert post(plain) == 204
    first, *body = plain.next_text().split("\n")
    assert first == f"{NOW}\tdeal.won\t7\tevt_1\tsignature not checked"
    assert json.loads("\n".join(body)) == EVENT
    assert '  "sequence": 7,' in body
    assert '      "title": "Стіл"' in body


def test_numbers_are_shown_as_they_came(plain: WebhookListener) -> None:
    amounts = "[1.50,12345678901234567890123,99999999999999.9999,1e+20]"
    post(plain, f'{{"amounts":{amounts}}}'.encode())
    shown = "".join(plain.next_text().split("\n", 1)[1].split())
    assert shown == '{"amounts":[1.50,12345678901234567890123,99999999999999.9999,1e20]}'


@pytest.mark.parametrize(
    "body", [b"", b"hello", b"\xff\xfe", b'{"a":', b"[" * 300 + b"]" * 300, b"[" * 1020 + b"1.5"]
)
def test_what_is_no_json_is_told_by_its_size(plain: WebhookListener, body: bytes) -> None:
    assert post(plain, body) == 204
    shown = plain.next_text()
    assert line(shown)[1:4] == ["-", "-", "evt_1"]
    assert shown.split("\n")[1:] == [f"(no JSON: {len(body)} bytes)"]


def test_json_that_is_no_event_is_shown(plain: WebhookListener) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", plain.port, timeout=10)) as link:
        link.request("POST", "/", b"[1]")
        assert link.getresponse().status == 204
    assert plain.next_text() == f"{NOW}\t-\t-\t-\tsignature not checked\n[\n  1\n]"


def test_nothing_shown_steers_a_terminal(plain: WebhookListener) -> None:
    nasty = {"type": "a\x1b[2J\nb", "name": "\x1b]0;x\x07 \x7f \x9b2J \u202e \u2028"}
    body = json.dumps(nasty, ensure_ascii=False).encode()
    assert b"\x7f" in body and "\x9b".encode() in body
    post(plain, body, {"webhook-id": "\x9b2Jevt\xad"})
    shown = plain.next_text()
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    first, rest = shown.split("\n", 1)
    assert first.split("\t")[1] == "a\\u001b[2J\\u000ab"
    assert first.split("\t")[3] == "\\u009b2Jevt\\u00ad"
    assert json.loads(rest) == nasty


# Signatures


def test_any_of_the_secrets_is_good(start: Start) -> None:
    both = start(secrets=(OLD, NEW))
    for secret in (OLD, NEW):
        assert post(both, headers=signed(secret)) == 204
        assert line(both.next_text())[4] == "signature good"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(OLD),
        signed(NEW, BODY + b" "),
        signed(NEW, at=-3600),
        {**signed(NEW), "webhook-id": "evt_2"},
        {**signed(NEW), "webhook-signature": "v1,"},
        {**signed(NEW), "webhook-timestamp": "soon"},
    ],
    ids=["none", "another", "body", "old", "id", "empty", "time"],
)
def test_a_bad_signature_is_shown_and_answered_with_400(
    start: Start, headers: dict[str, str]
) -> None:
    one = start(secrets=(NEW,), status=200)
    assert post(one, headers=headers) == 400
    shown = one.next_text()
    why = line(shown)[4]
    assert why.startswith("signature bad: ")
    assert len(why) > len("signature bad: ") + 5
    assert '"deal.won"' in shown


def test_no_secret_is_shown(start: Start) -> None:
    one = start(secrets=(NEW,))
    for headers in (signed(NEW), signed(OLD)):
        post(one, headers=headers)
        shown = one.next_text()
        assert "whsec_" not in shown
        assert NEW.removeprefix("whsec_") not in shown
        assert headers["webhook-signature"] not in shown


# Answers


@pytest.mark.parametrize("status", [200, 204, 302, 410, 503])
def test_it_answers_what_it_was_told_to(start: Start, status: int) -> None:
    assert post(start(status=status)) == status


def test_deliveries_come_at_the_same_time(plain: WebhookListener) -> None:
    with ExitStack() as stack:
        waiting = socket.create_connection(("127.0.0.1", plain.port), timeout=10)
        stack.enter_context(waiting).sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{")
        threads = [threading.Thread(target=post, args=(plain,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [line(plain.next_text())[3] for _ in range(20)] == ["evt_1"] * 20
        waiting.sendall(b"}")
        assert line(plain.next_text())[3] == "-"


def test_a_body_is_waited_for_after_100_continue(plain: WebhookListener) -> None:
    with socket.create_connection(("127.0.0.1", plain.port), timeout=10) as link:
        link.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert link.recv(65536).startswith(b"HTTP/1.1 100 ")
        link.sendall(b"{}")
        while (answer := link.recv(65536)).startswith(b"HTTP/1.1 100 "):  # it may be sent twice
            pass
        assert answer.startswith(b"HTTP/1.1 204 ")
    assert plain.next_text().endswith("\n{}")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 405),
        (b"POST / HTTP/1.1\r\nContent-Length: 2097153\r\n\r\n" + b"x" * 2097153, 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}", 400),
    ],
    ids=["get", "large", "huge", "cut"],
)
def test_what_is_refused_is_one_line(plain: WebhookListener, sent: bytes, status: int) -> None:
    assert raw(plain, sent).startswith(f"HTTP/1.1 {status} ".encode())
    shown = plain.next_text()
    assert shown.startswith(f"{NOW}\trefused: The ") and "\n" not in shown


def test_a_body_may_come_in_chunks(plain: WebhookListener) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(plain, head + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n").startswith(b"HTTP/1.1 204 ")
    assert plain.next_text().endswith("\n{}")


def test_the_largest_body_is_taken(plain: WebhookListener) -> None:
    assert post(plain, b'"' + b"x" * (2 * 1024 * 1024 - 2) + b'"') == 204


def test_one_who_sends_nothing_is_cut(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener._Connection, "timeout", 0.2)
    one = start()
    with socket.create_connection(("127.0.0.1", one.port), timeout=10) as link:
        link.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        assert link.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert one.next_text().startswith(f"{NOW}\trefused: ")


# The address


def test_the_address_is_of_this_machine_only(plain: WebhookListener) -> None:
    assert plain.address == f"http://127.0.0.1:{plain.port}/"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", plain.port), timeout=10)


def test_a_port_is_had_once_and_free_after_it() -> None:
    with WebhookListener(0) as first:
        port = first.port
        with pytest.raises(OSError, match="in use"):
            WebhookListener(port)
        assert post(first) == 204
    with WebhookListener(port) as again:
        assert post(again) == 204


def test_the_end_does_not_wait_for_who_is_slow() -> None:
    with (
        WebhookListener(0) as one,
        socket.create_connection(("127.0.0.1", one.port), timeout=10) as link,
    ):
        link.sendall(b"POST / HTTP/1.1\r\n")
        assert post(one) == 204  # so that the other is being served too
        begun = time.monotonic()
        one.__exit__()
        assert time.monotonic() - begun < 1
