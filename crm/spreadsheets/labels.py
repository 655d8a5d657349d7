"""What people call the columns and choices of files, in each language of the workspace.

The workspace registers its translations and its labels of choices here, as it is imported.
"""

from collections.abc import Callable, Mapping
from functools import cache

LANGUAGES = ("uk", "en")
PARTS = ("client", "contact", "deal", "item", "lead")  # of names such as client_id
# Of columns without a label of their own, where the name does not make one.
LABELS = {"id": "ID", "sku": "SKU", "assigned_to": "Responsible"}
LABELS |= {"is_primary": "Main contact", "created_at": "Created", "completed_at": "Completed on"}
# Of columns whose label is another one's in some language, or says too little in a file.
IN_FILES = {"amount_mode": "Kind of amount", "external_id": "Number in the former system"}


class Registered:
    """What the workspace has registered: {(noun, field): {value: label}} are the choices."""

    gettext: Callable[[str, str], str]  # (text, language)
    choices: Mapping[tuple[str, str], Mapping[str, str]]


def text(text: str, language: str) -> str:
    """A text of the workspace in a language."""
    return Registered.gettext(text, language)


def header(name: str, label: str, language: str) -> str:
    """The header of the column of this name, whose declaration has this label."""
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
    """The value of a choice by its label in any language, or by itself."""
    text = cell.strip().lower()
    return _choice_values(noun, name).get(text, text)


@cache
def _choice_values(noun: str, name: str) -> dict[str, str]:
    values = Registered.choices.get((noun, name), {})
    return {
        choice(noun, name, value, language).lower(): value
        for language in LANGUAGES
        for value in values
    }
