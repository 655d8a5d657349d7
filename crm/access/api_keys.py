"""API keys (spec: Authentication, D12): shown once, stored as a hash, valid at one tenant."""

import hashlib
import re
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from peewee import AutoField, BlobField, IntegerField, TextField

from crm.access import rights
from crm.errors import Forbidden, Invalid, NotFound, Unauthorized
from crm.records.record import Row
from crm.tenancy.database import (
    current_session,
    execute,
    insert,
    now,
    row,
    rows,
    time_before,
    transaction,
    try_execute,
)
from crm.values import InvalidValue, one_line
from crm.values.ids import integer_id

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE62_PAIRS = [low + high for high in ALPHABET for low in ALPHABET]
KEY_CHARACTERS = len("crm_") + 40 + 6
MAX_ORIGINS, MAX_ORIGIN_CHARACTERS = 50, 255  # of a website form's key
ORIGIN = re.compile(r"https?://[^/\s?#@*]+\Z", re.ASCII)
LAST_USE_INTERVAL_SECONDS = 600  # a write for every read would double the work of a key

# The hot path of the API: one query finds the key, its user and the tenant's plan.
FIND_KEY = """
    SELECT api_key.id, api_key.user_id, api_key.name, api_key.scopes, api_key.origins,
           api_key.expires_at, api_key.revoked_at, api_key.last_used_at, "user".active,
           tenant.plan, tenant.suspended_at
    FROM api_key JOIN "user" ON "user".id = api_key.user_id JOIN tenant ON tenant.id = 1
    WHERE api_key.hash = ?
"""


class ApiKey(Row):
    """A key as stored: `scopes` and `origins` are lists joined by commas.

    `hash` is of the key, `hint` its first characters. `source` is what leads of a website form get.
    """

    id = AutoField()
    name = TextField()
    hash = BlobField()
    hint = TextField()
    scopes = TextField()
    origins = TextField()
    user_id = IntegerField()
    created_at = TextField()
    expires_at = TextField(null=True)
    last_used_at = TextField(null=True)
    revoked_at = TextField(null=True)
    source = TextField(null=True)

    def state(self) -> str:
        """Return `live`, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at and self.expires_at <= now() else "live"

    def revoke(self) -> None:
        """Refuse the key from now on."""
        with transaction():
            execute(
                "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
                (now(), self.id),
            )


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request: a key, its user and scopes, and the tenant's plan."""

    key_id: int
    key_name: str
    user_id: int
    scopes: frozenset[str]
    origins: tuple[str, ...]
    plan: str

    @property
    def is_form(self) -> bool:
        return rights.is_form_key(self.scopes)


def create(
    name: str,
    scopes: str,
    user_id: int,
    *,
    origins: str = "",
    expires_at: str | None = None,
    source: str | None = None,
    before: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Make a key and return its id and the key itself, which is never shown again.

    `scopes` is a text such as `leads:read,leads:write` or `*`. `origins`, for a website form's key
    only, is a list such as `https://shop.example.ua` joined by commas; `source` is the source of
    the leads that the form creates. `before` is called first in the transaction: what it raises
    refuses the key. Raises Invalid.
    """
    scope_set = rights.parse_scopes(scopes)
    try:
        clean_name = one_line(name, 255)
    except InvalidValue as error:
        raise Invalid.field("name", error.code, error.detail) from None
    if clean_name is None:
        raise Invalid.field("name", "required", "a key needs a name")
    origin_list = _parse_origins(origins)
    if origin_list and not rights.is_form_key(scope_set):
        raise Invalid.field("origins", "not_a_form_key", "only a leads:create key names origins")
    if not row('SELECT 1 FROM "user" WHERE id = ? AND active = 1', (user_id,)):
        raise Invalid.field("user_id", "unknown_id", "there is no active user with this id")
    secret = generate_key()
    with transaction():
        before()
        id = insert(
            "INSERT INTO api_key (name, hash, hint, scopes, origins, user_id, created_at,"
            " expires_at, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                clean_name,
                _hash(secret),
                secret[:8],
                ",".join(sorted(scope_set)),
                ",".join(origin_list),
                user_id,
                now(),
                expires_at,
                source,
            ),
        )
    return id, secret


def _parse_origins(text: str) -> list[str]:
    """Return the origins of a text as browsers write them.

    Raises Invalid for an origin that no browser sends, and for too many.
    """
    parts = (part.strip().rstrip("/").lower() for part in text.split(","))
    origins = list(dict.fromkeys(part for part in parts if part))
    if len(origins) > MAX_ORIGINS:
        raise Invalid.field("origins", "too_many", f"at most {MAX_ORIGINS} origins of a key")
    for origin in origins:
        if len(origin) > MAX_ORIGIN_CHARACTERS or not ORIGIN.match(origin):
            detail = f"{origin[:MAX_ORIGIN_CHARACTERS]!r} must look like https://shop.example.ua"
            raise Invalid.field("origins", "invalid_origin", detail)
    return origins


def find(id: int | str) -> ApiKey:
    """Return the key with this id. Raises NotFound."""
    api_key = ApiKey.get_or_none(ApiKey.id == integer_id(id))
    if api_key is None:
        raise NotFound(f"there is no key {id}")
    return api_key


def list_all() -> list[ApiKey]:
    """Return all keys of the tenant, revoked and expired ones too, by id."""
    return list(ApiKey.select().order_by(ApiKey.id))


def set_source(id: int, source: str, before: Callable[[], None] = lambda: None) -> None:
    """Change the source that leads of a website form's key get.

    `before` is called first in the transaction: what it raises refuses the change.
    """
    with transaction():
        before()
        execute("UPDATE api_key SET source = ? WHERE id = ?", (source, id))


def revoke_all() -> None:
    """Revoke every key of the tenant."""
    with transaction():
        execute("UPDATE api_key SET revoked_at = ? WHERE revoked_at IS NULL", (now(),))


def generate_key() -> str:
    """Return a new key: `crm_`, 40 random base62 characters and a checksum of 6.

    By the checksum, scanners of source code recognise a key that was published by mistake.
    """
    body = "".join(secrets.choice(ALPHABET) for _ in range(40))
    return f"crm_{body}{_checksum(body)}"


def authenticate(secret: str) -> Caller:
    """Return the caller of a key, and note it as the actor of the current session.

    Raises the same Unauthorized for every key that is not valid at this tenant, and Forbidden if
    the tenant is suspended.
    """
    values = row(FIND_KEY, (_hash(secret),)) if len(secret) == KEY_CHARACTERS else None
    if values is None:
        raise Unauthorized
    key_id, user_id, name, scopes, origins, expires, revoked, used, active, plan, suspended = values
    if revoked or not active or (expires and expires <= now()):
        raise Unauthorized
    if suspended:
        raise Forbidden("this account is suspended", "tenant_suspended")
    # Noted now and then, and only if no other process writes: a request must not wait for it.
    if used is None or used < time_before(LAST_USE_INTERVAL_SECONDS):
        try_execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now(), key_id))
    session = current_session()
    session.user_id, session.key_id, session.scopes = user_id, key_id, _split_scopes(scopes)
    return Caller(key_id, name, user_id, session.scopes, _split_origins(origins), plan)


def list_form_origins() -> set[str]:
    """Return the origins that any valid form key of the tenant names, for preflight requests."""
    valid = (
        'SELECT origins FROM api_key JOIN "user" ON "user".id = user_id AND active = 1'
        " WHERE origins <> ''"
        " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    )
    return {origin for (origins,) in rows(valid, (now(),)) for origin in _split_origins(origins)}


# Without salt or iterations: a key is random, so its hash cannot be guessed, and is looked up.
def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _checksum(body: str) -> str:
    """Return the CRC-32 in base62, lowest digit first."""
    quotient, low = divmod(zlib.crc32(body.encode()), 62 * 62)
    high, middle = divmod(quotient, 62 * 62)
    return BASE62_PAIRS[low] + BASE62_PAIRS[middle] + BASE62_PAIRS[high]


# Few different texts, in every request: splitting each time would cost more than the dictionary.
_scopes_by_text: dict[str, frozenset[str]] = {}


def _split_scopes(text: str) -> frozenset[str]:
    scopes = _scopes_by_text.get(text)
    if scopes is None:
        scopes = _scopes_by_text[text] = frozenset(text.split(","))
    return scopes


def _split_origins(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
