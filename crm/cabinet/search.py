"""Search over everything: leads, clients, deals, products and tasks in which all words are (D3)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from flask import request
from markupsafe import Markup
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import excerpts, formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import Pages, render
from crm.errors import Invalid
from crm.records import pagination
from crm.records import search as folding
from crm.records.pagination import Page
from crm.records.queries import Filter
from crm.records.search import Word
from crm.records.views import RecordView
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import CLIENT
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT
from crm.resources.tasks import TASK, TASK_FILTER

MAX_MATCHES = 10  # of each noun; its list has all
LISTS = {
    "leads": "/leads?q=",
    "clients": "/clients?q=",
    "deals": "/deals?view=list&q=",
    "products": "/products?q=",
    "tasks": "/search?only=tasks&q=",  # the page of tasks has no search
}

# The searched fields that are shown beside the name.
FACTS = {
    "leads": ("company", "phone", "email"),
    "clients": ("phone", "email"),
    "deals": ("client_name",),
    "products": ("sku",),
    "tasks": (),
}

pages = Pages("search")


class Match(NamedTuple):
    """A record that matches: its name, short facts, and other texts that match."""

    record: dict[str, Any]
    name: Markup
    facts: list[Markup]
    excerpts: list[tuple[str, Markup]]  # (label of the field, part that matches)


class Group(NamedTuple):
    """The matches of one noun, and the path of the list that has all of them."""

    noun: str
    name: str
    page: Page
    matches: list[Match]
    path: str


@pages.get("/search")
def search() -> Response:
    q = request.args.get("q", "").strip()
    only = request.args.get("only", "")
    try:
        groups = _everywhere(q, only) if q else []
    except Invalid as refused:
        return _page(q, [], only, Form({"q": q}, refused), 422)
    return _page(q, groups, only)


def _page(
    q: str, groups: list[Group], only: str, form: Form | None = None, status: int = 200
) -> Response:
    return render(
        "search/page.html",
        status,
        q=q,
        groups=groups,
        only=only,
        form=form or Form({"q": q}),
        lead_statuses=labels.statuses("lead"),
        deal_statuses=labels.statuses("deal"),
        task_statuses=labels.statuses("task"),
    )


def _everywhere(q: str, only: str) -> list[Group]:
    groups = (
        _find_matches(q, "leads", gettext("Leads"), LEAD, LEAD_FILTER, only),
        _find_matches(q, "clients", gettext("Clients"), CLIENT, CLIENT_FILTER, only),
        _find_matches(q, "deals", gettext("Deals"), DEAL, DEAL_FILTER, only),
        _find_matches(q, "products", gettext("Products"), PRODUCT, PRODUCT_FILTER, only),
        _find_matches(q, "tasks", gettext("Tasks"), TASK, TASK_FILTER, only),
    )
    return [group for group in groups if group and group.page.records]


def _find_matches(
    q: str, noun: str, name: str, shape: RecordView, filter: Filter, only: str
) -> Group | None:
    """Return the first matches of a noun; a whole page of them if `only` is this noun."""
    if only not in ("", noun):
        return None
    parameters = MultiDict({"q": q})
    if only:
        if "cursor" in request.args:
            parameters["cursor"] = request.args["cursor"]
    else:
        parameters["limit"] = str(MAX_MATCHES)
    page = pagination.page(shape, filter.read(parameters), filter.fields["sort"])
    words = folding.words(q)
    matches = [_match(noun, record, words) for record in page.records]
    return Group(noun, name, page, matches, LISTS[noun])


def _match(noun: str, record: dict[str, Any], words: Sequence[Word]) -> Match:
    name = record.get("title") or record.get("name") or ""
    texts = [record.get(field) for field in FACTS[noun]]
    facts = [_linked(text, words) for text in texts if text]
    if noun in ("deals", "products"):
        value = record["amount"] if noun == "deals" else record["price"]
        if value is not None:
            facts.append(Markup.escape(formatting.money(value, record["currency"])))
    if noun == "tasks" and record["due_at"]:
        facts.append(Markup.escape(formatting.moment(record["due_at"])))
    other_excerpts = []
    # Excerpts only where the name and facts do not show by themselves why the record matches.
    if not excerpts.has_all([name, *texts], words):
        other_excerpts = list(_other_excerpts(noun.removesuffix("s"), record, words))
    return Match(record, excerpts.marked(name, words), facts, other_excerpts)


def _other_excerpts(
    noun: str, record: dict[str, Any], words: Sequence[Word]
) -> Iterator[tuple[str, Markup]]:
    """What matched in texts that are not shown otherwise, with the names of their fields."""
    for field in ("comment", "category", "description"):
        if (part := excerpts.excerpt(record.get(field), words)) is not None:
            yield labels.field(noun, field), part
    for contact in record.get("contacts") or ():
        texts = [text for name in ("name", "phone", "email") if (text := contact[name])]
        if excerpts.excerpt(", ".join(texts), words) is not None:
            yield (
                labels.field("deal", "contact_id"),
                Markup(", ").join(_linked(text, words) for text in texts),
            )


def _linked(text: str, words: Sequence[Word]) -> Markup:
    """A phone or an e-mail address as a link, anything else as it is, with what matched marked."""
    if text.startswith("+") and text[1:].isdecimal():
        written = excerpts.marked_phone(text, formatting.phone(text), words)
        return Markup('<a href="tel:{}" class="text-nowrap">{}</a>').format(text, written)
    label = excerpts.marked(text, words)
    if "@" in text:
        return Markup('<a href="mailto:{}">{}</a>').format(quote(text), label)
    return label
