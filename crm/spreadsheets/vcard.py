"""vCards (.vcf 2.1, 3.0 and 4.0), as phones and mail programs write them, as CSV."""

import re
from collections.abc import Iterator
from quopri import decodestring

from crm.spreadsheets import csv_format

NAMES = ("FN", "TEL", "EMAIL", "ORG", "TITLE", "NOTE", "ADR", "URL")
HEADERS = ("name", "phone", "email", "company", "position", "comment", "address", "website")
COLUMNS = dict(zip(NAMES, HEADERS, strict=True))
PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^:;"])*)*):(.*)', re.DOTALL)
FOLD, PART, ESCAPED = re.compile(r"\r?\n[ \t]"), re.compile(r"(?<!\\);"), re.compile(r"\\([\\,;:])")
LINE_BREAK, SCHEME = re.compile(r"(?<!\\)\\[nN]"), re.compile(r"(?:tel|mailto):", re.IGNORECASE)
CHARSET = re.compile(r"CHARSET=(windows-1251|koi8-[ur])\b", re.IGNORECASE)


def to_csv(text: str) -> bytes:
    """A row for each card, with the columns that any of them has.

    Several phones, and such, stand in one cell with commas between, the preferred one first.
    """
    cards = list(_cards(text))
    names = [name for name in COLUMNS if any(name in card for card in cards)]
    rows = [[", ".join(card.get(name, ())) for name in names] for card in cards]
    return csv_format.write([COLUMNS[name] for name in names], rows)


def _cards(text: str) -> Iterator[dict[str, list[str]]]:
    """{property: its values} of each card."""
    card: dict[str, list[str]] = {}
    for name, parameters, value in _properties(text):
        lines = LINE_BREAK.sub("\n", value)
        parts = [ESCAPED.sub(r"\1", part).strip() for part in PART.split(lines)]
        if name == "BEGIN":
            card = {}
        elif name == "END" and card:
            card.setdefault("FN", [" ".join(filter(None, card.get("N", ())))])
            yield card
        elif name == "N":
            card["N"] = [*parts[1:3], parts[0]]  # the last name stands first
        elif name in COLUMNS and any(parts):
            joined = SCHEME.sub("", ", ".join(filter(None, parts)), count=1)
            values = card.setdefault(name, [])
            values.insert(0 if "PREF" in parameters else len(values), joined)


def _properties(text: str) -> Iterator[tuple[str, str, str]]:
    """The name, the parameters in capitals, and the value of each property."""
    lines = iter(FOLD.sub("", text).splitlines())
    for line in lines:
        if match := PROPERTY.fullmatch(line):
            name, parameters, value = match.groups()
            if "QUOTED-PRINTABLE" in parameters.upper():
                while value.endswith("="):
                    value = value[:-1] + next(lines, "")
                charset = (CHARSET.search(parameters) or ("", "utf-8"))[1]
                value = decodestring(value.encode()).decode(charset, "replace")
            yield name.upper(), parameters.upper(), value
