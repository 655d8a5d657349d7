"""Search: folded text and its trigram index.

D3 `q`: every word must match somewhere in the record, in any case, as a part of a word, Cyrillic
too; digits match phones; `%` and `_` are ordinary characters.

A searchable table has a column `search_text`, NULL when the row is deleted, and beside it an index
of all its three-letter pieces, `<table>_search` (made by the migrations). This module only writes
texts of SQL. Whoever changes `search_text`, or deletes the row, runs `remove_statement` before and
`add_statement` after, in the same transaction.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Run = Callable[[str, list[Any]], Sequence[tuple[Any, ...]]]
# One word of a query, as the forms of which one must match.
Word = tuple[str, ...]

# The newest matches that are looked at first. Fewer than this are all there is: they are fetched.
PROBED = 1000
# Eight pieces find as well as all of them; more only cost time: 200 characters took 13 ms, now 4.
PIECES = 8
PHONE_MARKS = frozenset("0123456789+()-.")
# SQLite's tokenizer stops at NUL, and lone surrogates have no UTF-8 at all.
UNSTORABLE = {0: " "} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
# Мар'яна is typed with whatever apostrophe the keyboard has.
APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u02bc\u2018\u2032\u0060\u00b4"), "'")
ALIKE = UNSTORABLE | APOSTROPHES


def condition(
    table: str, q: str, run: Run, *, by_id: bool = True, counts: bool = False
) -> tuple[str, list[Any]]:
    """An SQL condition, and its parameters, for the rows of `table` that match `q` (D3).

    It is true of live rows only. `by_id` tells that the list is in order of id, not of another
    column, and `counts` that all matches are counted too; both change the speed, not the rows. A
    list and a count would each look at all rows for a word of two letters. `run(sql, parameters)`
    asks the tenant's database.
    """
    wanted = words(q)
    verified = " AND ".join(_contains(table, word) for word in wanted)
    parameters: list[Any] = [form for word in wanted for form in word]
    ways: list[tuple[str, list[Any]]] = []
    if pieces := _match(wanted):
        index = f"SELECT rowid AS id FROM {table}_search WHERE {table}_search MATCH ?"
        ways.append((index, [pieces]))
    if not all(map(_is_indexed, wanted)) and (counts or not by_id):
        ways.append((f"SELECT id FROM {table} WHERE {verified}", parameters))
    # Probed, because SQLite can't guess how common a word is: sorting every row of a common word
    # takes 100 ms, walking the table for a rare one 100 to 400.
    reaches = []
    for hits, asked in ways:
        ((ids, found, reach),) = run(
            f"SELECT json_group_array(id), count(*), (SELECT max(id) FROM {table}) - min(id) "
            f"FROM ({hits} ORDER BY id DESC LIMIT {PROBED})",
            asked,
        )
        if found < PROBED:
            found_ids = f"{table}.id IN (SELECT value FROM json_each(?))"
            return f"{found_ids} AND {verified}", [ids, *parameters]
        reaches.append(reach)
    if not ways:
        return verified or f"{table}.search_text IS NOT NULL", parameters
    (hits, asked), reach = ways[0], reaches[0]
    # Every 25th row, or every second where matches may stand together at the end of the order.
    if reach < PROBED * (25 if by_id else 2):
        return verified, parameters
    # Many but scattered. `+` lets the order's own index be walked, checking ids, reading no row.
    plus = "" if by_id else "+"
    return f"{plus}{table}.id IN ({hits}) AND {verified}", [*asked, *parameters]


def _contains(table: str, word: Word) -> str:
    return "(" + " OR ".join(f"instr({table}.search_text, ?)" for _ in word) + ")"


def _is_indexed(word: Word) -> bool:
    return min(map(len, word)) >= 3


def _match(wanted: list[Word]) -> str:
    """What the index can tell of the words, for MATCH: their pieces, not yet side by side."""
    indexed = [word for word in wanted if _is_indexed(word)]
    # The longest are likely the rarest.
    chosen = sorted(indexed, key=lambda word: -len(word[0]))[:PIECES]
    share = max(2, PIECES // max(1, len(chosen)))
    return " AND ".join(
        "(" + " OR ".join(f"({_pieces(form, share)})" for form in word) + ")" for word in chosen
    )


def _pieces(form: str, share: int) -> str:
    last = len(form) - 3
    count = min(share, last + 1)
    starts = [n * last // max(1, count - 1) for n in range(count)]
    # Quoted, AND and NEAR( are letters like any others.
    return " AND ".join('"' + form[start : start + 3].replace('"', '""') + '"' for start in starts)


def words(q: str) -> list[Word]:
    """The words of a query, each once: `12-34` has the forms `12-34` and `1234`."""
    return list(dict.fromkeys(_forms(word) for word in fold(q).split()))


def _forms(word: str) -> Word:
    digits = "".join(filter(str.isdigit, word)) if PHONE_MARKS.issuperset(word) else ""
    if not digits:
        return (word,)
    return (digits,) if digits in word else (word, digits)


def fold(*texts: str | None) -> str:
    """The texts as they are searched: one line each, in one case, composed, spaces single."""
    return "\n".join(" ".join(_folded(text).split()) for text in texts if text is not None)


def _folded(text: str) -> str:
    # Composed last, because casefold() takes some letters apart.
    return unicodedata.normalize("NFC", text.translate(ALIKE).casefold())


def fold_letters(text: str) -> tuple[str, Sequence[int]]:
    """The text in one case, and for each letter of that the place of its own in the text.

    For showing where a word is, in texts as they are kept: composed.
    """
    folded = text.translate(ALIKE).casefold()
    if len(folded) == len(text):  # letters never become fewer
        return folded, range(len(text))
    letters, places = [], []
    for place, letter in enumerate(text):
        letters.append(letter.translate(ALIKE).casefold())
        places += [place] * len(letters[-1])
    return "".join(letters), places


def fold_many(records: Sequence[Sequence[str | None]]) -> list[str]:
    """`fold` of each record's texts, for texts as they are kept: trimmed and without NUL.

    All are folded as one: 50,000 products take 0.1 s instead of 0.4.
    """
    text = "\0".join("\1".join(filter(None, texts)) for texts in records)
    for odd, plain in APOSTROPHES.items():
        text = text.replace(chr(odd), plain)
    text = " ".join(unicodedata.normalize("NFC", text.casefold()).split())
    return text.replace("\1", "\n").split("\0") if records else []


# No triggers: a trigger indexes 50,000 imported rows in 2.8 s, one statement for all in 0.4 to 1.


@cache
def add_statement(table: str) -> str:
    """Index a row by its id and its text, as it has just been written: without a query for them,
    SQLite needs no savepoint, which would make the index write out what it holds in memory."""
    return f"INSERT INTO {table}_search (rowid, search_text) VALUES (?, ?)"


@cache
def remove_statement(table: str) -> str:
    """Take the row of an id out of the index: before its text changes or the row goes."""
    return f"{_removing(table)} WHERE id = ? AND search_text IS NOT NULL"


@cache
def add_many_statement(table: str) -> str:
    """Index the rows of a JSON array of ids, after they got their texts."""
    return _adding(table) + _MANY


@cache
def add_later_statement(table: str) -> str:
    """The same for all rows of a higher id."""
    return f"{_adding(table)} WHERE id > ? AND search_text IS NOT NULL ORDER BY id"


@cache
def remove_many_statement(table: str) -> str:
    """The same as `remove_statement` for a JSON array of ids; all of them before any change."""
    return _removing(table) + _MANY


def _adding(table: str) -> str:
    return f"INSERT INTO {table}_search (rowid, search_text) SELECT id, search_text FROM {table}"


def _removing(table: str) -> str:
    return (
        f"INSERT INTO {table}_search ({table}_search, rowid, search_text)"
        f" SELECT 'delete', id, search_text FROM {table}"
    )


# Ascending: the index writes out what it holds in memory whenever an id is below the last one.
_MANY = " WHERE id IN (SELECT value FROM json_each(?)) AND search_text IS NOT NULL ORDER BY id"
