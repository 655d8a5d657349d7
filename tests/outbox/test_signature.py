"""Signatures: what is sent verifies by the Standard Webhooks library, what was changed does not."""

import base64
import json
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from crm.outbox import signature

parametrize = pytest.mark.parametrize
SECRET, NEXT, STRANGE = (signature.new_secret() for _ in range(3))
NOW = 1_772_442_000
BODIES = [
    b"{}",
    b'{"id":"evt_1","type":"lead.created"}',
    '{"name":"Їжак і Ґава","note":"№ 5 — “лапки”"}'.encode(),
    b'{"pretty" :\r\n\t1.10 , "b":[ ]}\n',
    b'{"text":"\\u0000.v1,abc. 1772442000."}',
    json.dumps({"long": "ї" * 100_000}, ensure_ascii=False).encode(),
]


def signed(body: bytes, *secrets: str, at: float = NOW) -> dict[str, str]:
    return signature.make_headers(secrets or (SECRET,), "evt_1", int(at), body)


def library_accepts(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        return Webhook(secret).verify(body, headers) == json.loads(body)
    except WebhookVerificationError:
        return False


def test_a_secret_is_the_prefix_and_32_random_bytes():
    made = {signature.new_secret() for _ in range(100)}
    assert len(made) == 100
    for secret in made:
        prefix, key = secret[:6], base64.b64decode(secret[6:], validate=True)
        assert (prefix, len(key)) == ("whsec_", 32)


def test_the_example_of_the_specification_comes_out_the_same():
    headers = signature.make_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
    )  # fmt: skip
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_delivery_verifies_by_the_library_and_by_us(body):
    headers = signed(body, at=time.time())
    assert library_accepts(SECRET, headers, body)
    assert signature.verify([SECRET], headers, body, time.time()) is None


def test_during_rotation_both_secrets_verify_and_no_other():
    body = BODIES[2]
    headers = signed(body, SECRET, NEXT, at=time.time())
    assert headers["webhook-signature"].count("v1,") == 2
    for secret, good in ((SECRET, True), (NEXT, True), (STRANGE, False)):
        assert library_accepts(secret, headers, body) is good
        assert (signature.verify([secret], headers, body, time.time()) is None) is good


@parametrize(
    "change",
    [
        {"webhook-id": "evt_2"},
        {"webhook-timestamp": "+1"},
        {"webhook-signature": "v1," + "A" * 43 + "="},
        {"webhook-signature": "v1a,"},
    ],
    ids=lambda change: "-".join(*change.items()),
)
def test_changed_headers_verify_nowhere(change):
    now = time.time()
    headers = signed(b"{}", at=now)
    if change == {"webhook-timestamp": "+1"}:
        change = {"webhook-timestamp": str(int(now) + 1)}
    elif change == {"webhook-signature": "v1a,"}:
        change = {"webhook-signature": headers["webhook-signature"].replace("v1,", "v1a,")}
    assert not library_accepts(SECRET, headers | change, b"{}")
    why = signature.verify([SECRET], headers | change, b"{}", now)
    assert why == "no signature of webhook-signature fits the secret and the body"


@parametrize("body", [b"{} ", b"", b"[]", "{ї}".encode()])
def test_a_changed_body_does_not_verify(body):
    assert signature.verify([SECRET], signed(b"{}"), b"{}", NOW) is None
    assert "fits" in signature.verify([SECRET], signed(b"{}"), body, NOW)


@parametrize(
    ("away", "good"), [(-300, True), (300, True), (-301, False), (301, False), (10**11, False)]
)
def test_five_minutes_are_tolerated(away, good):
    headers = signed(b"{}", at=NOW + away)
    why = signature.verify([SECRET], headers, b"{}", NOW)
    assert why == (None if good else "webhook-timestamp is more than 5 minutes away from now")


@parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@parametrize("value", ["", None])
def test_each_header_is_required(name, value):
    headers = {
        key: item for key, item in (signed(b"{}") | {name: value}).items() if item is not None
    }
    assert "are required" in signature.verify([SECRET], headers, b"{}", NOW)


@parametrize("timestamp", ["1772442000.5", "-1", " 1772442000", "1e9", "٣", "9" * 5000, "now"])
def test_the_time_is_whole_seconds(timestamp):
    headers = signed(b"{}") | {"webhook-timestamp": timestamp}
    assert "whole seconds" in signature.verify([SECRET], headers, b"{}", NOW)


@parametrize("secret", ["whsec_їжак", "whsec_", "", "whsec_a"])
def test_a_secret_that_is_none_is_said_so(secret):
    with pytest.raises(ValueError):
        signature.verify([secret], signed(b"{}"), b"{}", NOW)
