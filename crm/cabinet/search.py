"""Search over everything: leads, clients, deals, products and tasks in which all words are (D3).

What matched is marked, and excerpts show the parts of longer texts around it.
"""

import re
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

pages = Pages("search")


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
    groups = [group for group in groups if group["matches"]]
    return render("search/page.html", status, q=q, groups=groups, only=only, form=form)


def _find_matches(q: str, noun: str, only: str) -> dict[str, Any]:
    """The first matches of a noun, for the template; a whole page of them if `only` is this noun.

    A match is (record, its name, short facts, other texts that match).
    """
    searched = SEARCHED[noun]
    parameters = MultiDict({"q": q})
    if not only:
        parameters["limit"] = str(MAX_MATCHES)
    elif "cursor" in request.args:
        parameters["cursor"] = request.args["cursor"]
    _, view, filter, _ = MAIN_RESOURCES[noun]
    if noun == "clients":
        view = CLIENT  # with its contacts, which the list does not have
    page = pagination.page(view, filter.read(parameters), filter.fields["sort"])
    words = words_of(q)
    matches = [(record, *_match(noun, record, words)) for record in page.records]
    name, path = gettext(searched.label), searched.path
    return {"noun": noun, "name": name, "page": page, "matches": matches, "path": path}


def _match(noun: str, record: dict[str, Any], words: Sequence[Word]) -> tuple[Any, ...]:
    """The name of a match, short facts, and (label of the field, part that matches) of others."""
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
    return marked(name, words), facts, other_excerpts


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
        written = marked(formatting.phone(text), words)
        return Markup('<a href="tel:{}" class="phone-link">{}</a>').format(text, written)
    label = marked(text, words)
    if "@" in text:
        return Markup('<a href="mailto:{}">{}</a>').format(quote(text), label)
    return label


def marked(text: str | None, words: Sequence[Word]) -> Markup:
    """The text with the matches of the words marked."""
    text, parts, at = text or "", [], 0
    for start, end in _spans(text, words):
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def excerpt(text: str | None, words: Sequence[Word]) -> Markup | None:
    """The part of a text around the first match, with all matches in it marked; None if none is."""
    text = " ".join((text or "").split())
    spans = _spans(text, words)
    if not spans:
        return None
    first, first_end = spans[0]
    begins, ends = max(0, first - LETTERS_BEFORE), max(first + LETTERS_AFTER, first_end)
    part = marked(text[begins:ends], words)
    return Markup("{}{}{}").format("…" if begins else "", part, "…" if ends < len(text) else "")


def has_all(texts: Sequence[str | None], words: Sequence[Word]) -> bool:
    """Whether every word is in one of the texts."""
    folded = folding.fold(*texts)
    return all(any(form in folded for form in word) for word in words)


def _spans(text: str, words: Sequence[Word]) -> list[tuple[int, int]]:
    """(start, end) of the words in the text; none if its folded form is longer, as that of ß is."""
    folded = text.translate(folding.REPLACEMENTS).casefold()
    forms = sorted({form for word in words for form in word}, key=len, reverse=True)
    if not forms or len(folded) != len(text):
        return []
    return [match.span() for match in re.finditer("|".join(map(re.escape, forms)), folded)]
