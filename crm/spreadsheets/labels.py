"""What people call the columns and choices of files.

The workspace registers its translations and its labels of choices here, as it is imported. What
other programs call them stands in the table foreign/aliases.json.
"""

import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from crm.json import loads
from crm.records.custom.fields import PREFIX

LANGUAGES = ("uk", "en")
PARTS = ("client", "contact", "deal", "item", "lead")  # of names such as client_id
# Of columns without a label of their own, where the name does not make one.
LABELS = {"id": "ID", "sku": "SKU", "assigned_to": "Responsible"}
LABELS |= {"is_primary": "Main contact", "created_at": "Created", "completed_at": "Completed on"}
# Of columns whose label is another one's in some language, or says too little in a file.
IN_FILES = {"amount_mode": "Kind of amount", "external_id": "Number in the former system"}

APOSTROPHES = dict.fromkeys(map(ord, "’ʼ`´‘"), "'")
# Of a header or a cell: none in the table is as long, and NFKC sorts accents in quadratic time.
MAX_CHARACTERS = 200


class Registered:
    """What the workspace has registered: {(noun, field): {value: label}} are the choices."""

    gettext: Callable[[str, str], str]  # (text, language)
    choices: Mapping[tuple[str, str], Mapping[str, str]]


def text(text: str, language: str) -> str:
    """A text of the workspace in a language."""
    return Registered.gettext(text, language)


def header(name: str, label: str, language: str) -> str:
    """The header of the column of this name, whose declaration has this label."""
    if name.startswith(PREFIX):  # which the tenant has named
        return label or name
    noun, _, rest = name.partition("_")
    if noun in PARTS and rest:
        return f"{text(noun.capitalize(), language)}: {header(rest, label, language)}"
    if name.startswith("utm_"):
        return name
    own = name.replace("_", " ").capitalize()
    return text(IN_FILES.get(name) or label or LABELS.get(name) or own, language)


def choice(noun: str, name: str, value: str, language: str) -> str:
    """What a value of a choice is called."""
    return text(Registered.choices.get((noun, name), {}).get(value, value), language)


def choice_value(noun: str, name: str, cell: str) -> str:
    """The value of a choice by what people or programs call it, or by itself."""
    return _choice_values(noun, name).get(word_key(cell), cell.lower())


@cache
def _choice_values(noun: str, name: str) -> dict[str, str]:
    values = Registered.choices.get((noun, name), {})
    labels = {
        word_key(choice(noun, name, value, language)): value
        for language in LANGUAGES
        for value in values
    }
    return words(f"{noun}.{name}") | labels | {word_key(value): value for value in values}


def word_key(cell: str) -> str:
    """A cell as the table has choices: `OPEN_DEAL` is `open deal`."""
    text = unicodedata.normalize("NFKC", cell[:MAX_CHARACTERS]).translate(APOSTROPHES).casefold()
    return " ".join(text.replace("_", " ").replace(".", " ").split())


@cache
def table() -> dict[str, dict[str, Any]]:
    """What programs call our fields and choices, in three languages."""
    return loads(resources.files(__package__).joinpath("foreign/aliases.json").read_bytes())


@cache
def words(name: str) -> dict[str, str]:
    """{word: its value} of a choice such as `lead.status`, of `boolean`, or of `currency`."""
    values = table()["words"].get(name, {})
    return {word_key(text): value for value, texts in values.items() for text in texts.split(",")}
