"""Grants by OAuth 2.1: keys of the preset Assistant that a hosted assistant gets and renews.

An owner accepts a client in the workspace. The client gets a code, and for the code with the
verifier of its challenge (PKCE, RFC 7636) a key and a refresh token; each refresh replaces both.
Code and refresh tokens of a grant begin with the same text, by which one that was used before is
recognised: somebody else may have it too, so the grant ends. The grant is in the row of its key:
revoking the key ends it, and so do 90 days. The id of a client is what it has registered with,
signed: strangers store nothing here.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

from crm.access import api_keys, rights, tokens
from crm.alerts import alerts
from crm.alerts.kinds import GRANT_ENDED
from crm.errors import Invalid
from crm.json import dumps, loads
from crm.storage.session import current_session, execute, time_before, transaction

CODE_SECONDS, KEY_SECONDS = 60, 3600
MAX_NAME_CHARACTERS, MAX_URIS, MAX_URI_CHARACTERS = 80, 5, 200  # the id is part of addresses
SIGNATURE_BYTES = 16
GRANT_BYTES, GRANT_CHARACTERS = 16, 22  # of the text that all tokens of a grant begin with
REDIRECT_URI = re.compile(
    r"(?:https://[\w.:\[\]-]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?)(?:[/?][!\x22$-~]*)?\Z",
    re.ASCII,
)


def register_client(signing_key: bytes, name: Any, redirect_uris: Any) -> str:
    """Return the id of a client with this name, which may go to these addresses. Raises Invalid."""
    if not (isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()):
        raise Invalid.field("client_name", "invalid_client_metadata", "must be a short text")
    if not (
        isinstance(redirect_uris, list)
        and 1 <= len(redirect_uris) <= MAX_URIS
        and all(isinstance(uri, str) and _is_redirect_uri(uri) for uri in redirect_uris)
    ):
        detail = f"1 to {MAX_URIS} addresses by https, or of the client's own machine"
        raise Invalid.field("redirect_uris", "invalid_redirect_uri", detail)
    about = dumps([name, redirect_uris])
    return urlsafe_b64encode(_sign(signing_key, about) + about).decode()


def find_client(signing_key: bytes, client_id: str, redirect_uri: str) -> str | None:
    """Return the name of a client that has registered with this address; None if none has."""
    try:
        signed = urlsafe_b64decode(client_id)
    except ValueError:
        return None
    signature, about = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _sign(signing_key, about)):
        return None
    name, redirect_uris = loads(about)
    # Older releases have registered addresses that this one refuses.
    return name if redirect_uri in redirect_uris and _is_redirect_uri(redirect_uri) else None


def create_grant(name: str, user_id: int, client_id: str, redirect_uri: str, challenge: str) -> str:
    """Let a client in, in the name of a user, and return its code. Raises Invalid."""
    grant, scopes = tokens.generate_token(GRANT_BYTES), ",".join(api_keys.ASSISTANT_SCOPES)
    soon = time_before(-CODE_SECONDS)
    with transaction():
        id, _ = api_keys.create(name, scopes, user_id, expires_at=soon, preset=rights.ASSISTANT)
        purpose = _purpose("code", client_id, redirect_uri, challenge)
        return _store_token(id, grant, purpose, soon)


def exchange_code(
    code: str, client_id: str, redirect_uri: str, verifier: str
) -> tuple[str, str] | None:
    """Return the first key and refresh token; None unless all is as it was in create_grant()."""
    digest = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
    challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
    purpose = _purpose("code", client_id, redirect_uri, challenge)
    return _renew(code, purpose, client_id, api_keys.assistant_expiry())


def refresh(refresh_token: str, client_id: str) -> tuple[str, str] | None:
    """Replace the key and the refresh token; None if the grant ended or is another client's."""
    return _renew(refresh_token, _purpose("refresh", client_id), client_id)


def _renew(token: str, purpose: bytes, client_id: str, ends_at: str = "") -> tuple[str, str] | None:
    with transaction():
        grant = token[:GRANT_CHARACTERS]
        key = api_keys.ApiKey.first("grant_hash = ?", tokens.digest(grant))
        if key is None or key.state() != "live":
            return None
        if key.grant_token_hash != tokens.digest(token):
            key.revoke()
            alerts.add(GRANT_ENDED, "api_key", key.id)
            return None
        if key.grant_purpose != purpose:
            return None
        secret = api_keys.generate_key()
        execute(
            "UPDATE api_key SET hash = ?, hint = ?, expires_at = ? WHERE id = ?",
            (*api_keys.stored_form(secret), time_before(-KEY_SECONDS), key.id),
        )
        purpose = _purpose("refresh", client_id)
        return secret, _store_token(key.id, grant, purpose, ends_at or key.grant_ends_at or "")


def _store_token(key_id: int, grant: str, purpose: bytes, ends_at: str) -> str:
    """Make and return the token that the client has to use next."""
    token = grant + tokens.generate_token()
    execute(
        "UPDATE api_key SET grant_hash = ?, grant_token_hash = ?, grant_purpose = ?,"
        " grant_ends_at = ? WHERE id = ?",
        (tokens.digest(grant), tokens.digest(token), purpose, ends_at, key_id),
    )
    return token


def _is_redirect_uri(uri: str) -> bool:
    try:
        urlsplit(uri)  # which refuses hosts that only look like IPv6 addresses
    except ValueError:
        return False
    return len(uri) <= MAX_URI_CHARACTERS and bool(REDIRECT_URI.match(uri))


def _purpose(*parts: str) -> bytes:
    """What a token is for, as its row has it."""
    return tokens.digest("\n".join(parts))


def _sign(signing_key: bytes, about: bytes) -> bytes:
    """The signature of a client of this tenant."""
    label = f"OAuth client of {current_session().label}: "
    return hmac.digest(signing_key, label.encode() + about, "sha256")[:SIGNATURE_BYTES]
