"""vCards (.vcf): those of phones and mail programs as CSV, and records as cards.

Cards of 2.1, 3.0 and 4.0 are read. Those that are written are of 4.0, or of 3.0, because Apple's
Contacts and programs of Android do not read 4.0. Each contact of a client has a card of its own;
the UID of a card names the record, which an import finds by it.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from quopri import decodestring
from typing import IO, Any

from crm.json import dumps
from crm.records.custom.fields import PREFIX
from crm.spreadsheets.csv_columns import join_tags
from crm.spreadsheets.csv_format import write
from crm.spreadsheets.foreign.aliases import SEVERAL
from crm.spreadsheets.foreign.mapped_rows import further_contacts
from crm.spreadsheets.resource import SOURCE_TENANT, ImportableResource
from crm.values.content_lines import basic_time, escape_text, fold_lines

# What each property that is read is. Of two of a field the last is written.
FIELDS = {
    "UID": "uid",
    "FN": "name",
    "N": "name_parts",
    "TEL": "phone",
    "EMAIL": "email",
    "ORG": "company",
    "ROLE": "position",
    "TITLE": "position",
    "URL": "website",
    "ADR": "address",
    "NOTE": "comment",
    "BDAY": "birthday",
    "CATEGORIES": "tags",
    "KIND": "kind",
    "X-ADDRESSBOOKSERVER-KIND": "kind",
    "X-ABSHOWAS": "kind",
}
SEPARATORS = {"N": ";", "ORG": ";", "ADR": ";", "CATEGORIES": ","}  # not escaped
PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^:;"])*)*):(.*)', re.DOTALL)
PREFERENCE = re.compile(r'\bPREF\b(?:="?([0-9]{1,3}))?')  # before 4.0 without a number
NOT_PREFERRED = 101
GROUP_OF_GOOGLE = "myContacts"  # that all contacts are in
LINE_END, FOLD = re.compile(r"\r\n?"), re.compile(r"\n[ \t]")
ESCAPED, SCHEME = re.compile(r"\\([,;:nN])"), re.compile(r"(?:tel|mailto):", re.IGNORECASE)
CHARSET = re.compile(r"CHARSET=(windows-1251|koi8-[ur])\b", re.IGNORECASE)
OWN_UID = re.compile(r"(.{1,100})-(client|lead)-([0-9]{1,18})(?:-contact-([0-9]{1,18}))?")

OWN_PROPERTY = "X-CRM-"  # begins the property of a field of the tenant's own

Card = dict[str, list[str]]  # {field: its values, the preferred first}
Row = dict[str, str]


def cards_to_csv(text: str, resource: ImportableResource) -> bytes:
    """Cards as a file of a resource, with the columns that any of them has.

    What has no column goes into `extra`; pictures and the like are left out, and so are groups. The
    rows of a client follow each other wherever the cards of its contacts are.
    """
    by_record: dict[Any, list[Row]] = {}
    for place, card in enumerate(_read_cards(text)):
        uid = OWN_UID.fullmatch(card.pop("uid", [""])[0])
        if uid is None or uid[2] != resource.singular:
            by_record[place] = _rows(card, resource)
            continue
        rows = _rows(card, resource, "contact_" if uid[4] else "")
        if uid[4]:
            rows[0]["contact_id"] = uid[4]
        key = {"id": uid[3], SOURCE_TENANT: uid[1]}
        by_record.setdefault(uid.group(1, 3), []).extend(row | key for row in rows)
    rows = [row for rows in by_record.values() for row in rows]
    used = {name for row in rows for name in row}
    names = [name for name in dict.fromkeys(("name", *resource.column_names)) if name in used]
    return write(names, ([row.get(name) for name in names] for row in rows))


def _rows(card: Card, resource: ImportableResource, prefix: str = "") -> list[Row]:
    """The row of a card, then those of contacts, which further phones and e-mails become.

    `prefix` is that of a contact's columns, if the card is one's.
    """
    kinds, company = card.pop("kind", []), card.get("company", [])
    names = card.get("name", []) + card.pop("name_parts", [])
    card["name"] = card.get("name") or names[:1]
    if company and (not names or {"org", "COMPANY"}.intersection(kinds)):
        card["name"] = [company[0], *(name for name in names if name != company[0])]
        if resource.part == "contact":
            card |= {"type": ["company"], "company": company[1:]}
    card["name"] = card["name"] or card.get("email", card.get("phone", []))[:1]
    row, extra = Row(), Row()
    if "tags" in card:
        row[f"{prefix}tags"] = join_tags(card.pop("tags"))
    for field, texts in card.items():
        for number, text in enumerate(texts, 1):
            if number == 1 and prefix + field in (*resource.column_names, "name"):
                row[prefix + field] = text
            elif field not in SEVERAL:
                extra[field if number == 1 else f"{field} {number}"] = text
    person = row[f"{prefix}name"] if resource.part == "contact" else ""
    contacts = further_contacts(person, card, extra)
    if extra and not prefix:
        row["extra"] = dumps(extra).decode()
    return [row, *contacts]


def _read_cards(text: str) -> Iterator[Card]:
    """What is in each card, but for those that are groups of others."""
    card: dict[str, list[tuple[int, str]]] = {}
    for name, parameters, value in _properties(text):
        if name == "BEGIN":
            card = {}
        elif name == "END":
            if card and (NOT_PREFERRED, "group") not in card.get("kind", ()):
                yield {
                    field: [text for _, text in sorted(pairs, key=itemgetter(0))]
                    for field, pairs in card.items()
                }
            card = {}
        elif name in FIELDS or name.startswith(OWN_PROPERTY):
            match = PREFERENCE.search(parameters)
            rank = int(match[1] or 1) if match else NOT_PREFERRED
            for field, text in _texts(name, value):
                if text:
                    card.setdefault(field, []).append((rank, text))


def _properties(text: str) -> Iterator[tuple[str, str, str]]:
    """The name, the parameters in capitals, and the value of each property."""
    lines = iter(FOLD.sub("", LINE_END.sub("\n", text)).split("\n"))
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


def _texts(name: str, value: str) -> list[tuple[str, str]]:
    """The texts of a property, each with its field."""
    separator = SEPARATORS.get(name)
    value = value.replace("\\\\", "\0")  # which no file has
    parts = [
        ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], part)
        .replace("\0", "\\")
        .strip()
        for part in (re.split(rf"(?<!\\){separator}", value) if separator else [value])
    ]
    key = name.removeprefix(OWN_PROPERTY).lower().replace("-", "_")
    field = FIELDS.get(name) or PREFIX + key
    if name == "CATEGORIES":
        return [(field, part) for part in parts if part != GROUP_OF_GOOGLE]
    if name == "ORG":
        return [(field, parts[0]), ("department", ", ".join(filter(None, parts[1:])))]
    if name == "N":
        parts = [" ".join(filter(None, (*parts[1:3], parts[0])))]  # the last name stands first
    return [(field, SCHEME.sub("", ", ".join(filter(None, parts)), count=1))]


# Cards of records

PROPERTIES = {field: property for property, field in FIELDS.items()}
PROPERTIES |= {"phone": "TEL;TYPE=CELL", "email": "EMAIL;TYPE=INTERNET", "updated_at": "REV"}
PROPERTIES["kind"] = "X-ABShowAs"  # as Apple writes it
PROPERTIES_OF_4 = {"uid": "UID;VALUE=text", "kind": "KIND", "email": "EMAIL;PREF=1"}
PROPERTIES_OF_4 |= {"phone": "TEL;PREF=1;TYPE=cell"}
VERSIONS = {"4.0": PROPERTIES | PROPERTIES_OF_4, "3.0": PROPERTIES}


def write_cards(
    to: IO[bytes],
    noun: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    version: str,
) -> None:
    """Write the rows of an export of clients or leads as cards, with `updated_at` in its columns.

    The first contact is in the card of the client if it is a second phone and e-mail of its own.
    version: one of VERSIONS.
    """
    dicts = ({n: cell for n, cell in zip(columns, cells, strict=True) if cell} for cells in rows)
    by_record = groupby(dicts, lambda row: f"{row[SOURCE_TENANT]}-{noun}-{row['id']}")
    for uid, (owner, *others) in by_record:
        lines = _card(owner | {"uid": uid}, version)
        contacts = [
            {n.removeprefix("contact_"): row[n] for n in row if n.startswith("contact_")}
            for row in (owner, *others)
        ]
        first, same = contacts[0], {"id", "name", "is_primary", *(owner.keys() & SEVERAL.keys())}
        if first.get("name") == owner["name"] and first.keys() <= same:
            further = {n: VERSIONS[version][n].replace("PREF=1", "PREF=2") for n in SEVERAL}
            lines[-1:-1] = [f"{further[n]}:{first[n]}" for n in SEVERAL if n in first]
            del contacts[0]
        of_owner = {"company": owner["name"], "updated_at": owner["updated_at"]}
        for contact in filter(None, contacts):
            lines += _card(contact | of_owner | {"uid": f"{uid}-contact-{contact['id']}"}, version)
        to.write(fold_lines(lines))


def _card(row: Row, version: str) -> list[str]:
    text = {n: row[n] if n == "website" else escape_text(row[n]) for n in row}
    # Programs show N, and nobody knows which part of the name is that of the family.
    text["name_parts"] = f";{text['name']};;;"
    if row.get("type") == "company":
        text |= {"name_parts": ";;;;", "company": text["name"]}
        text["kind"] = "COMPANY" if version == "3.0" else "org"
    if "address" in text:
        text["address"] = f";;{text['address']};;;;"
    if "tags" in row:
        text["tags"] = ",".join(map(escape_text, next(csv.reader([row["tags"]]))))
    if version == "4.0":  # which has basic times alone
        text["updated_at"] = basic_time(text["updated_at"])
    own = {n: OWN_PROPERTY + n[len(PREFIX) :].upper() for n in row if n.startswith(PREFIX)}
    properties = VERSIONS[version] | {n: name.replace("_", "-") for n, name in own.items()}
    lines = [f"{properties[n]}:{value}" for n, value in text.items() if n in properties]
    return ["BEGIN:VCARD", f"VERSION:{version}", *lines, "END:VCARD"]
