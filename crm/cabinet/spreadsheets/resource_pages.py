"""What the pages of imports call each resource, and how one function makes a page for all."""

from collections.abc import Callable
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

import crm.resources  # noqa: F401  (registers what has files)
from crm.access import rights
from crm.cabinet import labels
from crm.cabinet.languages import TEXTS, coded_text, gettext, language
from crm.cabinet.rendering import Pages, render
from crm.errors import NotFound
from crm.records import background, pagination, queries
from crm.records.views import RecordView
from crm.spreadsheets import all_resources, find_resource
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.foreign.aliases import fields_of
from crm.spreadsheets.labels import header
from crm.spreadsheets.resource import ImportableResource

PAGE_SIZE = "20"  # records of a list
REFRESH_SECONDS = "2"  # of a page that shows how far a batch is
LIST_FILTER = queries.sorted_by("-id")


def column_label(resource: ImportableResource, name: str) -> str:
    """What people call a field that a column of a file may be."""
    column = fields_of(resource).get(name)
    return coded_text("import_fields", name) or header(
        name, column.label if column else "", language()
    )


def choices_of(resource: ImportableResource, name: str) -> dict[str, str]:
    """{value: label} of a column that has a fixed set of them; else nothing."""
    column = fields_of(resource).get(name)
    if column and column.custom:
        return {option["key"]: option["label"] for option in column.custom.options}
    values = getattr(column and column.field, "choices", ())
    return {value: labels.choice_label(resource.singular, name, value) for value in values}


def explain_columns(resource: ImportableResource) -> list[tuple[str, str, str]]:
    """Return (column, its label, explanation) of all columns of a resource."""
    return [
        (column.name, column_label(resource, column.name), _describe(resource, column))
        for column in resource.all_columns
    ]


def _describe(resource: ImportableResource, column: FileColumn) -> str:
    """Explain a column, with its allowed words if they are few."""
    own, shared = TEXTS["column_help"][resource.plural], TEXTS["column_help"]["all"]
    name = "utm" if column.name.startswith("utm_") else column.name
    of_part = name.removeprefix(f"{resource.part}_")
    text = own.get(name) or shared.get(name) or shared.get(of_part)
    label = column.label if column.custom else gettext(column.label)
    about = gettext(text) if text else f"{label}." if label else ""
    if words := ", ".join(choices_of(resource, column.name).values()):
        return f"{about} {gettext('One of: %(words)s.', words=words)}".strip()
    return about


def list_label(plural: str) -> str:
    """What the list of a resource is called."""
    return gettext(rights.RESOURCES[plural])


def render_page(template: str, plural: str, **context: Any) -> Response:
    """Render a page below the list of a resource."""
    return render(template, plural=plural, list_label=list_label(plural), **context)


def render_list(template: str, plural: str, view: RecordView) -> Response:
    """Render the records of a view whose `noun` is a resource, the newest first."""
    sent = MultiDict({"limit": PAGE_SIZE, "cursor": request.args.get("cursor", "")})
    query, noun = LIST_FILTER.read(sent), find_resource(plural).singular
    page = pagination.page(view, query, LIST_FILTER.fields["sort"], "noun = ?", [noun])
    return render_page(template, plural, page=page)


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
