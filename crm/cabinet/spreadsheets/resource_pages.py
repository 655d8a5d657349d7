"""What the pages of imports call each resource, and how one function makes a page for all."""

from collections.abc import Callable
from typing import Any, NamedTuple

from werkzeug.wrappers import Response

import crm.resources  # noqa: F401  (registers what has files)
from crm.access import rights
from crm.cabinet.languages import coded_text, gettext, language
from crm.cabinet.rendering import Pages, render
from crm.errors import NotFound
from crm.records import background
from crm.records.views import RecordView
from crm.spreadsheets import all_resources, find_resource
from crm.spreadsheets.foreign.aliases import fields_of
from crm.spreadsheets.labels import header
from crm.spreadsheets.resource import ImportableResource

REFRESH_SECONDS = "2"  # of a page that shows how far a batch is


class Labels(NamedTuple):
    """What the pages of a resource are called: its list, and its import."""

    list: str
    title: str


def labels_of(plural: str) -> Labels:
    """The labels of a resource."""
    return Labels(gettext(rights.RESOURCES[plural]), coded_text("imports", plural))


def column_label(resource: ImportableResource, name: str) -> str:
    """What people call a field that a column of a file may be."""
    column = fields_of(resource).get(name)
    return coded_text("import_fields", name) or header(
        name, column.label if column else "", language()
    )


def import_order() -> list[tuple[str, str]]:
    """(plural, what its list is called) in the order in which files are imported."""
    plurals = [resource.plural for resource in all_resources()]
    return [(plural, labels_of(plural).list) for plural in plurals]


def render_page(template: str, plural: str, **context: Any) -> Response:
    """Render a page below the list of a resource."""
    return render(template, plural=plural, labels=labels_of(plural), **context)


def refresh_while_running(response: Response, state: str) -> Response:
    """A page that shows how far a batch is, shown again and again as long as that goes on."""
    if state in ("running", "undoing"):
        background.look_after_current()
        response.headers["Refresh"] = REFRESH_SECONDS
    return response


def one_of_resource(view: RecordView, plural: str, id: str) -> dict[str, Any]:
    """The record of a view whose `noun` is this resource; raises NotFound, also for another's."""
    record = view.one(id)
    if record["noun"] != find_resource(plural).singular:
        raise NotFound
    return record


def resource_page(
    pages: Pages, method: str, path: str, **options: Any
) -> Callable[[Callable], Callable]:
    """Add a page below the list of every resource; the view's first argument is the plural.

    Each has a rule of its own, because `/leads/<id>` would take `/<plural>/import` for a lead.
    """

    def add(view: Callable) -> Callable:
        for resource in all_resources():
            plural = resource.plural
            rule, defaults = f"/{plural}/{path}", {"plural": plural}
            endpoint = f"{view.__name__}_{plural}"
            pages.add_url_rule(rule, endpoint, view, methods=[method], defaults=defaults, **options)
        return view

    return add
