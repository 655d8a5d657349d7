"""Erasing what is stored of a person: each owner of a table registers what it erases there."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from crm.json import dumps, loads
from crm.storage.dialect import among
from crm.storage.reading import batches, snapshot
from crm.storage.session import execute, now, row, rows

MIN_TEXT_CHARACTERS = 3  # of a text that is looked for in others
PHONE_DIGITS = 9  # the last ones of a phone number, in whatever form it was written
REDACTED = "[erased]"
# Fields in which people write about others; the name of a deal's item is one, too.
FREE_TEXTS = frozenset(
    ["comment", "custom", "description", "extra", "former_texts", "lost_reason", "result"]
    + ["text", "title"]
)
# What audit entries and rows have as JSON in a text.
JSON_TEXTS = ("contacts", "custom", "extra", "former_texts")
SEPARATORS = r"[\s().-]*"  # between the digits of a phone number
LOOSE_SEPARATORS = r"[\s().\\nrt-]*"  # with line ends and tabs as JSON has them
SPACES = r"(?:\s|\\[nrt])+"  # between words, with line ends and tabs as JSON has them
MAX_CASED = 0x1FFFF  # no letter after it has another case
UKRAINIAN = "+380"
OF_RECORDS = f"noun = ? AND {among('record_id')}"  # parameters: as Person.parameters has them


class Person:
    """Whom to erase: ids of records by noun, and the texts by which other rows name the person.

    identities: names, phones and e-mails, which are looked for in what is written of others.
    """

    def __init__(
        self, ids: dict[str, list[int]], texts: Iterable[str], identities: Iterable[str] = ()
    ):
        self.ids = ids
        self.parameters = [(noun, dumps(ids[noun]).decode()) for noun in ids]
        folded = {_fold(text) for text in texts}
        self._texts = {text for text in folded if len(text) >= MIN_TEXT_CHARACTERS}
        self._phones = {
            re.sub(r"\D", "", text)[-PHONE_DIGITS:] for text in folded if text.startswith(UKRAINIAN)
        }
        mentions = {one: _mention_pattern(one) for one in sorted(set(identities), key=len)[::-1]}
        patterns = [*filter(None, mentions.values())]
        self._mentions = re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)
        self._mentioned = [one for one in mentions if mentions[one]]

    def __eq__(self, other: object) -> bool:
        """Whether both look for the same texts of the same records."""
        return isinstance(other, Person) and (
            (self.ids, self._texts, self._mentions) == (other.ids, other._texts, other._mentions)
        )

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

    def patterns_in(
        self, text: str, among: Sequence[re.Pattern[str]] | None = None
    ) -> list[re.Pattern[str]]:
        """The patterns of words or digits of a mention that a text, or JSON, has.

        Where there are none it has no mention; they are found much faster than mentions are.
        among: those that are looked for, by default all.
        """
        patterns = self._quick_patterns if among is None else among
        return [pattern for pattern in patterns if pattern.search(text)]

    @cached_property
    def _quick_patterns(self) -> list[re.Pattern[str]]:
        """Patterns that begin with a character in one case, which `re` looks for fast."""
        characters = "".join(map(chr, range(MAX_CASED + 1)))
        patterns = []
        for one in self._mentioned:
            if one.startswith("+"):
                patterns.append(LOOSE_SEPARATORS.join(_dialled_digits(one)))
                continue
            text = " ".join(one.split())
            rest = re.escape(text[1:]).replace(r"\ ", SPACES)
            for first in re.findall(re.escape(text[0]), characters, re.IGNORECASE):
                patterns.append(f"{re.escape(first)}(?i:{rest})")
        return [*map(re.compile, patterns)]

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
        is_ukrainian = identity.startswith(UKRAINIAN)
        prefix = rf"(?:\+?3{SEPARATORS}8{SEPARATORS})?" if is_ukrainian else r"\+?"
        return rf"(?<!\d){prefix}{SEPARATORS.join(_dialled_digits(identity))}(?!\d)"
    words = identity.split()
    if "@" not in identity and len(words) < 2:
        return ""  # a first name is that of many
    text = r"\s+".join(map(re.escape, words))
    return rf"(?<!\w){text}(?!\w)"


def _dialled_digits(phone: str) -> str:
    """The digits of a phone that are in every spelling of it."""
    return re.sub(r"\D", "", phone.removeprefix("+38" if phone.startswith(UKRAINIAN) else "+"))


def _fold(text: str) -> str:
    """A text without its case and without the quotes that CSV and JSON write in their own ways."""
    return re.sub(r'["\\]', "", text).casefold()


def has_mention(
    person: Person, texts: Sequence[Any], patterns: Sequence[re.Pattern[str]] | None = None
) -> bool:
    """Whether a row's texts, or JSON, may mention the person; a number among them does not.

    patterns: those of patterns_in() that the row can have, if it is known.
    """
    text = _join([texts])
    # Line ends and tabs are two characters of JSON, of which the second is a letter.
    return bool(person.patterns_in(text, patterns)) and person.is_mentioned_in(
        re.sub(r"\\[nrt]", " ", text)
    )


def _join(rows: Iterable[Sequence[Any]]) -> str:
    """All texts of some rows as one, in which no mention is of two of them."""
    return "\0".join([text for row in rows for text in row if isinstance(text, str)])


class Texts(NamedTuple):
    """Texts of a table in which a person may be named.

    what: how their count is called. keys: the columns of a key, columns: those of the texts, time:
    that of when a row was last written. is_named: whether a row's texts name the person. erase:
    called with the person, a row's key and its texts, inside a transaction; returns the (noun, id)
    of the record that mentioned the person, or whether it has erased anything.
    """

    what: str
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    is_named: Callable[[Person, Sequence[Any]], bool]
    erase: Callable[[Person, tuple[Any, ...], Sequence[Any]], Any]
    time: str = "updated_at"

    @property
    def select(self) -> str:
        return f"SELECT {', '.join((*self.keys, *self.columns))} FROM {self.table}"

    def split(self, row: Sequence[Any]) -> tuple[tuple[Any, ...], Sequence[Any]]:
        """The key and the texts of a row."""
        return tuple(row[: len(self.keys)]), row[len(self.keys) :]


class NamingRows(NamedTuple):
    """The keys of the rows that named a person at a time, by table."""

    time: str
    keys: dict[str, list[tuple[Any, ...]]]


tables = ["note", "audit_entry"]  # of which erased bytes are removed from the files
_texts: list[Texts] = []
_erasers: dict[str, Callable[[Person], int]] = {}


def register_texts(texts: Texts, *owned: str) -> None:
    """Let an erasure look for a person in these texts, and scrub the tables of `owned`."""
    _texts.append(texts)
    tables.extend(owned)


def register_deletion(
    what: str,
    table: str,
    *columns: str,
    keys: tuple[str, ...] = ("id",),
    time: str = "updated_at",
) -> None:
    """Let an erasure delete the rows of a table whose texts name the person."""

    def is_named(person: Person, texts: Sequence[Any]) -> bool:
        return any(map(person.is_named_in, texts))

    def delete(_: Person, key: tuple[Any, ...], texts: Sequence[Any]) -> int:
        has_key = " AND ".join(f"{column} = ?" for column in keys)
        return execute(f"DELETE FROM {table} WHERE {has_key}", key).rowcount

    register_texts(Texts(what, table, keys, columns, is_named, delete, time), table)


def register(what: str, eraser: Callable[[Person], int], *owned: str) -> None:
    """Let a function erase what these tables have of a person's records: of how many rows."""
    _erasers[what] = eraser
    tables.extend(owned)


def find(person: Person) -> NamingRows:
    """The rows that name a person, so that the transaction need not read all texts."""
    time, keys = now(), dict[str, list[tuple[Any, ...]]]()
    with snapshot():
        for texts in _texts:
            found = keys[texts.table] = list[tuple[Any, ...]]()
            for batch in batches(texts.select):
                is_named = texts.is_named
                if is_named is has_mention:
                    patterns = person.patterns_in(_join(batch))
                    if not patterns:
                        continue  # no row is looked at by itself
                    is_named = partial(has_mention, patterns=patterns)
                found += [key for key, row in map(texts.split, batch) if is_named(person, row)]
    return NamingRows(time, keys)


def erase_everywhere(
    person: Person, naming: NamingRows
) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Erase notes, audit entries and what owners have registered; inside a transaction.

    Of other records' texts those that were found, and those written since. Returns how many of
    what, and the records that mentions were erased of.
    """
    counts = Counter({what: eraser(person) for what, eraser in _erasers.items()})
    for what, table in (("notes", "note"), ("changes", "audit_entry")):
        sql = f"DELETE FROM {table} WHERE {OF_RECORDS}"
        counts[what] += sum(execute(sql, of_noun).rowcount for of_noun in person.parameters)
    mentions: list[tuple[str, int]] = []
    for texts in _texts:
        has_key = " AND ".join(f"{column} = ?" for column in texts.keys)
        stored = [row(f"{texts.select} WHERE {has_key}", key) for key in naming.keys[texts.table]]
        stored += rows(f"{texts.select} WHERE {texts.time} >= ?", (naming.time,))
        for key, values in dict(map(texts.split, filter(None, stored))).items():
            if texts.is_named(person, values) and (erased := texts.erase(person, key, values)):
                counts[texts.what] += 1
                mentions += [erased] if isinstance(erased, tuple) else []
        counts.setdefault(texts.what, 0)
    return dict(counts), mentions


def json_texts(what: str, table: str, key: str, time: str, *columns: str) -> Texts:
    """Columns of JSON about other records, in which the person's mentions are replaced."""
    values = ", ".join(f"{column} = ?" for column in columns)

    def redact(person: Person, id: tuple[Any, ...], stored: Sequence[str | None]) -> bool:
        redacted = [text and dumps(person.redact(loads(text))).decode() for text in stored]
        execute(f"UPDATE {table} SET {values} WHERE {key} = ?", (*redacted, *id))
        return redacted != [*stored]

    return Texts(what, table, (key,), columns, has_mention, redact, time)


register_texts(json_texts("changes", "audit_entry", "id", "at", "before", "after"))
