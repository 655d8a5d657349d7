"""Random secrets of cookies and links: shown once, kept as a hash."""

import hashlib
import secrets

BYTES = 32  # so many that guessing is hopeless and a plain SHA-256 is enough


def new() -> str:
    """43 characters that a URL and a cookie can carry."""
    return secrets.token_urlsafe(BYTES)


def digest(token: str) -> bytes:
    """What is kept of a token; of any text that a stranger may send in its place, too."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
