"""Saved views: where they are, and the forms that save and delete one."""

from typing import Any
from urllib.parse import parse_qs, urlencode

from flask import g, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import formatting
from crm.cabinet.languages import gettext
from crm.cabinet.records.filters import COLUMNS, SAVED, VIEW
from crm.cabinet.rendering import Pages, me, next_path, see_other
from crm.errors import Conflict, Invalid
from crm.resources import saved_views
from crm.values import folding

pages = Pages("views")


def visible() -> list[dict[str, Any]]:
    """The views that the user sees, own and shared, as the API shows them and with their `path`."""
    if "saved_views" not in g:  # pages show them above the list and in the menu
        condition, params = saved_views.visible()
        views = saved_views.SAVED_VIEW.every(f"{condition} ORDER BY id", *params)
        g.saved_views = sorted(views, key=lambda view: folding.sort_key(view["name"]))
        for view in g.saved_views:
            view["path"] = _path(view)
    return g.saved_views


@pages.post("/views", once=True)
def save_view() -> Response:
    """Save the list's present selection; a view of the same name is replaced."""
    form = request.form
    sent = {name: form.get(name, "") for name in ("resource", "name")}
    query = parse_qs(form.get("query", ""))
    columns = form.getlist(COLUMNS) or None
    try:
        data = saved_views.SAVED_VIEW_IN.parse(
            {**sent, "query": query, "columns": columns, "shared": "shared" in form}
        )
        own = saved_views.SavedView.first(
            "user_id = ? AND resource = ? AND name = ?", me().user_id, *map(data.get, sent)
        )
        id = saved_views.update(own.id, data).id if own else saved_views.create(data)
    except (Invalid, Conflict) as error:
        return see_other(next_path(), formatting.refusal(error), "danger")
    return see_other(_path(saved_views.SAVED_VIEW.one(id)), gettext("View saved"))


@pages.post("/views/<id>/delete")
def delete_view(id: str) -> Response:
    view = saved_views.delete(id)
    return see_other(f"/{view.resource}", gettext("View deleted"))


def _path(view: dict[str, Any]) -> str:
    """The path of the list with the parameters of the view."""
    query = MultiDict(view["query"]).items(multi=True)
    columns = [(COLUMNS, name) for name in view["columns"] or ()]
    fixed = [(VIEW, "list")] if view["resource"] == "deals" else []
    return f"/{view['resource']}?{urlencode([*fixed, *query, *columns, (SAVED, view['id'])])}"
