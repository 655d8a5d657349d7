"""Random tokens of cookies and links: shown once, stored as a hash."""

import hashlib
import secrets

TOKEN_BYTES = 32  # impossible to guess, so a plain SHA-256 is enough


def generate_token(size: int = TOKEN_BYTES) -> str:
    """Return `size` random bytes as text for URLs and cookies: 43 characters of 32 bytes."""
    return secrets.token_urlsafe(size)


def digest(token: str) -> bytes:
    """Return the hash that is stored of a token; any text that a stranger sends has one, too."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
