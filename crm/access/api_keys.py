"""API keys (spec: Authentication, D12): shown once, stored as a hash, valid at one tenant."""

import re
import secrets
import zlib

from peewee import AutoField, BlobField, IntegerField, TextField

from crm.access import rights
from crm.alerts import alerts
from crm.alerts.kinds import KEY_EXPIRING
from crm.errors import Invalid, NotFound
from crm.json import integer_id
from crm.records.custom import fields as custom_fields
from crm.records.record import Row
from crm.storage import sweeps
from crm.storage.session import execute, insert, now, row, rows, time_before, transaction
from crm.values import InvalidValue, one_line

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# What a key for an assistant has, unless its maker says otherwise (D12).
ASSISTANT_DAYS = 90
ASSISTANT_SCOPES = (
    *(f"{noun}:read" for noun in ("leads", "clients", "deals", "tasks")),
    *(f"{noun}:write" for noun in ("leads", "clients", "deals", "tasks")),
    *("products:read", "users:read", "pipelines:read"),
)
EXPIRES_SOON_SECONDS = 7 * sweeps.DAY_SECONDS
MAX_ORIGINS, MAX_ORIGIN_CHARACTERS = 50, 255  # of a website form's key
ORIGIN = re.compile(r"https?://[^/\s?#@*]+\Z", re.ASCII)


class ApiKey(Row):
    """A key as stored: `scopes` and `origins` are lists joined by commas.

    `hash` is of the key, `hint` its first characters. `source` is what leads of a website form get.
    `preset` is None, or ASSISTANT. `grant_…` are those of a key by OAuth (oauth_grants.py). `own`:
    it sees the records of its user only. `export` is of an export link
    (crm/resources/export_links.py), `made_by` the key that made it. `form_fields`: what a form may
    send of the tenant's own fields, a JSON list such as `["custom.wood"]`.
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
    preset = TextField(null=True)
    own = IntegerField(default=0)
    export = TextField(null=True)
    made_by = IntegerField(null=True)
    form_fields = TextField(null=True)
    grant_hash = BlobField(null=True)
    grant_token_hash = BlobField(null=True)
    grant_purpose = BlobField(null=True)
    grant_ends_at = TextField(null=True)

    @property
    def ends_at(self) -> str | None:
        """When it ends for good: a key by OAuth is renewed until then."""
        return self.grant_ends_at or self.expires_at

    def state(self) -> str:
        """Return `live`, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.ends_at and self.ends_at <= now() else "live"

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
    preset: str | None = None,
    own: bool = False,
    export: str | None = None,
    made_by: int | None = None,
    form_fields: str | None = None,
) -> tuple[int, str]:
    """Make a key and return its id and the key itself, which is never shown again.

    `scopes` is a text such as `leads:read,leads:write` or `*`. `origins`, for a website form's key
    only, is a list such as `https://shop.example.ua` joined by commas; `source` is the source of
    the leads that the form creates. `preset` is None, or rights.ASSISTANT. `own`: it sees only the
    records that are its user's, and no settings, as the key of a seller does in any case. `export`,
    `made_by` and `form_fields` are as in ApiKey. Raises Invalid.
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
    texts = clean_name, *stored_form(secret), ",".join(sorted(scope_set))
    with transaction():
        id = insert(
            "INSERT INTO api_key (name, hash, hint, scopes, origins, user_id, created_at,"
            " expires_at, source, preset, own, export, made_by, form_fields)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(*texts, ",".join(origin_list), user_id, now(), expires_at, source, preset),
                *(int(own), export, made_by, form_fields),
            ),
        )
    return id, secret


def stored_form(secret: str) -> tuple[bytes, str]:
    """Return what is stored of a key: its hash and its hint."""
    return rights.hash_key(secret), secret[:8]


def assistant_expiry() -> str:
    """Return when a key for an assistant that is made now expires."""
    return time_before(-ASSISTANT_DAYS * sweeps.DAY_SECONDS)


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
    key = ApiKey.first("id = ?", integer_id(id))
    if key is None:
        raise NotFound
    return key


def list_all() -> list[ApiKey]:
    """Return all keys of the tenant, revoked and expired ones too, by id."""
    return ApiKey.every("TRUE ORDER BY id")


def list_export_links() -> list[ApiKey]:
    """Return the keys that are export links, by id."""
    return ApiKey.every("export IS NOT NULL ORDER BY id")


def forget_export(id: int) -> None:
    """Forget the filters of a revoked export link."""
    execute("UPDATE api_key SET export = '{}', name = 'csv' WHERE id = ?", (id,))


def end_access(user_id: int, heir_id: int) -> None:
    """Revoke the keys of a user for good, and the export links; inside a transaction.

    Those of website forms become another user's: they are public, and a form must not lose a lead.
    """
    execute(
        "UPDATE api_key SET user_id = ? WHERE user_id = ? AND scopes = ? AND revoked_at IS NULL",
        (heir_id, user_id, rights.FORM_SCOPE),
    )
    revoke = "UPDATE api_key SET revoked_at = ? WHERE user_id = ? AND revoked_at IS NULL"
    execute(revoke, (now(), user_id))


def revoke_all() -> None:
    """Revoke every key of the tenant; inside a transaction."""
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


custom_fields.uses["api_key"] = "CASE WHEN revoked_at IS NULL THEN 'leads' END", "form_fields"


@sweeps.register
def alert_of_expiring(_: int) -> int:
    """Alert owners once of each key that expires within a week."""
    soon = "revoked_at IS NULL AND expires_at > ? AND expires_at <= ?"
    params = now(), time_before(-EXPIRES_SOON_SECONDS)
    for (id,) in rows(f"SELECT id FROM api_key WHERE {soon}", params):
        if not alerts.exists(KEY_EXPIRING, id):
            alerts.add(KEY_EXPIRING, "api_key", id)
    return 0
