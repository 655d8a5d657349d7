"""Random secrets of cookies and links: shown once, kept as a hash."""

import hashlib
import secrets

TOKEN_BYTES = 32  # so many that guessing is hopeless and a plain SHA-256 is enough


def generate_token(size: int = TOKEN_BYTES) -> str:
    """`size` random bytes as text that a URL and a cookie can carry: 43 characters of 32 bytes."""
    return secrets.token_urlsafe(size)


def digest(token: str) -> bytes:
    """What is kept of a token; of any text that a stranger may send in its place, too."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
