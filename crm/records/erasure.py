"""Erasing what is stored of a person: each owner of a table registers what it erases there."""

import re
from collections.abc import Callable, Iterable

from crm.json import dumps
from crm.storage.dialect import among
from crm.storage.session import execute

MIN_TEXT_CHARACTERS = 3  # of a text that is looked for in others
PHONE_DIGITS = 9  # the last ones of a phone number, in whatever form it was written
OF_RECORDS = f"noun = ? AND {among('record_id')}"  # parameters: as Person.parameters has them


class Person:
    """Whom to erase: ids of records by noun, and the texts by which other rows name the person."""

    def __init__(self, ids: dict[str, list[int]], texts: Iterable[str]):
        self.parameters = [(noun, dumps(ids[noun]).decode()) for noun in ids]
        folded = {_fold(text) for text in texts}
        self._texts = {text for text in folded if len(text) >= MIN_TEXT_CHARACTERS}
        self._phones = {
            re.sub(r"\D", "", text)[-PHONE_DIGITS:] for text in folded if text.startswith("+380")
        }

    def is_named_in(self, text: str | bytes | None) -> bool:
        """Whether a text, such as a file or JSON, has any of the person's values."""
        folded = _fold(
            text if isinstance(text, str) else bytes(text or b"").decode("utf-8", "replace")
        )
        digits = re.sub(r"\D", "", folded)
        return any(known in folded for known in self._texts) or any(
            phone in digits for phone in self._phones
        )


def _fold(text: str) -> str:
    """A text without its case and without the quotes that CSV and JSON write in their own ways."""
    return re.sub(r'["\\]', "", text).casefold()


Eraser = Callable[[Person], int]
erasers: dict[str, Eraser] = {}  # by what they erase; they return how many rows


def erase_everywhere(person: Person) -> dict[str, int]:
    """Erase notes, audit entries and what owners of tables have registered: {what: how many}."""
    counts = {what: eraser(person) for what, eraser in erasers.items()}
    for what, table in (("notes", "note"), ("changes", "audit_entry")):
        sql = f"DELETE FROM {table} WHERE {OF_RECORDS}"
        counts[what] = sum(execute(sql, of_noun).rowcount for of_noun in person.parameters)
    return counts
