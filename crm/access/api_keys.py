"""API keys (spec: Authentication, D12): shown once, stored as a hash, valid at one tenant."""

import re
import secrets
import zlib
from collections.abc import Callable

from peewee import AutoField, BlobField, IntegerField, TextField

from crm.access import rights
from crm.errors import Invalid, NotFound
from crm.records.record import Row
from crm.storage.session import execute, insert, now, row, rows, transaction
from crm.values import InvalidValue, one_line
from crm.values.ids import integer_id

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MAX_ORIGINS, MAX_ORIGIN_CHARACTERS = 50, 255  # of a website form's key
ORIGIN = re.compile(r"https?://[^/\s?#@*]+\Z", re.ASCII)


class ApiKey(Row):
    """A key as stored: `scopes` and `origins` are lists joined by commas.

    `hash` is of the key, `hint` its first characters. `source` is what leads of a website form get.
    `export` is of an export link (crm/resources/export_links.py), `made_by` the key that made it.
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
    export = TextField(null=True)
    made_by = IntegerField(null=True)

    def state(self) -> str:
        """Return `live`, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at and self.expires_at <= now() else "live"

    def revoke(self) -> None:
        """Refuse the key, and the export links that it made, from now on."""
        with transaction():
            execute(
                "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?)"
                " WHERE id = ? OR made_by = ?",
                (now(), self.id, self.id),
            )


def create(
    name: str,
    scopes: str,
    user_id: int,
    *,
    origins: str = "",
    expires_at: str | None = None,
    source: str | None = None,
    export: str | None = None,
    made_by: int | None = None,
    before: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """Make a key and return its id and the key itself, which is never shown again.

    `scopes` is a text such as `leads:read,leads:write` or `*`. `origins`, for a website form's key
    only, is a list such as `https://shop.example.ua` joined by commas; `source` is the source of
    the leads that the form creates. `export` and `made_by` are as in ApiKey. `before` is called
    first in the transaction: what it raises refuses the key. Raises Invalid.
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
    texts = clean_name, rights.hash_key(secret), secret[:8], ",".join(sorted(scope_set))
    with transaction():
        before()
        id = insert(
            "INSERT INTO api_key (name, hash, hint, scopes, origins, user_id, created_at,"
            " expires_at, source, export, made_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*texts, ",".join(origin_list), user_id, now(), expires_at, source, export, made_by),
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
        raise NotFound
    return api_key


def list_all() -> list[ApiKey]:
    """Return all keys of the tenant, revoked and expired ones too, by id."""
    return list(ApiKey.select().order_by(ApiKey.id))


def list_export_links() -> list[ApiKey]:
    """Return the keys that are export links, by id."""
    return [key for key in list_all() if key.export]


def forget_export(id: int) -> None:
    """Forget the filters of a revoked export link."""
    execute("UPDATE api_key SET export = '{}', name = 'csv' WHERE id = ?", (id,))


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


def list_form_origins() -> set[str]:
    """Return the origins that any valid form key of the tenant names, for preflight requests."""
    valid = (
        'SELECT origins FROM api_key JOIN "user" ON "user".id = user_id AND active = 1'
        " WHERE origins <> ''"
        " AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
    )
    return {
        origin for (origins,) in rows(valid, (now(),)) for origin in rights.split_origins(origins)
    }


def _checksum(body: str) -> str:
    """Return the CRC-32 in base62, lowest digit first."""
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits += ALPHABET[digit]
    return digits
