"""Grants by OAuth 2.1: keys of the preset Assistant that a hosted assistant gets and renews.

An owner accepts a client in the workspace. The client gets a code, and for the code with the
verifier of its challenge (PKCE, RFC 7636) a key and a refresh token; each refresh replaces both.
The grant is in the row of its key: revoking the key ends it, and so do 90 days. The id of a client
is what it has registered with, signed: strangers store nothing here.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from crm.access import api_keys, rights, tokens
from crm.access.api_keys import ApiKey
from crm.errors import Invalid
from crm.json import dumps, loads
from crm.storage.session import current_session, execute, time_before, transaction

CODE_SECONDS, KEY_SECONDS = 60, 3600
MAX_NAME_CHARACTERS, MAX_URIS, MAX_URI_CHARACTERS = 80, 5, 200  # the id is part of addresses
SIGNATURE_BYTES = 16
REDIRECT_URI = re.compile(
    r"(?:https://[\w.:\[\]-]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?)(?:[/?][^\s#]*)?\Z",
    re.ASCII,
)


def register_client(signing_key: bytes, name: Any, redirect_uris: Any) -> str:
    """Return the id of a client with this name, which may go to these addresses. Raises Invalid."""
    if not (isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()):
        raise Invalid.field("client_name", "invalid_client_metadata", "must be a short text")
    if not (
        isinstance(redirect_uris, list)
        and 1 <= len(redirect_uris) <= MAX_URIS
        and all(
            isinstance(uri, str) and len(uri) <= MAX_URI_CHARACTERS and REDIRECT_URI.match(uri)
            for uri in redirect_uris
        )
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
    return name if redirect_uri in redirect_uris else None


def create_grant(name: str, user_id: int, client_id: str, redirect_uri: str, challenge: str) -> str:
    """Let a client in, in the name of a user, and return its code. Raises Invalid."""
    code, scopes = tokens.generate_token(), ",".join(api_keys.ASSISTANT_SCOPES)
    soon = time_before(-CODE_SECONDS)
    with transaction():
        id, _ = api_keys.create(name, scopes, user_id, expires_at=soon, preset=rights.ASSISTANT)
        _store(id, code, _purpose("code", client_id, redirect_uri, challenge), soon)
    return code


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
        key = ApiKey.get_or_none(
            (ApiKey.grant_hash == tokens.digest(token)) & (ApiKey.grant_purpose == purpose)
        )
        if key is None or key.state() != "live":
            return None
        secret, refresh_token = api_keys.generate_key(), tokens.generate_token()
        execute(
            "UPDATE api_key SET hash = ?, hint = ?, expires_at = ? WHERE id = ?",
            (*api_keys.stored_form(secret), time_before(-KEY_SECONDS), key.id),
        )
        purpose = _purpose("refresh", client_id)
        _store(key.id, refresh_token, purpose, ends_at or key.grant_ends_at or "")
        return secret, refresh_token


def _store(key_id: int, token: str, purpose: bytes, ends_at: str) -> None:
    execute(
        "UPDATE api_key SET grant_hash = ?, grant_purpose = ?, grant_ends_at = ? WHERE id = ?",
        (tokens.digest(token), purpose, ends_at, key_id),
    )


def _purpose(*parts: str) -> bytes:
    """What a token is for, as its row has it."""
    return tokens.digest("\n".join(parts))


def _sign(signing_key: bytes, about: bytes) -> bytes:
    """The signature of a client of this tenant."""
    label = f"OAuth client of {current_session().label}: "
    return hmac.digest(signing_key, label.encode() + about, "sha256")[:SIGNATURE_BYTES]
