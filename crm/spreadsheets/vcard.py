"""vCards (.vcf 2.1, 3.0 and 4.0), as phones and mail programs write them, as CSV."""

import re
from collections.abc import Iterator
from quopri import decodestring

from crm.spreadsheets import csv_format

NAMES = ("FN", "TEL", "EMAIL", "ORG", "TITLE", "NOTE", "ADR", "URL")
HEADERS = ("name", "phone", "email", "company", "position", "comment", "address", "website")
PREFERRED = "PREF"  # before the name, of values that stand before the others
PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^:;"])*)*):(.*)', re.DOTALL)
FOLD, PART, ESCAPED = re.compile(r"\r?\n[ \t]"), re.compile(r"(?<!\\);"), re.compile(r"\\([\\,;:])")
LINE_BREAK, SCHEME = re.compile(r"(?<!\\)\\[nN]"), re.compile(r"(?:tel|mailto):", re.IGNORECASE)
CHARSET = re.compile(r"CHARSET=(windows-1251|koi8-[ur])\b", re.IGNORECASE)


def to_csv(text: str) -> bytes:
    """A row for each card, with the columns that any of them has.

    Several phones, and such, stand in one cell with commas between, the preferred one first.
    """
    rows = [
        [", ".join(card.get(PREFERRED + name, []) + card.get(name, [])) for name in NAMES]
        for card in _cards(text)
    ]
    used = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(cells) or not place]
    return csv_format.write([HEADERS[n] for n in used], ([row[n] for n in used] for row in rows))


def _cards(text: str) -> Iterator[dict[str, list[str]]]:
    """{property: its values} of each card."""
    card: dict[str, list[str]] = {}
    for name, parameters, value in _properties(text):
        lines = LINE_BREAK.sub("\n", value)
        parts = [ESCAPED.sub(r"\1", part).strip() for part in PART.split(lines)]
        if name == "BEGIN":
            card = {}
        elif name == "END" and card:
            if card.keys().isdisjoint(["FN", PREFERRED + "FN"]):
                card["FN"] = [" ".join(filter(None, card.get("N", ())))]
            yield card
            card = {}
        elif name == "N":
            card["N"] = [*parts[1:3], parts[0]]  # the last name stands first
        elif name in NAMES and any(parts):
            joined = SCHEME.sub("", ", ".join(filter(None, parts)), count=1)
            name = PREFERRED + name if PREFERRED in parameters else name
            card.setdefault(name, []).append(joined)


def _properties(text: str) -> Iterator[tuple[str, str, str]]:
    """The name, the parameters in capitals, and the value of each property."""
    lines = iter(FOLD.sub("", text).splitlines())
    for line in lines:
        if match := PROPERTY.fullmatch(line):
            name, parameters, value = match.groups()
            if "QUOTED-PRINTABLE" in parameters.upper():
                parts = [value]
                while parts[-1].endswith("="):
                    parts.append(next(lines, ""))
                value = "".join(part.removesuffix("=") for part in parts)
                charset = (CHARSET.search(parameters) or ("", "utf-8"))[1]
                value = decodestring(value.encode()).decode(charset, "replace")
            yield name.upper(), parameters.upper(), value
