"""Statements of sessions as PostgreSQL takes them, translated once."""

import re
from functools import lru_cache
from typing import NamedTuple

from crm.tenancy.engines.translate import translate, translate_insert

MAX_CACHED_TEXTS = 4096
SAVEPOINTS = ("SAVEPOINT", "RELEASE", "ROLLBACK")  # peewee names each at random
ALLOCATED_BYTES, USED_BYTES = "SELECT crm.allocated_bytes()", "SELECT crm.used_bytes()"
ROWS_TOGETHER = 50  # inserted by one statement, of many: a statement each takes twice as long
INSERT = re.compile(r"(?P<head>INSERT INTO [^()]+\([^()]+\) VALUES )(?P<values>\([^()]+\))\Z")
PARAMETER = re.compile(r"\$(\d+)")


class Statement(NamedTuple):
    """A translated statement; an empty text means that there is nothing to do."""

    sql: str
    returns_rows: bool
    is_kept: bool  # prepared in the connection


NOTE_DUE = Statement("SELECT crm.note_due($1, $2)", returns_rows=False, is_kept=True)


def statement_of(sql: str, returns_id: bool = False) -> Statement:
    """Return a statement in the canonical dialect as PostgreSQL takes it.

    `returns_id`: it is an INSERT of one row, and returns the row's id. Raises TranslationError.
    """
    if sql in (ALLOCATED_BYTES, USED_BYTES):
        return Statement(sql, returns_rows=True, is_kept=True)
    if sql.startswith(SAVEPOINTS):
        return Statement(sql, returns_rows=False, is_kept=False)
    return _translated(sql, returns_id)


@lru_cache(MAX_CACHED_TEXTS)
def _translated(sql: str, returns_id: bool) -> Statement:
    text = translate_insert(sql) if returns_id else translate(sql)
    returns_rows = text.lstrip().upper().startswith(("SELECT", "WITH"))
    return Statement(text, returns_rows or "RETURNING" in text, is_kept=True)


@lru_cache(MAX_CACHED_TEXTS)
def insert_of_rows(sql: str) -> Statement | None:
    """Return the INSERT of ROWS_TOGETHER rows for one of a row; None for another statement.

    Its parameters are those of the rows, one after the other.
    """
    match = INSERT.match(sql)
    if match is None:
        return None
    numbers = [int(number) for number in PARAMETER.findall(match["values"])]
    if numbers != list(range(1, len(numbers) + 1)):
        return None

    def values_of(row: int) -> str:
        first = row * len(numbers)
        return PARAMETER.sub(lambda found: f"${int(found[1]) + first}", match["values"])

    rows = ", ".join(map(values_of, range(ROWS_TOGETHER)))
    return Statement(f"{match['head']}{rows}", returns_rows=False, is_kept=True)
