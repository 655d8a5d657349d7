"""Erasing what is stored of a person: each owner of a table registers what it erases there."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from crm.json import dumps, loads
from crm.storage.dialect import among
from crm.storage.session import execute, execute_many, rows

MIN_TEXT_CHARACTERS = 3  # of a text that is looked for in others
PHONE_DIGITS = 9  # the last ones of a phone number, in whatever form it was written
REDACTED = "[erased]"
# Fields in which people write about others; the name of a deal's item is one, too.
FREE_TEXTS = frozenset(
    ["comment", "description", "extra", "lost_reason", "result", "text", "title"]
)
JSON_TEXTS = ("contacts", "extra")  # what audit entries and rows have as JSON in a text
SEPARATORS = r"[\s().-]*"  # between the digits of a phone number
OF_RECORDS = f"noun = ? AND {among('record_id')}"  # parameters: as Person.parameters has them


class Person:
    """Whom to erase: ids of records by noun, and the texts by which other rows name the person.

    identities: names, phones and e-mails, which are looked for in what is written of others.
    """

    def __init__(
        self, ids: dict[str, list[int]], texts: Iterable[str], identities: Iterable[str] = ()
    ):
        self.parameters = [(noun, dumps(ids[noun]).decode()) for noun in ids]
        folded = {_fold(text) for text in texts}
        self._texts = {text for text in folded if len(text) >= MIN_TEXT_CHARACTERS}
        self._phones = {
            re.sub(r"\D", "", text)[-PHONE_DIGITS:] for text in folded if text.startswith("+380")
        }
        patterns = filter(None, map(_mention_pattern, sorted(set(identities), key=len)[::-1]))
        self._mentions = re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)

    def is_named_in(self, text: str | bytes | None) -> bool:
        """Whether a text, such as a file or JSON, has any of the person's values."""
        folded = _fold(
            text if isinstance(text, str) else bytes(text or b"").decode("utf-8", "replace")
        )
        digits = re.sub(r"\D", "", folded)
        return any(known in folded for known in self._texts) or any(
            phone in digits for phone in self._phones
        )

    def is_mentioned_in(self, value: Any) -> bool:
        """Whether a value is a text with the person's phone, e-mail or full name."""
        return isinstance(value, str) and self._mentions.search(value) is not None

    def redact(self, value: Any, is_free: bool = False) -> Any:
        """JSON of another record with REDACTED for the person's mentions in its free texts."""
        if isinstance(value, dict):
            free = FREE_TEXTS | {"name"} if "quantity" in value else FREE_TEXTS
            return {
                name: dumps(self.redact(loads(one), is_free or name in free)).decode()
                if name in JSON_TEXTS and self.is_mentioned_in(one)
                else self.redact(one, is_free or name in free)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self.redact(one, is_free) for one in value]
        is_text = is_free and isinstance(value, str)
        return self._mentions.sub(REDACTED, value) if is_text else value


def _mention_pattern(identity: str) -> str:
    """The pattern of a phone in any spelling, an e-mail or a name of several words; else empty."""
    if identity.startswith("+"):
        is_ukrainian = identity.startswith("+380")
        digits = re.sub(r"\D", "", identity.removeprefix("+38" if is_ukrainian else "+"))
        prefix = rf"(?:\+?3{SEPARATORS}8{SEPARATORS})?" if is_ukrainian else r"\+?"
        return rf"(?<!\d){prefix}{SEPARATORS.join(digits)}(?!\d)"
    words = identity.split()
    if "@" not in identity and len(words) < 2:
        return ""  # a first name is that of many
    text = r"\s+".join(map(re.escape, words))
    return rf"(?<!\w){text}(?!\w)"


def _fold(text: str) -> str:
    """A text without its case and without the quotes that CSV and JSON write in their own ways."""
    return re.sub(r'["\\]', "", text).casefold()


Eraser = Callable[[Person], int]
tables = ["note", "audit_entry"]  # of which erased bytes are removed from the files
_erasers: dict[str, Eraser] = {}


def register(what: str, eraser: Eraser, *owned: str) -> None:
    """Let a function erase what these tables say of a person; it returns of how many rows."""
    _erasers[what] = eraser
    tables.extend(owned)


def erase_everywhere(person: Person) -> dict[str, int]:
    """Erase notes, audit entries and what owners of tables have registered: {what: how many}."""
    counts = {what: eraser(person) for what, eraser in _erasers.items()}
    for what, table in (("notes", "note"), ("changes", "audit_entry")):
        sql = f"DELETE FROM {table} WHERE {OF_RECORDS}"
        counts[what] = sum(execute(sql, of_noun).rowcount for of_noun in person.parameters)
    counts["changes"] += redact_stored(person, "audit_entry", "id", "before", "after")
    return counts


def redact_stored(person: Person, table: str, key: str, *columns: str) -> int:
    """Redact a table's columns of JSON: how many rows named the person."""
    changes = []
    for id, *texts in rows(f"SELECT {key}, {', '.join(columns)} FROM {table}"):
        # Line ends and tabs are two characters of JSON, of which the second is a letter.
        if person.is_mentioned_in(re.sub(r"\\[nrt]", " ", "\0".join(filter(None, texts)))):
            redacted = [text and dumps(person.redact(loads(text))).decode() for text in texts]
            if redacted != texts:
                changes.append((*redacted, id))
    values = ", ".join(f"{column} = ?" for column in columns)
    execute_many(f"UPDATE {table} SET {values} WHERE {key} = ?", changes)
    return len(changes)
