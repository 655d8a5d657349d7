"""Signatures of deliveries by the Standard Webhooks specification (D15).

A secret is `whsec_` and the base64 of a key; a delivery is signed by each of the endpoint's secrets
with HMAC-SHA256 over its id, its time and its body.
"""

import hashlib
import hmac
import re
import secrets as random_source
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
KEY_BYTES = 32
TOLERANCE_SECONDS = 300  # between a delivery's timestamp and the receiver's clock
TIMESTAMP = re.compile(r"[0-9]{1,12}\Z")


def new_secret() -> str:
    """Return a random secret, as Standard Webhooks writes it."""
    return PREFIX + b64encode(random_source.token_bytes(KEY_BYTES)).decode()


def make_headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers of a delivery sent at `timestamp` (epoch seconds)."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_sign(secrets, id, str(timestamp), body)),
    }


def verify(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float
) -> str | None:
    """Return None if one of the secrets signed the delivery within 5 minutes, else what is wrong.

    `now` is in epoch seconds. Raises ValueError for a secret that is not valid base64 or empty.
    """
    values = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (
        values.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (id and timestamp and signatures):
        return "the headers webhook-id, webhook-timestamp and webhook-signature are required"
    if not TIMESTAMP.match(timestamp):
        return "webhook-timestamp must be whole seconds since 1970"
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return "webhook-timestamp is more than 5 minutes away from now"
    # A list: all comparisons are made, so the time taken does not show which secret fits.
    results = [
        hmac.compare_digest(expected.encode(), received.encode(errors="replace"))
        for expected in _sign(secrets, id, timestamp, body)
        for received in signatures.split()
    ]
    if any(results):
        return None
    return "no signature of webhook-signature fits the secret and the body"


def _sign(secrets: Sequence[str], id: str, timestamp: str, body: bytes) -> list[str]:
    """Return the signature by each secret, in their order."""
    content = f"{id}.{timestamp}.".encode(errors="replace") + body
    return [
        "v1," + b64encode(hmac.digest(_decode_secret(secret), content, hashlib.sha256)).decode()
        for secret in secrets
    ]


def _decode_secret(secret: str) -> bytes:
    key = b64decode(secret.removeprefix(PREFIX), validate=True)
    if not key:
        raise ValueError("an empty secret would let anybody sign")
    return key
