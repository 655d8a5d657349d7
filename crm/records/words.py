"""Words that people choose for a field again and again: one spelling of each (D2).

Words of a vocabulary are told apart without letter case, by `fold`, and each is stored as it was
first written, whichever record has it: so filters, reports and suggestions have it once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from peewee import TextField

from crm.records import fields
from crm.records.columns import Column, declared
from crm.storage.session import current_session, execute, row
from crm.values.folding import fold

FIND = "SELECT text FROM word WHERE vocabulary = ? AND word_key = ?"
ADD = "INSERT INTO word (vocabulary, word_key, text) VALUES (?, ?, ?)"
FORGET_SOURCES = """
    DELETE FROM word WHERE vocabulary = 'source' AND text NOT IN (
        SELECT source FROM lead WHERE source IS NOT NULL
        UNION SELECT source FROM client WHERE source IS NOT NULL
        UNION SELECT source FROM deal WHERE source IS NOT NULL)
"""


class WordField(fields.Text):
    """A text of a vocabulary. Filters and files read it as the known word that it spells."""

    def __init__(self, max_length: int, vocabulary: str, **options: Any):
        super().__init__(max_length, **options)
        self.vocabulary = vocabulary

    def read(self, value: Any) -> str | None:
        text = super().read(value)
        return text if self.incoming else self.known(text)

    def known(self, text: str | None) -> str | None:
        """The known word that a text spells, else the text."""
        word = text and row(FIND, (self.vocabulary, fold(text)))
        return word[0] if word else text

    def learned(self, text: str) -> str:
        """The known word that a text spells; a new one is known from now on. In a transaction."""
        memo, key = current_session().memo, (self.vocabulary, fold(text))
        if (word := memo.get(key)) is None:
            stored = row(FIND, key)
            if stored is None:
                execute(ADD, (*key, text))
            word = memo[key] = stored[0] if stored else text
        return word


class Word(Column, TextField):
    """A column with words of a vocabulary."""

    wire_type = WordField


def unified(record: type, values: dict[str, Any]) -> dict[str, Any]:
    """These values of a record, with words as they are stored; inside a transaction."""
    result = dict(values)
    unify(record, [result])
    return result


def unify(record: type, many: Sequence[dict[str, Any]]) -> None:
    """Replace words in stored values of records by known ones, in place; inside a transaction."""
    for name, field in _fields(record):
        words = {text: "" for values in many if (text := values.get(name))}
        for text in words:  # in the order of the records
            words[text] = field.learned(text)
        for values in many:
            if text := values.get(name):
                values[name] = words[text]


@cache
def _fields(record: type) -> list[tuple[str, WordField]]:
    columns = declared(record).items()
    return [(name, column.wire) for name, column in columns if isinstance(column.wire, WordField)]
