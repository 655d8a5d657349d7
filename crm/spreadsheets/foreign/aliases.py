"""What programs call our fields and choices, in three languages: the table aliases.json."""

import re
import unicodedata
from functools import lru_cache
from itertools import chain

from crm.records.custom.fields import PREFIX
from crm.spreadsheets.csv_columns import FileColumn
from crm.spreadsheets.labels import APOSTROPHES, MAX_CHARACTERS, table
from crm.spreadsheets.resource import MAX_TENANTS, SOURCE_TENANT, ImportableResource
from crm.values import email, phone

NAME_PARTS = ("first_name", "middle_name", "last_name")
# Fields that only a mapping knows: {plural: {name: the column of ours that its cells go into}}.
COMBINED = {
    "leads": dict.fromkeys(NAME_PARTS, "name"),
    "clients": {**dict.fromkeys(NAME_PARTS, "name"), "company": "name"},
    "deals": dict.fromkeys(NAME_PARTS, "client")
    | dict.fromkeys(("won_at", "lost_at"), "closed_at"),
    "products": {"handle": "sku", "currency": "price"},
}
# Fields of which a cell may have several values, and a file several columns.
SEVERAL = {"phone": phone, "email": email}
OF_CLIENT = "client_"  # before them in a file of deals
# Parts of the table that a resource shares with others.
SHARED: dict[str, tuple[str, ...]] = {
    "leads": ("common", "person"),
    "clients": ("common", "person"),
}
SHARED |= {"deals": ("common",), "tasks": ("common",)}
# No id of another program is one of ours; external_id takes it.
NEVER_GUESSED = ("id", SOURCE_TENANT, "manager")

SUBJECT = re.compile(
    r"(?:person|deal|organi[sz]ation|lead|contact|product|контакт|угода|лід|сделка|лид|компан[иі]я"
    r"|покупець|товар) [-–:] "
)
PUNCTUATION = re.compile(r"[^\w'№$€₴%]+|_")


def normalise(header: str, with_subject: bool = False) -> str:
    """A header as the table has it: `Person - E-mail:` is `e mail`, or `person e mail`."""
    text = unicodedata.normalize("NFKC", header[:MAX_CHARACTERS]).translate(APOSTROPHES)
    text = text.casefold().strip(" *:")
    text = text if with_subject else SUBJECT.sub("", text)
    return " ".join(PUNCTUATION.sub(" ", text).split())


def fields_of(resource: ImportableResource) -> dict[str, FileColumn | None]:
    """What a column of a file may be mapped to; None: a field that only a mapping knows."""
    resource = resource.of_tenant()
    combined: dict[str, FileColumn | None] = dict.fromkeys(COMBINED.get(resource.plural, ()))
    return combined | {column.name: column for column in resource.all_columns}


def aliases_of(resource: ImportableResource) -> dict[str, list[str]]:
    """{field: headers that mean it}, normalised, the best first."""
    return _aliases(resource.of_tenant())


@lru_cache(maxsize=5 * MAX_TENANTS)
def _aliases(resource: ImportableResource) -> dict[str, list[str]]:
    groups = [table().get(name, {}) for name in (resource.plural, *SHARED.get(resource.plural, ()))]
    aliases = {}
    for name, column in fields_of(resource).items():
        texts = [text for group in groups for text in group.get(name, "").split(",")]
        if name.startswith(OF_CLIENT):
            texts += table()["person"].get(name.removeprefix(OF_CLIENT), "").split(",")
        if name not in NEVER_GUESSED:
            texts += [name, *(column.aliases if column else ())]
        aliases[name] = list(filter(None, dict.fromkeys(map(normalise, texts))))
    for column in resource.custom_columns:
        known, texts = {*chain(*aliases.values())}, [column.label, column.name]
        key = normalise(column.name.removeprefix(PREFIX))
        aliases[column.name] = [*map(normalise, texts), *{key} - known]
    return aliases
