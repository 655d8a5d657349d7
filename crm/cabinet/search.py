"""Search over everything: leads, clients, deals, products and tasks in which all words are (D3).

What matched is marked, and excerpts show the parts of longer texts around it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from flask import request
from markupsafe import Markup, escape
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.rendering import Pages, render
from crm.errors import Invalid
from crm.records import pagination
from crm.records.pagination import Page
from crm.records.search import Word
from crm.records.search import words as words_of
from crm.resources.clients.record import CLIENT
from crm.resources.main_resources import MAIN_RESOURCES
from crm.values import folding

MAX_MATCHES = 10  # of each noun; its list has all
LETTERS_BEFORE, LETTERS_AFTER = 40, 100  # of an excerpt, around the beginning of the first match
EXCERPTED = [
    *("comment", "category", "description", "website", "address", "tax_number", "tags"),
    "external_id",
]

Span = tuple[int, int]  # from a place of a text until before another


class Searched(NamedTuple):
    """Records that are searched: the path of the list that has all matches, which the query ends,
    and the searched fields that are shown beside the name."""

    label: str
    path: str
    facts: Sequence[str]


SEARCHED = {
    "leads": Searched(N_("Leads"), "/leads?q=", ("company", "phone", "email")),
    "clients": Searched(N_("Clients"), "/clients?q=", ("phone", "email")),
    "deals": Searched(N_("Deals"), "/deals?view=list&q=", ("client_name",)),
    "products": Searched(N_("Products"), "/products?q=", ("sku",)),
    # The page of tasks has no list of all matches.
    "tasks": Searched(N_("Tasks"), "/search?only=tasks&q=", ()),
}
VIEWS = {"clients": CLIENT}  # with its contacts, which the list does not have

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
    groups, form, status = [], Form({"q": q}), 200
    try:
        if q:
            groups = [_find_matches(q, noun, only) for noun in SEARCHED if only in ("", noun)]
    except Invalid as refused:
        form, status = Form({"q": q}, refused), 422
    groups = [group for group in groups if group.page.records]
    return render("search/page.html", status, q=q, groups=groups, only=only, form=form)


def _find_matches(q: str, noun: str, only: str) -> Group:
    """Return the first matches of a noun; a whole page of them if `only` is this noun."""
    searched = SEARCHED[noun]
    parameters = MultiDict({"q": q})
    if not only:
        parameters["limit"] = str(MAX_MATCHES)
    elif "cursor" in request.args:
        parameters["cursor"] = request.args["cursor"]
    _, view, filter, _ = MAIN_RESOURCES[noun]
    view = VIEWS.get(noun, view)
    page = pagination.page(view, filter.read(parameters), filter.fields["sort"])
    words = words_of(q)
    matches = [_match(noun, record, words) for record in page.records]
    return Group(noun, gettext(searched.label), page, matches, searched.path)


def _match(noun: str, record: dict[str, Any], words: Sequence[Word]) -> Match:
    name = record.get("title") or record.get("name") or ""
    texts = [record.get(field) for field in SEARCHED[noun].facts]
    facts = [_linked(text, words) for text in texts if text]
    if noun in ("deals", "products"):
        value = record["amount"] if noun == "deals" else record["price"]
        if value is not None:
            facts.append(escape(formatting.money(value, record["currency"])))
    if noun == "tasks" and record["due_at"]:
        facts.append(escape(formatting.moment(record["due_at"])))
    other_excerpts = []
    # Excerpts only where the name and facts do not show by themselves why the record matches.
    if not has_all([name, *texts], words):
        other_excerpts = list(_other_excerpts(noun.removesuffix("s"), record, words))
    return Match(record, marked(name, words), facts, other_excerpts)


def _other_excerpts(
    noun: str, record: dict[str, Any], words: Sequence[Word]
) -> Iterator[tuple[str, Markup]]:
    """What matched in texts that are not shown otherwise, with the names of their fields."""
    for field in EXCERPTED:
        value = record.get(field)
        text = ", ".join(value) if isinstance(value, list) else value
        if (part := excerpt(text, words)) is not None:
            yield labels.field(noun, field), part
    for contact in record.get("contacts") or ():
        texts = [text for name in ("name", "phone", "email") if (text := contact[name])]
        if excerpt(", ".join(texts), words) is not None:
            linked = Markup(", ").join(_linked(text, words) for text in texts)
            yield labels.field("deal", "contact_id"), linked


def _linked(text: str, words: Sequence[Word]) -> Markup:
    """A phone or an e-mail address as a link, anything else as it is, with what matched marked."""
    if text.startswith("+") and text[1:].isdecimal():
        written = marked_phone(text, formatting.phone(text), words)
        return Markup('<a href="tel:{}" class="phone-link">{}</a>').format(text, written)
    label = marked(text, words)
    if "@" in text:
        return Markup('<a href="mailto:{}">{}</a>').format(quote(text), label)
    return label


def marked(text: str | None, words: Sequence[Word]) -> Markup:
    """The text with all matches of the words marked."""
    text = text or ""
    return _marked(text, _spans(text, words))


def marked_phone(number: str, written: str, words: Sequence[Word]) -> Markup:
    """A phone as people write it, with what matched of its E.164 form `number` marked.

    The digits of both agree from their ends: `067…` has a part of `+38067…` alone.
    """
    places = [at for at, character in enumerate(written) if character in "+0123456789"]
    missing = len(number) - len(places)
    inside = [(max(start - missing, 0), end - missing) for start, end in _spans(number, words)]
    return _marked(written, [(places[s], places[e - 1] + 1) for s, e in inside if s < e])


def excerpt(text: str | None, words: Sequence[Word]) -> Markup | None:
    """The part of a text around the first match, with all matches in it marked; None if none is."""
    text = " ".join((text or "").split())
    spans = _spans(text, words)
    if not spans:
        return None
    first, first_end = spans[0]
    begins = max(0, first - LETTERS_BEFORE)
    ends = min(len(text), max(first + LETTERS_AFTER, first_end))
    # Cut at the ends of words if there is a space in reach.
    if begins:
        begins = text.find(" ", begins, first) + 1 or begins
    if ends < len(text) and (space := text.rfind(" ", first_end, ends)) > 0:
        ends = space
    inside = [(max(start, begins), min(end, ends)) for start, end in spans]
    shifted = [(start - begins, end - begins) for start, end in inside if start < end]
    part = _marked(text[begins:ends].rstrip(), shifted)
    return Markup("{}{}{}").format("…" if begins else "", part, "…" if ends < len(text) else "")


def has_all(texts: Sequence[str | None], words: Sequence[Word]) -> bool:
    """Whether every word is in one of the texts."""
    folded = folding.fold(*texts)
    return all(any(form in folded for form in word) for word in words)


def _spans(text: str, words: Sequence[Word]) -> list[Span]:
    """Where the words are, in order; what overlaps is one."""
    # The search compares folded texts, whose letters are at other places than in the original.
    folded, places = folding.fold_letters(text)
    matches = []
    for form in {form for word in words for form in word}:
        at = folded.find(form)
        while at >= 0:
            matches.append((places[at], places[at + len(form) - 1] + 1))
            at = folded.find(form, at + len(form))
    joined: list[Span] = []
    for start, end in sorted(matches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _marked(text: str, spans: Sequence[Span]) -> Markup:
    parts, at = [], 0
    for start, end in spans:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
