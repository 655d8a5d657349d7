"""Signatures of deliveries by the Standard Webhooks specification (D15).

A secret is `whsec_` and the base64 of a key; a delivery is signed by each of the endpoint's secrets
with HMAC-SHA256 over its id, its time and its body.
"""

import hashlib
import hmac
import re
import secrets as chance
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
KEY_BYTES = 32
TOLERANCE_SECONDS = 300  # seconds that a delivery's time may be away from the receiver's clock
TIMESTAMP = re.compile(r"[0-9]{1,12}\Z")


def new_secret() -> str:
    return PREFIX + b64encode(chance.token_bytes(KEY_BYTES)).decode()


def make_headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of a delivery sent at `timestamp` (epoch seconds)."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_sign(secrets, id, str(timestamp), body)),
    }


def verify(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float
) -> str | None:
    """None for a delivery that one of the secrets signed within 5 minutes, else why not.

    ValueError for a secret that is none.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (
        sent.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (id and timestamp and signatures):
        return "the headers webhook-id, webhook-timestamp and webhook-signature are required"
    if not TIMESTAMP.match(timestamp):
        return "webhook-timestamp must be whole seconds since 1970"
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return "webhook-timestamp is more than 5 minutes away from now"
    good = [
        hmac.compare_digest(ours.encode(), theirs.encode(errors="replace"))
        for ours in _sign(secrets, id, timestamp, body)
        for theirs in signatures.split()
    ]
    return None if any(good) else "no signature of webhook-signature fits the secret and the body"


def _sign(secrets: Sequence[str], id: str, timestamp: str, body: bytes) -> list[str]:
    signed = f"{id}.{timestamp}.".encode(errors="replace") + body
    return [
        "v1," + b64encode(hmac.digest(_decode_secret(secret), signed, hashlib.sha256)).decode()
        for secret in secrets
    ]


def _decode_secret(secret: str) -> bytes:
    key = b64decode(secret.removeprefix(PREFIX), validate=True)
    if not key:
        raise ValueError("an empty secret would let anybody sign")
    return key
