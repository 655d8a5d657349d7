"""What the pages of imports call each resource, and how one function makes a page for all."""

from collections.abc import Callable
from typing import Any, NamedTuple

import crm.resources  # noqa: F401  (registers what has files)
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import Pages
from crm.spreadsheets import all_resources


class Labels(NamedTuple):
    """What the pages of a resource are called: its list, and its import."""

    list: str
    title: str


def labels_of(plural: str) -> Labels:
    """The labels of a resource."""
    return {
        "products": Labels(gettext("Products"), gettext("Import of a price list")),
        "clients": Labels(gettext("Clients"), gettext("Import of clients")),
        "deals": Labels(gettext("Deals"), gettext("Import of deals")),
        "leads": Labels(gettext("Leads"), gettext("Import of leads")),
        "tasks": Labels(gettext("Tasks"), gettext("Import of tasks")),
    }[plural]


def import_order() -> list[tuple[str, str]]:
    """(plural, what its list is called) in the order in which files are imported."""
    plurals = [resource.plural for resource in all_resources()]
    return [(plural, labels_of(plural).list) for plural in plurals]


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
            pages.add_url_rule(rule, None, view, methods=[method], defaults=defaults, **options)
        return view

    return add
