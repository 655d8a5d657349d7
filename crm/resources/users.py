"""Users of the tenant, and the one the key acts for (spec: Pipelines and users; D11, D12).

Users are deactivated, never deleted; the API only reads them. Deactivating a user ends the user's
sessions, API keys and calendar address for good; what others send by, website forms and inbound
hooks, becomes an owner's. History goes on naming the user, and what is new does not. No two users
have the same phone or e-mail, and there is always an active owner. A change of a user's way to log
in ends all links sent to the user.
"""

from collections.abc import Callable
from typing import Any

from marshmallow import fields as ma
from peewee import TextField

from crm import values
from crm.access import api_keys, calendar_tokens, links, rights, sessions
from crm.alerts import alerts
from crm.alerts.kinds import WITHOUT_ACCESS
from crm.api.blueprints import Blueprint, Endpoints
from crm.config import PLANS
from crm.errors import Conflict, Invalid, NotFound
from crm.json import integer_id
from crm.records import columns, parameters, queries
from crm.records.columns import N_
from crm.records.record import Record
from crm.records.schemas import RecordSchema
from crm.records.views import declare_views
from crm.storage.dialect import equals
from crm.storage.session import current_session, now, one_row, row, rows, time_before, transaction
from crm.storage.sweeps import DAY_SECONDS

ROLES = ("owner", "manager", sessions.SELLER, "viewer")
ENDS_LINKS = frozenset({"email", "phone", "role", "active", "site_id"})
# Of records that nobody works at any more.
CLOSED = frozenset({"unqualified", "converted", "won", "lost", "done", "cancelled"})
# What becomes another user's when access ends: called with the user's id and that of the other.
after_deactivation: list[Callable[[int, int], None]] = []


class User(Record):
    """name, email, phone, role, active, language of the cabinet (null: the browser's), and the id
    that a site which embeds the cabinet knows the user by."""

    noun = "user"

    name = columns.Text(255, required=True, sorted="sort_key", label=N_("Name"))
    sort_key = TextField(default="")
    email = columns.Email(label=N_("E-mail"), form="new")
    phone = columns.Phone(label=N_("Phone"), form="new")
    role = columns.Choice(
        *ROLES, default="manager", filtered=parameters.Equals(), label=N_("Role"), form="new"
    )
    active = columns.Boolean(
        default=True, filtered=parameters.BooleanFilter(about="`false`: only who was deactivated.")
    )
    language = TextField(null=True)
    quiet_from = TextField(null=True)  # HH:MM in the tenant's zone, as quiet_until
    quiet_until = TextField(null=True)
    site_id = TextField(null=True)
    deactivated_at = TextField(null=True)  # last; null of who never had access

    def save_changes(self, values: dict[str, Any]) -> dict[str, Any]:
        """As Record.save_changes; a change of how the user logs in ends the links sent before."""
        before = super().save_changes(values)
        if not ENDS_LINKS.isdisjoint(before):
            links.end_all_links_of(self.id)
        return before

    def is_last_owner(self) -> bool:
        another = "role = 'owner' AND active = 1 AND id <> ?"
        return self.role == "owner" and bool(self.active) and not User.first(another, self.id)


def assignee(about: str = "", in_order: bool = True) -> columns.Column:
    """The column of the user who is responsible for a record."""
    return columns.Id(
        example="1",
        about=about,
        filtered=parameters.UserReference(about="A user's id, `me` or `none`.", in_order=in_order),
        references="user",
        csv=True,
        label=N_("Responsible"),
        form="new",
    )


def require_assignee(data: dict[str, Any], record: Any) -> None:
    """Check the user whom a change makes responsible for a record.

    Raises Invalid `unknown_id`, and `no_access` for a user without access.
    """
    id = data.get("assigned_to")
    values = {"status": getattr(record, "status", None), **data}
    if id not in (None, record.assigned_to) and not _may_be_responsible(id, values):
        raise Invalid.field("assigned_to", "no_access", "this user has no access any more")


def with_assignee(data: dict[str, Any]) -> dict[str, Any]:
    """The values of a new record. One for a user without access is nobody's, and owners are alerted
    until they see it, unless it is history; inside a transaction. Raises Invalid `unknown_id`.
    """
    id = data.get("assigned_to")
    if id is None or _may_be_responsible(id, data):
        return data
    if not alerts.exists(WITHOUT_ACCESS, id, unseen=True):
        alerts.add(WITHOUT_ACCESS, User.noun, id)
    return {**data, "assigned_to": None}


def _may_be_responsible(id: int, values: dict[str, Any]) -> bool:
    """Whether a record of these values may be a user's: one with access, or it is history.

    A file may name a colleague who gets access later, and an undo gives back what was theirs. A
    record of the last day is new: programs send the date of what happens now, too.
    """
    user, session = User.find_any(id), current_session()
    if user is None:
        raise Invalid.field("assigned_to", "unknown_id", "there is no user with this id")
    comes_later = session.is_import and user.deactivated_at is None
    is_old = (values.get("created_at") or now()) < time_before(DAY_SECONDS)
    is_history = is_old or values.get("status") in CLOSED
    return bool(user.active) or comes_later or is_history or session.is_undo


def create(data: dict[str, Any]) -> User:
    """Add a user.

    Raises Conflict `duplicate_user` when the phone or e-mail is another's, and Invalid
    `url_like_name`.
    """
    check_name(data.get("name"))
    with transaction():
        require_free_address(data)
        user = User.add(data)
        user.note_in_batch("created")
        return user


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> User:
    """Change the sent fields of a user; `active: 0` deactivates the user and ends all access.

    Raises NotFound, Stale, Conflict `duplicate_user`, or `last_owner` when no active owner would be
    left, and Invalid `url_like_name` for a new name.
    """
    with transaction():
        user = User.find(id, expected_version)
        require_free_address(data, user.id)
        stays_owner = data.get("role", user.role) == "owner" and data.get("active", user.active)
        if not stays_owner and user.is_last_owner():
            raise Conflict("somebody must stay an active owner", "last_owner")
        if data.get("name", user.name) != user.name:
            check_name(data["name"])
        # save_changes() returns old values: `active` was true and is not any more.
        if user.save_changes(data).get("active"):
            _end_access(user)
        return user


def _end_access(user: User) -> None:
    user.save_changes({"deactivated_at": now()})
    sessions.end_others(user.id)
    calendar_tokens.end(user.id)
    for pass_on in (api_keys.end_access, *after_deactivation):
        pass_on(user.id, owner_id())


def make_reset_link(email: str) -> tuple[User | None, str]:
    """The active user with that e-mail address, if any, and the token of a link for a new password.

    In one transaction: a change of the address ends the link. For an address that nobody has, the
    same work is done: the token is of a link that nobody gets.
    """
    with transaction():
        user = reached_at(email)
        purpose, id = (links.RESET, user.id) if user else (links.HANDOVER, owner_id())
        return user, links.create(purpose, id)


def confirm_email(token: str) -> bool:
    """Give a user the e-mail address that a link is about; False when the link isn't good.

    Raises Conflict `duplicate_user`; the link stays good then.
    """
    with transaction():
        if link := links.use(links.EMAIL, token):
            update(link.user_id, {"email": link.about})
        return link is not None


def check_name(name: str | None, field: str = "name") -> None:
    """Raise Invalid for a name of a person or a business that messages must not carry.

    Checked where a user sets a name. A name from an embedding site or an older file is stored as it
    is, and messages leave it out.
    """
    if name and values.is_url_like(name):
        detail = "a name must not look like the address of a site or an e-mail address"
        raise Invalid.field(field, "url_like_name", detail)


def find_or_create_for_site(site_id: str, data: dict[str, Any]) -> User:
    """Return the user for an id at a site that embeds the cabinet: the user who has this site id,
    else one with the same e-mail or phone who has no site id yet, else a new one.

    `data` has name and role, which are updated to the site's, and optionally email and phone, which
    only a new user gets, and only if no other user has them. A deactivated user stays deactivated.
    The last owner stays an owner in the database; the session still has the site's role.
    """
    name, role = data["name"], data["role"]
    user = User.first("site_id = ?", site_id)
    if user and (not user.active or (user.name, user.role) == (name, role)):
        return user
    # Nothing to write is the usual case, so that a page needs no writer lock. Inside the lock the
    # user is looked up again: another request may have added it meanwhile.
    addresses = {field: data[field] for field in ("email", "phone") if data.get(field)}
    with transaction():
        user = User.first("site_id = ?", site_id)
        for field, address in addresses.items():
            user = user or User.first(f"{equals(field)} AND site_id IS NULL", address)
        if user is None:
            free = {
                field: address
                for field, address in addresses.items()
                if not User.first(equals(field), address)
            }
            return User.add({"name": name, "role": role, "site_id": site_id, **free})
        if user.active:
            new_role = user.role if role != "owner" and user.is_last_owner() else role
            user.save_changes({"name": name, "role": new_role, "site_id": site_id})
        return user


def names(condition: str = "TRUE") -> dict[str, str]:
    """Names of the users that meet an SQL condition, by id as text."""
    return {str(id): name for id, name in rows(f'SELECT id, name FROM "user" WHERE {condition}')}


def names_without_access() -> dict[str, str]:
    """As names(), of the users without access who are responsible for records."""
    # Not EXISTS or LIMIT: of who has no records PostgreSQL would read whole tables by them.
    least = 'SELECT min(assigned_to) FROM {} WHERE assigned_to >= "user".id AND deleted_at IS NULL'
    of_all = ", ".join(f"({least.format(noun)})" for noun in ("lead", "client", "deal", "task"))
    return names(f'active = 0 AND "user".id IN ({of_all}) ORDER BY id')


def owner_id() -> int:
    """Return the first owner, for whom keys made on the command line act by default (D12)."""
    owner = User.first("role = 'owner' AND active = 1")
    assert owner is not None  # the last one cannot be deactivated
    return owner.id


def reached_at(text: str) -> User | None:
    """The active user with that phone number or e-mail address, however it was typed."""
    address = reach_of(text)
    return User.first(f"(phone = ? OR {equals('email')}) AND active = 1", address, address)


def reach_of(text: str) -> str:
    """Return the normal form of a phone number or an e-mail address; "" if the text is neither."""
    try:
        return ((values.email if "@" in text else values.phone)(text) or "").lower()
    except values.InvalidValue:
        return ""


def named(text: str) -> User:
    """The active user with that id, phone number or e-mail address. Raises NotFound."""
    user = User.first("id = ? AND active = 1", integer_id(text)) or reached_at(text)
    if user is None:
        raise NotFound(f"there is no active user {text}")
    return user


def require_free_address(data: dict[str, Any], id: int = 0) -> None:
    """Raise Conflict `duplicate_user` when another user than `id` has the phone or e-mail."""
    for name in ("email", "phone"):
        if data.get(name) and User.first(f"{equals(name)} AND id <> ?", data[name], id):
            raise Conflict(f"another user has this {name}", "duplicate_user")


USER, USER_IN, USER_PATCH = declare_views(User)


class KeyOut(RecordSchema):
    """The API key of the request."""

    id = ma.String(required=True)
    name = ma.String(required=True)
    scopes = ma.List(ma.String(metadata={"enum": rights.SCOPES}), required=True)
    own = ma.Boolean(required=True, metadata={"description": "It sees its user's records only."})


class TenantOut(RecordSchema):
    """The tenant that the key belongs to."""

    name = ma.String(required=True)
    plan = ma.String(required=True, metadata={"enum": list(PLANS)})


class MeOut(type(USER.schema)):  # type: ignore[misc]  # made from the declaration
    """A user, with the API key of the request and its tenant."""

    key = ma.Nested(KeyOut, required=True)
    tenant = ma.Nested(TenantOut, required=True)


USER_FILTER = queries.filter_of(User, queries.Filter, sort="id", unsorted=("updated_at",))()

blueprint = Blueprint("users", "Users of the tenant.", N_("Users"))


Endpoints(blueprint, "/users", USER).list(USER_FILTER, "List the users of the tenant.")


@blueprint.operation("GET", "/users/me", needs=(), answer=MeOut())
def get_current_user() -> dict[str, Any]:
    """Get the user that the key acts for, with the key and the tenant."""
    session, scopes = current_session(), rights.granted()
    known = row("SELECT name FROM api_key WHERE id = ?", (session.key_id,)) or [""]
    key = {
        "id": str(session.key_id or 0),
        "name": known[0],
        "scopes": sorted(scopes),
        "own": session.own_user_id is not None,
    }
    name, plan = one_row("SELECT name, plan FROM tenant")
    user = USER.one(session.user_id or 0)
    if rights.is_form_key(scopes):  # this key stands in the source of a public page
        user |= {"name": "", "email": None, "phone": None}
    return {**user, "key": key, "tenant": {"name": name, "plan": plan}}
