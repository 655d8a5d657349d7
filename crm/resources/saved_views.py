"""Saved views of lists: a name for filters, an order and columns (spec: none; D16).

A view is its maker's own unless it is shared: then all users see it, and the maker and owners of
the account may change it. What it filters by is what the list takes as parameters.
"""

from typing import Any

from werkzeug.datastructures import MultiDict

from crm import values
from crm.api.blueprints import Blueprint, Endpoints
from crm.errors import Conflict, Forbidden, Invalid, NotFound
from crm.json import loads
from crm.records import erasure, fields, parameters, queries
from crm.records.columns import N_, Boolean, Choice, Extra, Id, Text
from crm.records.custom import fields as custom_fields
from crm.records.nested import ValueList
from crm.records.record import Record
from crm.records.views import declare_views
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.users import User, owner_id
from crm.storage.session import current_session, transaction

NOT_SAVED = frozenset(["cursor", "limit", "total", "include_deleted"])
MAX_VIEWS = 100  # of a user
MAX_COLUMNS = 30


class ListQuery(fields.Extra):
    """The parameters of a list: a text for each, or several."""

    def read(self, value: Any) -> str:
        stored = super().read(value)
        for texts in value.values() if value else ():
            texts = texts if isinstance(texts, list) else [texts]
            if not all(isinstance(text, str) for text in texts):
                raise values.InvalidValue("invalid_type", "must be texts or lists of texts")
        return stored


class SavedView(Record):
    """One view of a user, in stored form."""

    noun = "saved_view"

    resource = Choice(
        *MAIN_RESOURCES,
        required=True,
        create_only=True,
        example="leads",
        filtered=parameters.Equals(),
    )
    name = Text(64, required=True, example="Hot", label=N_("Name"))
    query = Extra(
        wire=ListQuery(
            example={"status": ["new", "in_progress"], "amount_from": "50000", "sort": "-amount"},
            about="Parameters of the list: `{name: text or list of texts}`.",
        ),
    )
    columns = Text(
        wire=ValueList(
            fields.Text(64, required=True),
            MAX_COLUMNS,
            example=["name", "status", "amount"],
            about="In their order; by default the usual ones.",
        ),
        null=True,
    )
    shared = Boolean(default=False, about="Whether all users see it.")
    user_id = Id(dump_only=True, allow_none=False, about="Whose it is.")

    @classmethod
    def find_own(cls, id: int | str, expected_version: int | None = None) -> "SavedView":
        """The view of that id, to be changed.

        Raises NotFound, also for another user's own, Forbidden for a shared one, and Stale.
        """
        view = cls.find(id, expected_version)
        user_id = current_session().user_id
        if user_id is None or view.user_id == user_id:  # the command line acts for nobody
            return view
        if not view.shared:
            raise NotFound
        if User.find(user_id).role != "owner":
            raise Forbidden("only its maker or an owner changes a shared view", "not_own_view")
        return view


def create(data: dict[str, Any]) -> int:
    """Add a view of the session's user and return its id.

    Raises Invalid, and Conflict `duplicate_view` or `too_many_views`.
    """
    with transaction():
        user_id = current_session().user_id or owner_id()
        _check(data["resource"], data)
        _require_free_name(data["name"], data["resource"], user_id)
        if len(SavedView.every("user_id = ?", user_id)) >= MAX_VIEWS:
            raise Conflict(f"a user has at most {MAX_VIEWS} views", "too_many_views")
        return SavedView.add({**data, "user_id": user_id}).id


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> SavedView:
    """Change the sent fields of a view. Raises as SavedView.find_own() and create()."""
    with transaction():
        view = SavedView.find_own(id, expected_version)
        _check(view.resource, data)
        if data.get("name", view.name) != view.name:
            _require_free_name(data["name"], view.resource, view.user_id)
        view.save_changes(data)
        return view


def delete(id: int | str, expected_version: int | None = None) -> SavedView:
    """Delete a view for good. Raises as SavedView.find_own()."""
    with transaction():
        view = SavedView.find_own(id, expected_version)
        view.erase()
        return view


def visible() -> tuple[str, list[Any]]:
    """The condition of the views that the session's user sees."""
    return "(shared = 1 OR user_id = ?)", [current_session().user_id]


def show(id: int | str) -> dict[str, Any]:
    """A view that the session's user sees; raises NotFound."""
    view = SAVED_VIEW.one(id)
    if not view["shared"] and view["user_id"] != str(current_session().user_id):
        raise NotFound
    return view


def _check(resource: str, data: dict[str, Any]) -> None:
    """Raise Invalid for a parameter or a column that the list does not have."""
    own = {field.name for field in custom_fields.of(resource).values()}
    known = {*MAIN_RESOURCES[resource].view.fields, *own}
    for position, name in enumerate(loads(data.get("columns") or "[]")):
        if name not in known:
            raise Invalid.field(f"columns/{position}", "unknown_field", "there is no such field")
    with Invalid.under("query"):
        read_list_query(resource, data.get("query"))


def read_list_query(resource: str, stored: str | None) -> parameters.Query:
    """What the stored parameters of a list select.

    Raises Invalid, also for those that do not select records.
    """
    query = loads(stored or "{}")
    for name in query:
        if name in NOT_SAVED:
            raise Invalid.field(name, "unknown_parameter", "does not select records")
    return MAIN_RESOURCES[resource].list_filter.read(MultiDict(query))


def _require_free_name(name: str, resource: str, user_id: int) -> None:
    if SavedView.first("user_id = ? AND resource = ? AND name = ?", user_id, resource, name):
        raise Conflict("another view of this list has this name", "duplicate_view")


erasure.register_deletion("views", "saved_view", "name", "query")
custom_fields.uses["saved_view"] = "resource", "query", "columns"

SAVED_VIEW, SAVED_VIEW_IN, SAVED_VIEW_PATCH = declare_views(SavedView, noun="view")


class SavedViewFilter(queries.filter_of(SavedView, queries.Filter, "id", ("updated_at",))):  # type: ignore[misc]
    shared = parameters.BooleanFilter(about="`false`: only one's own that nobody else sees.")


blueprint = Blueprint(
    "views", "Saved views of lists: filters, an order and columns.", N_("Saved views")
)

views = Endpoints(blueprint, "/views", SAVED_VIEW)
views.list(
    SavedViewFilter(), "List the views of the key's user and the shared ones.", where=visible
)
views.create(
    create,
    "Save a view of a list.",
    conflicts=True,
    example={"resource": "leads", "name": "Hot", "query": {"amount_from": "50000"}},
)
views.get(show=show)
views.change(update, conflicts=True)
views.delete(delete)
