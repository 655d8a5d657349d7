"""Search over everything: leads, clients, deals, products and tasks in which all words are (D3).

What matched is marked, and excerpts show the parts of longer texts around it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any
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
from crm.papers import KINDS
from crm.records import pagination
from crm.records.search import Word
from crm.records.search import words as words_of
from crm.resources.clients.record import CLIENT
from crm.resources.files.record import NOUNS
from crm.resources.files.record import search as search_files
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.papers.record import PAPER
from crm.values import folding

ALL_STATUSES = "&".join(f"status={status}" for status in labels.CHOICES["task", "status"])
MAX_MATCHES = 10  # of each noun; its list has all
LETTERS_BEFORE, LETTERS_AFTER = 40, 100  # of an excerpt, around the beginning of the first match
EXCERPTED = [
    *("comment", "category", "description", "website", "address", "tax_number", "tags"),
    "external_id",
]
PAPER_NUMBER = re.compile(r"(?:.*\D)?([0-9]{1,9})/([0-9]{4})")
OF_NUMBER = f"kind IN {KINDS} AND year = ? AND sequence = ? ORDER BY id DESC"

# {noun: (label, path of the list that has all matches, which the query ends, searched fields that
# are shown beside the name)}
SEARCHED = {
    "leads": (N_("Leads"), "/leads?q=", ("company", "phone", "email")),
    "clients": (N_("Clients"), "/clients?q=", ("phone", "email")),
    "deals": (N_("Deals"), "/deals?view=list&q=", ("client_name",)),
    "products": (N_("Products"), "/products?q=", ("sku",)),
    "tasks": (N_("Tasks"), f"/tasks?assigned_to=all&{ALL_STATUSES}&q=", ()),
}

pages = Pages("search")


@pages.get("/search")
def search() -> Response:
    q = request.args.get("q", "").strip()
    groups, form, status = [], Form({"q": q}), 200
    try:
        if q:
            groups = [
                *(_find_matches(q, noun) for noun in SEARCHED),
                _find_papers(q),
                _find_files(q),
            ]
    except Invalid as refused:
        form, status = Form({"q": q}, refused), 422
    groups = [group for group in groups if group["matches"]]
    return render("search/page.html", status, q=q, groups=groups, form=form)


def _find_matches(q: str, noun: str) -> dict[str, Any]:
    """The first matches of a noun, for the template.

    A match is (record, its name, short facts, other texts that match).
    """
    label, path, _ = SEARCHED[noun]
    parameters = MultiDict({"q": q, "limit": str(MAX_MATCHES)})
    _, view, filter, _ = MAIN_RESOURCES[noun]
    if noun == "clients":
        view = CLIENT  # with its contacts, which the list does not have
    page = pagination.page(view, filter.read(parameters), filter.fields["sort"])
    words = words_of(q)
    matches = [(record, *_match(noun, record, words)) for record in page.records]
    return {"noun": noun, "name": gettext(label), "path": path, "page": page, "matches": matches}


def _find_papers(q: str) -> dict[str, Any]:
    """The papers of this number, of each kind, with any prefix."""
    number, matches = PAPER_NUMBER.fullmatch(q), list[Any]()
    for paper in PAPER.every(OF_NUMBER, int(number[2]), int(number[1])) if number else ():
        name = f"{labels.choice_label('paper', 'kind', paper['kind'])} № {paper['number']}"
        facts = [formatting.money(paper["amount"], paper["currency"]), paper["client_name"] or ""]
        matches.append((paper, name, facts, []))
    return {"noun": "papers", "name": gettext("Papers"), "path": "", "matches": matches}


def _find_files(q: str) -> dict[str, Any]:
    """The newest files with these words in their names, each with a link to its record."""
    link, words, matches = Markup('<a href="{}/{}/{}#files">{}</a>'), words_of(q), list[Any]()
    for file in search_files(q, MAX_MATCHES):
        noun, id = file["noun"], file["record_id"]
        name = labels.name_of(noun, str(id)) or f"№ {id}"
        record = link.format(request.root_path, NOUNS[noun], id, name)
        matches.append((file, marked(file["name"], words), [record], []))
    return {"noun": "files", "name": gettext("Files"), "path": "", "matches": matches}


def _match(noun: str, record: dict[str, Any], words: Sequence[Word]) -> tuple[Any, ...]:
    """The name of a match, short facts, and (label of the field, part that matches) of others."""
    name = record.get("title") or record.get("name") or ""
    texts = (record.get(field) for field in SEARCHED[noun][2])
    facts = [_linked(text, words) for text in texts if text]
    if noun in ("deals", "products"):
        value = record["amount"] if noun == "deals" else record["price"]
        if value is not None:
            facts.append(escape(formatting.money(value, record["currency"])))
    if noun == "tasks" and record["due_at"]:
        facts.append(escape(formatting.moment(record["due_at"])))
    return marked(name, words), facts, [*_excerpts(noun.removesuffix("s"), record, words)]


def _excerpts(
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


def _spans(text: str, words: Sequence[Word]) -> list[tuple[int, int]]:
    """(start, end) of the words in the text; none if its folded form is longer, as that of ß is."""
    folded = text.translate(folding.REPLACEMENTS).casefold()
    forms = sorted({form for word in words for form in word}, key=len, reverse=True)
    if not forms or len(folded) != len(text):
        return []
    return [match.span() for match in re.finditer("|".join(map(re.escape, forms)), folded)]
