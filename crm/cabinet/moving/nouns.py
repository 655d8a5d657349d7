"""What the pages of moving say of each noun, and how one function makes a page for all of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from crm.cabinet.languages import gettext
from crm.cabinet.rendering import Pages
from crm.resources import moving
from crm.resources.moving import PRODUCTS, table
from crm.resources.products import price_list


class Words(NamedTuple):
    """What a noun's pages are called: its list, and its import."""

    list: str
    title: str


def words(noun: str) -> Words:
    return {
        PRODUCTS: Words(gettext("Products"), gettext("Import of a price list")),
        "clients": Words(gettext("Clients"), gettext("Import of clients")),
        "deals": Words(gettext("Deals"), gettext("Import of deals")),
        "leads": Words(gettext("Leads"), gettext("Import of leads")),
        "tasks": Words(gettext("Tasks"), gettext("Import of tasks")),
    }[noun]


def order() -> list[tuple[str, str]]:
    """(noun, what its list is called) in the order in which they move in."""
    return [(noun, words(noun).list) for noun in moving.NOUNS]


def singular(noun: str) -> str:
    return "product" if noun == PRODUCTS else moving.MOVING[noun].name


def most_rows(noun: str) -> int:
    return price_list.MOST_ROWS if noun == PRODUCTS else table.MOST_ROWS


def columns(noun: str) -> list[str]:
    """The columns that a file may have, in the order of an export."""
    if noun == PRODUCTS:
        return list(price_list.COLUMNS)
    return [column.name for column in moving.MOVING[noun].all_columns]


def text_columns(noun: str) -> frozenset[str]:
    """Those that a spreadsheet could take for formulas."""
    return price_list.TEXTS if noun == PRODUCTS else moving.MOVING[noun].texts


def each(pages: Pages, method: str, path: str, **options: Any) -> Callable[[Callable], Callable]:
    """A page below the list of every noun; `noun`, its plural, is the page's first argument.

    A rule for each, because `/leads/<id>` would take `/<noun>/import` for a lead.
    """

    def add(view: Callable) -> Callable:
        for noun in moving.NOUNS:
            defaults = {"noun": noun}
            rule = f"/{noun}/{path}"
            pages.add_url_rule(rule, None, view, methods=[method], defaults=defaults, **options)
        return view

    return add
