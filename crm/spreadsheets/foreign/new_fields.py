"""Fields that an import adds, for columns of a file that no field is.

A mapping has {"new_field": definition} for such a column; what the definition lacks is made from
the header and the cells. A field of that key that exists is taken as it is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crm.errors import Invalid
from crm.records import fields
from crm.records.custom.fields import PREFIX, CustomField
from crm.records.custom.types import TYPES, Text
from crm.spreadsheets.csv_columns import BadCell, custom_columns, split_tags
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.labels import word_key
from crm.spreadsheets.marked_cells import shown
from crm.spreadsheets.resource import ImportableResource

NEW = "new_field"
MAX_CHOICES, MAX_CHOICE_CHARACTERS = 12, 60
MONEY = re.compile("цін|варт|сум|бюджет|цен|стоим|грн|price|cost|amount|budget|uah|usd|eur|[$€₴]")
NO_NUMBER = re.compile(
    r"[+0]\d(?![./-]\d\d?[./-]\d{4}\Z)|.*:\d"
)  # a phone, an article, a time: neither it nor a date


class Definitions:
    """What the fields themselves have set: how a definition is read, and a field added."""

    read: Callable[[dict[str, Any]], dict[str, Any]]
    add: Callable[[dict[str, Any]], int]


def guess_type(name: str, cells: Sequence[str]) -> str:
    """The type of a field that fits a column of this name, by all its cells with content."""
    texts = {*cells}
    is_long = any("\n" in text or len(text) > Text.max_length for text in texts)
    guesses = ["money" if MONEY.search(name.lower()) else "number", "number", "date"]
    guesses = [*(guesses if not any(map(NO_NUMBER.match, texts)) else ()), "flag", "url"]
    for type in guesses if texts else ():
        (column,) = custom_columns([_draft({"type": type})], ())
        if not any(isinstance(value, BadCell) for value in column.read_cells([*texts])):
            return type
    is_short = max(map(len, texts), default=0) <= MAX_CHOICE_CHARACTERS
    options = {*map(word_key, texts)}
    if 2 <= len(options) <= min(MAX_CHOICES, len(cells) // 2) and is_short and not is_long:
        return "choice"
    return "long_text" if is_long else "text"


def cells_of(table: Sheet, column: str) -> list[str]:
    """The cells of a column that have content, as texts."""
    if column not in table.columns:
        return []
    at = table.columns.index(column)
    return [cell for _, cells in table.rows if (cell := shown(cells[at]).strip())]


def with_new_fields(
    resource: ImportableResource, table: Sheet, mapping: Mapping[str, Any]
) -> tuple[ImportableResource, dict[str, Any]]:
    """The resource with the fields that a mapping adds, and the mapping with their names.

    Raises Invalid. They are added by add_new_fields().
    """
    names, new_fields = dict(mapping), dict[str, dict[str, Any]]()
    known = [column.custom for column in resource.custom_columns if column.custom]
    for column, field in mapping.items():
        if not isinstance(field, dict):
            continue
        with Invalid.under(f"mapping/{column}"):
            definition = _define(resource, column, field.get(NEW), cells_of(table, column))
        names[column] = PREFIX + definition["key"]
        if all(names[column] != one.name for one in known):
            new_fields[definition["key"]] = definition
    if new_fields:
        resource = type(resource)([*known, *map(_draft, new_fields.values())])
        resource.new_fields = new_fields
    return resource, names


def add_new_fields(resource: ImportableResource) -> None:
    """Add the new fields of an import, inside its transaction; those that exist stay."""
    for definition in resource.new_fields.values():
        Definitions.add(definition)


def _define(
    resource: ImportableResource, column: str, sent: Any, cells: list[str]
) -> dict[str, Any]:
    if not isinstance(sent, dict):
        raise Invalid.field("", "invalid_type", 'must be {"new_field": {…}}')
    definition = {"label": column.removeprefix(PREFIX), "type": guess_type(column, cells), **sent}
    kind = TYPES.get(str(definition["type"]))
    if kind and kind.has_options and "options" not in sent:
        is_list = issubclass(kind, fields.Tags)
        texts = [text for cell in cells for text in (split_tags(cell) if is_list else [cell])]
        by_word = {word_key(text): text for text in texts}
        definition["options"] = [{"label": text.strip()} for text in by_word.values()]
    return Definitions.read({**definition, "resource": resource.plural})


def _draft(definition: dict[str, Any]) -> CustomField:
    names = ("id", "resource", "key", "label", "help", "type", "options")
    return CustomField([*(definition.get(name, "") for name in names), *[0] * 9])
