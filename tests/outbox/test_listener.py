"""The receiver for a laptop: what it shows of a delivery, and how it answers."""

import http.client
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from crm.outbox import signature
from crm.outbox.listener import WebhookListener
from tests.conftest import Clock

NOW = "2026-03-02T09:00:00Z"  # what Clock() shows
EVENT = {"id": "evt_1", "type": "deal.won", "sequence": 7, "data": {"deal": {"title": "Стіл"}}}
BODY = json.dumps(EVENT).encode()
OLD, NEW = signature.new_secret(), signature.new_secret()

Start = Callable[..., WebhookListener]


@pytest.fixture
def start():
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(WebhookListener(0, clock=Clock(), **given))


@pytest.fixture
def plain(start):
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


def test_a_delivery_is_a_line_and_its_body(plain):
    assert post(plain) == 204
    first, *body = plain.next_text().split("\n")
    assert first == f"{NOW}\tdeal.won\t7\tevt_1\tsignature not checked"
    assert json.loads("\n".join(body)) == EVENT
    assert '  "sequence": 7,' in body
    assert '      "title": "Стіл"' in body


@pytest.mark.parametrize(
    "body", [b"", b"hello", b"\xff\xfe", b'{"a":', b"[" * 300 + b"]" * 300, b"[" * 1020 + b"1.5"]
)
def test_what_is_no_json_is_told_by_its_size(plain, body):
    assert post(plain, body) == 204
    shown = plain.next_text()
    assert line(shown)[1:4] == ["-", "-", "evt_1"]
    assert shown.split("\n")[1:] == [f"(no JSON: {len(body)} bytes)"]


def test_nothing_shown_steers_a_terminal(plain):
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


def test_any_of_the_secrets_is_good(start):
    both = start(secrets=(OLD, NEW))
    for secret in (OLD, NEW):
        assert post(both, headers=signed(secret)) == 204
        assert line(both.next_text())[4] == "signature good"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(OLD),
        signed(NEW, at=-3600),
    ],
    ids=["none", "another", "old"],
)
def test_a_bad_signature_is_shown_and_answered_with_400(start, headers):
    one = start(secrets=(NEW,), status=200)
    assert post(one, headers=headers) == 400
    shown = one.next_text()
    why = line(shown)[4]
    assert why.startswith("signature bad: ")
    assert len(why) > len("signature bad: ") + 5
    assert '"deal.won"' in shown


# Answers


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
def test_what_is_refused_is_one_line(plain, sent, status):
    assert raw(plain, sent).startswith(f"HTTP/1.1 {status} ".encode())
    shown = plain.next_text()
    assert shown.startswith(f"{NOW}\trefused: The ") and "\n" not in shown


# The address


def test_the_address_is_of_this_machine_only(plain):
    assert plain.address == f"http://127.0.0.1:{plain.port}/"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", plain.port), timeout=10)
