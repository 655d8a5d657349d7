"""Inbound hooks: their addresses, how bodies are read, and by what a sender proves itself.

A token is made of a random seed by the installation's key, and of the token only the hash is
stored: whoever reads the database alone cannot call the hook, and GET one can show the address.
"""

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Collection
from typing import Any

from peewee import TextField

from crm import values
from crm.access import rights, tokens
from crm.errors import Conflict, Forbidden, Invalid, NotFound
from crm.json import loads
from crm.records import columns, fields
from crm.records.columns import N_, Shown
from crm.records.custom import fields as custom_fields
from crm.records.record import Record
from crm.records.views import declare_views
from crm.resources.inbound import targets
from crm.resources.users import owner_id
from crm.storage.session import current_session, execute, one_row, settings, transaction

PATH = "/in"
MAX_HOOKS = 50
SEED_BYTES = 16


class TextsByName(fields.Extra):
    """A JSON object of texts, such as `{path: field}`."""

    def read(self, value: Any) -> str:
        stored = super().read(value)
        if not all(isinstance(text, str) and text for text in (value or {}).values()):
            raise values.InvalidValue("invalid_type", "must be texts by name")
        return stored


class Address(fields.Text):
    """The URL of a hook, of its seed and the hash of its token."""

    def show(self, value: Any) -> str | None:
        seed, _, stored_hash = (value or "").partition(" ")
        token = make_token(seed)
        if hash_token(token) != stored_hash:
            return None
        return f"{settings().url_of(current_session().label)}{PATH}/{token}"


class InboundHook(Record):
    """One hook, in stored form."""

    noun = "inbound_hook"

    name = columns.Text(255, required=True, example="Tilda", label=N_("Name"))
    target = columns.Choice(
        *targets.TARGETS,
        required=True,
        create_only=True,
        example="lead",
        about="What bodies become: a lead, a deal with its client, a note, a call, or the payment"
        " of an invoice.",
    )
    mapping = columns.Extra(
        wire=TextsByName(
            example={"Name": "name", "Phone": "phone", "order.comment": "comment"},
            about="`{path in a body: field}`. Several paths of one field are joined; `*` in a path "
            "is each element of a list; fields that begin with `client.` describe the person.",
        )
    )
    defaults = columns.Extra(
        wire=TextsByName(
            example={"source": "tilda"}, about="`{field: text}` where a body has none."
        )
    )
    id_path = columns.Text(
        255, example="tranid", about="Where a body has the sender's id: the same id is one record."
    )
    known = columns.Choice(
        "skip", "update", default="skip", about="What a further body about a known record does."
    )
    signature_header = columns.Text(128, example="X-Shopify-Hmac-Sha256")
    signature_algorithm = columns.Choice(
        *("sha256", "sha1", "sha512"),
        default="sha256",
        about="Of the HMAC of the body, in hex or Base64.",
    )
    signature_secret = columns.Text(255, load_only=True, example="shared with the sender")
    takes_files = columns.Boolean(
        default=False,
        about="Whether the files of a multipart body become files of the record: at most 5, 10 MiB"
        " together.",
    )
    active = columns.Boolean(default=True, about="If not, its address answers 404.")
    url = Shown(
        Address(
            2048,
            dump_only=True,
            allow_none=True,
            column="inbound_hook.token_seed || ' ' || inbound_hook.token_hash",
            about="Null if the hook was made at another installation: the address that it had"
            " there is valid.",
        )
    )
    failed_calls = Shown(
        fields.Integer(
            dump_only=True,
            column="(SELECT count(*) FROM inbound_call"
            " WHERE hook_id = inbound_hook.id AND state = 'failed')",
            about="Calls of the last 30 days of which no record came.",
        )
    )
    user_id = columns.Id(dump_only=True, allow_none=False, about="In whose name records are made.")
    token_seed = TextField()
    token_hash = TextField()

    @property
    def rules(self) -> targets.Rules:
        """How bodies are read."""
        mapping, defaults = (loads(text) if text else {} for text in (self.mapping, self.defaults))
        return targets.Rules(self.target, mapping, defaults, self.known == "update")

    def check(self, changed: Collection[str]) -> None:
        """Raise Invalid for rules that do not fit, Forbidden for a key that may not make records
        of the target."""
        rights.require(targets.SCOPES[self.target])
        # A rule whose field has been hidden since does not keep a hook from being renamed or ended.
        if {*changed} - {"name", "active"}:
            targets.check(self.rules)
        if self.takes_files and self.target not in targets.WITH_FILES:
            detail = f"files are of a {', '.join(targets.WITH_FILES)}"
            raise Invalid.field("takes_files", "invalid_choice", detail)
        if bool(self.signature_header) != bool(self.signature_secret):
            detail = "a signature needs signature_header and signature_secret"
            raise Invalid.field("signature_header", "required", detail)

    def check_signature(self, sent: str, body: bytes) -> None:
        """Raise Forbidden unless the header's text is the HMAC of the body, if there must be one.

        Senders write it in hex or Base64, some with the algorithm before it: `sha256=…`.
        """
        if not self.signature_header:
            return
        mac = hmac.digest(self.signature_secret.encode(), body, self.signature_algorithm)
        given = sent.strip().removeprefix(f"{self.signature_algorithm}=").encode()
        forms = (mac.hex().encode(), b64encode(mac))
        if not any([hmac.compare_digest(given, form) for form in forms]):
            raise Forbidden("the signature does not fit the body", "wrong_signature")


def create(data: dict[str, Any]) -> int:
    """Add a hook and return its id. Raises Invalid, Forbidden, and Conflict `too_many_hooks`."""
    seed = tokens.generate_token(SEED_BYTES)
    token_hash = hash_token(make_token(seed))
    with transaction():
        if one_row("SELECT count(*) FROM inbound_hook")[0] >= MAX_HOOKS:
            raise Conflict(f"a tenant has at most {MAX_HOOKS} inbound hooks", "too_many_hooks")
        user_id = current_session().user_id or owner_id()
        made = {"user_id": user_id, "token_seed": seed, "token_hash": token_hash}
        hook = InboundHook.add({**data, **made})
        hook.check(data)
        return hook.id


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> InboundHook:
    """Change the sent fields of a hook. Raises Invalid, Forbidden, NotFound and Stale."""
    with transaction():
        hook = InboundHook.find(id, expected_version)
        if before := hook.save_changes(data):
            hook.check(before)
        return hook


def pass_on(user_id: int, heir_id: int) -> None:
    """Let records be made in the name of another user: a hook must not lose what is sent to it."""
    execute("UPDATE inbound_hook SET user_id = ? WHERE user_id = ?", (heir_id, user_id))


def find_by_token(token: str) -> InboundHook:
    """The active hook of a token; raises NotFound, also in a suspended account."""
    hook = InboundHook.first(
        "token_hash = ? AND active = 1"
        " AND NOT EXISTS (SELECT 1 FROM tenant WHERE suspended_at IS NOT NULL)",
        hash_token(token),
    )
    if hook is None:
        raise NotFound
    return hook


def make_token(seed: str) -> str:
    """The token of a seed at this installation: 43 characters for URLs."""
    key = current_session().source.installation.secret_key()
    mac = hmac.digest(key, b"inbound hook " + seed.encode(), "sha256")
    return urlsafe_b64encode(mac).rstrip(b"=").decode()


def hash_token(token: str) -> str:
    """What is stored of a token."""
    return tokens.digest(token).hex()


PLURAL = "CASE target WHEN 'call' THEN 'tasks' ELSE target || 's' END"
custom_fields.uses["inbound_hook"] = PLURAL, "mapping", "defaults"

HOOK, HOOK_IN, HOOK_PATCH = declare_views(InboundHook)
