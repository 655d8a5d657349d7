"""API keys (spec: Authentication, D12): shown once, kept as a hash, bound to one tenant."""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass

from peewee import AutoField, BlobField, IntegerField, TextField

from crm.access import rights
from crm.errors import Forbidden, Invalid, NotFound, Unauthorized
from crm.records.record import Row
from crm.tenancy.database import (
    current_session,
    execute,
    note,
    now,
    row,
    rows,
    time_before,
    transaction,
)
from crm.values import InvalidValue, one_line
from crm.values.ids import integer_id

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE62_PAIRS = [low + high for high in ALPHABET for low in ALPHABET]
KEY_CHARACTERS = len("crm_") + 40 + 6
MAX_ORIGINS, MAX_ORIGIN_CHARACTERS = 50, 255  # of a form's key
ORIGIN = re.compile(r"https?://[^/\s?#@*]+\Z", re.ASCII)
LAST_USE_INTERVAL_SECONDS = 600  # seconds: a write for every read would double the work of a key

# The hot path: one prepared text finds the key, its user and the tenant's plan.
FIND_KEY = """
    SELECT api_key.id, api_key.user_id, api_key.name, api_key.scopes, api_key.origins,
           api_key.expires_at, api_key.revoked_at, api_key.last_used_at, user.active,
           tenant.plan, tenant.suspended_at
    FROM api_key JOIN user ON user.id = api_key.user_id JOIN tenant ON tenant.id = 1
    WHERE api_key.hash = ?
"""


class ApiKey(Row):
    """name, scopes, origins, source, user_id, created_at, expires_at, last_used_at, revoked_at."""

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
        """`live`, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at and self.expires_at <= now() else "live"

    def revoke(self) -> None:
        """The key is refused from now on."""
        with transaction():
            execute(
                "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
                (now(), self.id),
            )


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: a key, its user, its scopes, and the plan of the tenant."""

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
) -> tuple[int, str]:
    """Make a key and give (its id, the key itself): the only time it can be seen.

    `scopes` is a text such as `leads:read,leads:write` or `*`, `origins` a text of origins such as
    `https://shop.example.ua` for a form's key. `source` is what a website form names as the source
    of its leads. Raises Invalid.
    """
    held = rights.parse_scopes(scopes)
    try:
        shown = one_line(name, 255)
    except InvalidValue as unfit:
        raise Invalid.field("name", unfit.code, unfit.detail) from None
    if shown is None:
        raise Invalid.field("name", "required", "a key needs a name")
    named = _parse_origins(origins)
    if named and not rights.is_form_key(held):
        raise Invalid.field("origins", "not_a_form_key", "only a leads:create key names origins")
    if not row("SELECT 1 FROM user WHERE id = ? AND active", (user_id,)):
        raise Invalid.field("user_id", "unknown_id", "there is no active user with this id")
    secret = generate_key()
    with transaction():
        cursor = execute(
            "INSERT INTO api_key (name, hash, hint, scopes, origins, user_id, created_at,"
            " expires_at, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                shown,
                _hash(secret),
                secret[:8],
                ",".join(sorted(held)),
                ",".join(named),
                user_id,
                now(),
                expires_at,
                source,
            ),
        )
    return cursor.lastrowid, secret


def _parse_origins(origins: str) -> list[str]:
    """The origins of a text, as browsers write them; raises Invalid for what no browser sends."""
    parts = (part.strip().rstrip("/").lower() for part in origins.split(","))
    found = list(dict.fromkeys(part for part in parts if part))
    if len(found) > MAX_ORIGINS:
        raise Invalid.field("origins", "too_many", f"at most {MAX_ORIGINS} origins of a key")
    for origin in found:
        if len(origin) > MAX_ORIGIN_CHARACTERS or not ORIGIN.match(origin):
            detail = f"{origin[:MAX_ORIGIN_CHARACTERS]!r} must look like https://shop.example.ua"
            raise Invalid.field("origins", "invalid_origin", detail)
    return found


def find(id: int | str) -> ApiKey:
    """The key of that id or a NotFound."""
    found = ApiKey.get_or_none(ApiKey.id == integer_id(id))
    if found is None:
        raise NotFound(f"there is no key {id}")
    return found


def list_all() -> list[ApiKey]:
    return list(ApiKey.select().order_by(ApiKey.id))


def set_source(id: int, source: str) -> None:
    """The source that a website form names from now on."""
    with transaction():
        execute("UPDATE api_key SET source = ? WHERE id = ?", (source, id))


def revoke_all() -> None:
    """Every key of the tenant is refused from now on."""
    with transaction():
        execute("UPDATE api_key SET revoked_at = ? WHERE revoked_at IS NULL", (now(),))


def generate_key() -> str:
    """`crm_`, 40 random base62 characters and 6 of checksum, by which scanners know a lost key."""
    body = "".join(secrets.choice(ALPHABET) for _ in range(40))
    return f"crm_{body}{_checksum(body)}"


def authenticate(secret: str) -> Caller:
    """The caller behind a key; the same Unauthorized for every key that isn't good here."""
    found = row(FIND_KEY, (_hash(secret),)) if len(secret) == KEY_CHARACTERS else None
    if found is None:
        raise Unauthorized
    key_id, user_id, name, held, origins, expires, revoked, used, active, plan, suspended = found
    if revoked or not active or (expires and expires <= now()):
        raise Unauthorized
    if suspended:
        raise Forbidden("this account is suspended", "tenant_suspended")
    if used is None or used < time_before(LAST_USE_INTERVAL_SECONDS):
        note("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now(), key_id))
    here = current_session()
    here.user_id, here.key_id, here.scopes = user_id, key_id, _split_scopes(held)
    return Caller(key_id, name, user_id, here.scopes, _split_origins(origins), plan)


def list_form_origins() -> set[str]:
    """The origins that any live form key of the tenant names: who may ask before a POST."""
    live = (
        "SELECT origins FROM api_key JOIN user ON user.id = user_id AND active WHERE origins != ''"
        " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    )
    return {origin for (origins,) in rows(live, (now(),)) for origin in _split_origins(origins)}


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _checksum(body: str) -> str:
    """The CRC-32 in base62, lowest digit first."""
    rest, low = divmod(zlib.crc32(body.encode()), 62 * 62)
    high, middle = divmod(rest, 62 * 62)
    return BASE62_PAIRS[low] + BASE62_PAIRS[middle] + BASE62_PAIRS[high]


_scopes_by_text: dict[str, frozenset[str]] = {}


def _split_scopes(text: str) -> frozenset[str]:
    found = _scopes_by_text.get(text)
    if found is None:
        found = _scopes_by_text[text] = frozenset(text.split(","))
    return found


def _split_origins(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
