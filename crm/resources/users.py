"""Users of the tenant, and the one the key acts for (spec: Pipelines and users; D11, D12).

Users are deactivated, never deleted; the API only reads them. A deactivated user's sessions end,
and keys are refused meanwhile. No two have the same phone or e-mail, and there is always an active
owner. A change of what lets a user in ends all links that the user was sent.
"""

from typing import Any

from flask import g
from marshmallow import fields as ma
from peewee import TextField

from crm import values
from crm.access import links, rights, sessions
from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.config import PLANS
from crm.errors import Conflict, Invalid, NotFound
from crm.records import columns, pagination, queries
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.queries import Query, filter_of
from crm.records.record import Record
from crm.records.schemas import RecordSchema, schema_of
from crm.records.views import RecordView
from crm.tenancy.database import row, transaction
from crm.values.ids import integer_id

ROLES = ("owner", "manager", "viewer")
ENDS_LINKS = frozenset({"email", "phone", "role", "active", "site_id"})


class User(Record):
    """name, email, phone, role, active, language of the cabinet (null: the browser's), and the id
    that a site which embeds the cabinet knows the user by."""

    noun = "user"

    name = columns.Text(255, required=True, sorted=True, label=N_("Name"), form="new")
    email = columns.Email(label=N_("E-mail"), form="new")
    phone = columns.Phone(label=N_("Phone"), form="new")
    role = columns.Choice(
        *ROLES,
        allow_none=False,
        default="manager",
        filtered=queries.Equals(),
        label=N_("Role"),
        form="new",
    )
    active = columns.Boolean(
        allow_none=False,
        default=True,
        filtered=queries.BooleanFilter(about="`false`: only who was deactivated."),
    )
    language = TextField(null=True)
    site_id = TextField(null=True)

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. `active: 0` deactivates and ends sessions.

        Raises Conflict `duplicate_user`, or `last_owner` when no active owner would be left, and
        Invalid `url_like_name` for a new name.
        """
        is_free(data, self.id)
        stays = data.get("role", self.role) == "owner" and data.get("active", self.active)
        if not stays and self.is_last_owner():
            raise Conflict("somebody must stay an active owner", "last_owner")
        if data.get("name", self.name) != self.name:
            check_name(data["name"])
        before = self.put(data)
        if before.get("active"):
            sessions.end_others(self.id)

    def put(self, values: dict[str, Any]) -> dict[str, Any]:
        """As Record.put. Whichever way a user is changed, the links from before end with it."""
        before = super().put(values)
        if not ENDS_LINKS.isdisjoint(before):
            links.end_all_links_of(self.id)
        return before

    def is_last_owner(self) -> bool:
        another = "role = 'owner' AND active AND id <> ?"
        return self.role == "owner" and bool(self.active) and not User.first(another, self.id)


def create(data: dict[str, Any]) -> User:
    """Add a user. Raises Conflict `duplicate_user` when the phone or e-mail is another's, Invalid
    `url_like_name`."""
    check_name(data.get("name"))
    with transaction():
        is_free(data)
        return User.add({"role": "manager", "active": 1, **data})


def check_name(name: str | None, field: str = "name") -> None:
    """A name that messages may carry: of a person, or of a business. Raises Invalid.

    Checked where somebody sets a name, not where a site or a file from before brings one along:
    messages leave such a name out.
    """
    if name and values.is_url_like(name):
        detail = "a name must not look like the address of a site or an e-mail address"
        raise Invalid.field(field, "url_like_name", detail)


def of_site(site_id: str, data: dict[str, Any]) -> User:
    """The user whom a site that embeds the cabinet knows by that id: the one who came so before,
    else one with the same e-mail or phone who never did, else a new one.

    `data` has name and role, which follow the site's, and perhaps email and phone, which only a new
    user gets, and only those that nobody has. Who was deactivated stays so, and the last owner an
    owner: it is for the site to say what that person may do meanwhile.
    """
    name, role = data["name"], data["role"]
    found = User.first("site_id = ?", site_id)
    if found and (not found.active or (found.name, found.role) == (name, role)):
        return found
    with transaction():
        found = User.first("site_id = ?", site_id) or _unclaimed(data)
        if found is None:
            free = {
                reach: data[reach]
                for reach in ("email", "phone")
                if data.get(reach) and not User.first(f"{reach} = ?", data[reach])
            }
            new = {"name": name, "role": role, "active": 1, "site_id": site_id}
            return User.add(new | free)
        if found.active:
            kept = found.role if role != "owner" and found.is_last_owner() else role
            found.put({"name": name, "role": kept, "site_id": site_id})
        return found


def _unclaimed(data: dict[str, Any]) -> User | None:
    """Who has that e-mail address or phone and never came from the site."""
    for reach in ("email", "phone"):
        if data.get(reach):
            found = User.first(f"{reach} = ? AND site_id IS NULL", data[reach])
            if found:
                return found
    return None


def owner_id() -> int:
    """The first owner: whom the command line's keys act for unless told otherwise (D12)."""
    return User.first("role = 'owner' AND active").id


def reached_at(text: str) -> User | None:
    """The active user with that phone number or e-mail address, however it was typed."""
    reach = reach_of(text)
    return User.first("(phone = ? OR email = ?) AND active", reach, reach)


def reach_of(text: str) -> str:
    """The one spelling of a phone number or an e-mail address, whoever has it; "" if it is none."""
    try:
        return ((values.email if "@" in text else values.phone)(text) or "").lower()
    except values.InvalidValue:
        return ""


def named(text: str) -> User:
    """The active user with that id, phone number or e-mail address. Raises NotFound."""
    found = User.first("id = ? AND active", integer_id(text)) or reached_at(text)
    if found is None:
        raise NotFound(f"there is no active user {text}")
    return found


def is_free(data: dict[str, Any], id: int = 0) -> None:
    """Raises Conflict `duplicate_user` when the phone or e-mail is another's than this user's."""
    for name in ("email", "phone"):
        if data.get(name) and User.first(f"{name} = ? AND id <> ?", data[name], id):
            raise Conflict(f"another user has this {name}", "duplicate_user")


UserSchema = schema_of(User)
USER = RecordView(UserSchema.out("UserOut"), "user", live=False)
USER_IN = UserSchema.body("UserIn")
USER_PATCH = UserSchema.patch("UserPatch")


class KeyOut(RecordSchema):
    """The key that asks."""

    id = ma.String(required=True)
    name = ma.String(required=True)
    scopes = ma.List(ma.String(metadata={"enum": sorted(rights.SCOPES)}), required=True)


class TenantOut(RecordSchema):
    """The tenant that the key belongs to."""

    name = ma.String(required=True)
    plan = ma.String(required=True, metadata={"enum": list(PLANS)})


class MeOut(type(USER.schema)):
    """A user with the key that asks and its tenant."""

    key = ma.Nested(KeyOut, required=True)
    tenant = ma.Nested(TenantOut, required=True)


UserFilter = filter_of(User, queries.Filter, sort="id", unsorted=("updated_at",))
USER_FILTER = UserFilter()

blueprint = Blueprint("users", "Users of the tenant.")


@blueprint.get("/users")
@blueprint.arguments(USER_FILTER, location="query")
@blueprint.page(page_of(USER.schema))
def list_users(query: Query) -> Page:
    """List the users of the tenant."""
    return pagination.page(USER, query, USER_FILTER.fields["sort"])


@blueprint.get("/users/me")
@blueprint.needs()
@blueprint.answer(MeOut())
def get_current_user() -> dict[str, Any]:
    """Get the user that the key acts for, with the key and the tenant."""
    caller = g.caller
    key = {"id": str(caller.key_id), "name": caller.key_name, "scopes": sorted(caller.scopes)}
    name, plan = row("SELECT name, plan FROM tenant")
    user = USER.one(caller.user_id)
    if caller.is_form:  # this key stands in the source of a public page
        user |= {"email": None, "phone": None}
    return {**user, "key": key, "tenant": {"name": name, "plan": plan}}
