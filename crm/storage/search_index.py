"""SQL texts about the index of the words of a table: FTS5 in SQLite, trigrams in PostgreSQL.

A searchable table has a column `search_text`, NULL when the row is deleted, and beside it an index
of all three-letter pieces of that text, `<table>_search`, made by the migrations. There are no
triggers: a trigger indexes 50,000 imported rows in 2.8 s, one statement for all in 0.4 to 1.

New rows are not in the index: they are added ROWS_AT_ONCE at a time, because adding one row writes
about as many pages as adding 64. `search_progress` has the id of the last row that was added; a
search looks at the rows with a higher id one by one. Code that changes `search_text`, or
deletes the row, executes `remove_statement` before and `add_statement` after the change, in the
same transaction; of a new row they do nothing. PostgreSQL keeps its index itself: there all these
statements do nothing.
"""

from collections.abc import Iterable, Sequence
from functools import cache

from crm.storage.dialect import among, by_id, is_sqlite

# One word of a query, as the forms of which one must match.
Word = tuple[str, ...]

PIECE_LETTERS = 3  # shorter texts are not in the index
# Four pieces find about as well as all of them, because what they find is compared with the words;
# more only cost time.
MAX_PIECES = 4
ROWS_AT_ONCE = 64


@cache
def add_statement(table: str) -> str:
    """Add rows to the index, after their texts changed. Parameter: a JSON array of ids."""
    return f"{_add(table)} WHERE {among('id')} AND {_is_indexed_row(table)} ORDER BY id"


@cache
def remove_statement(table: str) -> str:
    """Remove rows from the index, before any of them changes. Parameter: a JSON array of ids."""
    return f"{_remove(table)} WHERE {among('id')} AND {_is_indexed_row(table)} ORDER BY id"


def add_new_statements(table: str) -> Sequence[str]:
    """Add the new rows to the index, in the order of their ids: others cost it more."""
    if not is_sqlite():
        return ()
    return (
        f"{_add(table)} WHERE id > {_last_indexed_id(table)} AND search_text IS NOT NULL"
        " ORDER BY id",
        note_progress_statement(table),
    )


def note_progress_statement(table: str) -> str:
    """Note that all rows of a table are in the index."""
    return (
        "INSERT INTO search_progress (table_name, last_indexed_id)"
        f" VALUES ('{table}', (SELECT coalesce(max(id), 0) FROM {table}))"
        " ON CONFLICT (table_name) DO UPDATE SET last_indexed_id = excluded.last_indexed_id"
    )


def _add(table: str) -> str:
    return f"INSERT INTO {table}_search (rowid, search_text) SELECT id, search_text FROM {table}"


def _remove(table: str) -> str:
    return (
        f"INSERT INTO {table}_search ({table}_search, rowid, search_text)"
        f" SELECT 'delete', id, search_text FROM {table}"
    )


def _is_indexed_row(table: str) -> str:
    return f"search_text IS NOT NULL AND id <= {_last_indexed_id(table)}"


def _last_indexed_id(table: str) -> str:
    last_id = f"SELECT last_indexed_id FROM search_progress WHERE table_name = '{table}'"
    return f"coalesce(({last_id}), 0)"


def matching_ids(table: str, words: Sequence[Word]) -> tuple[str, list[str]] | None:
    """A SELECT of the ids of the rows that may contain the words, and its parameters.

    What it selects must still be compared with the words. None if the index knows none of them.
    """
    words = [word for word in words if is_indexed(word)]
    if not words:
        return None
    if is_sqlite():
        query = (
            f"SELECT rowid AS id FROM {table}_search WHERE {table}_search MATCH ? UNION ALL"
            f" SELECT id FROM {table} WHERE id > {_last_indexed_id(table)}"
            f" AND {any_form(words, contains(table))}"
        )
        return query, [_index_query(words), *(form for word in words for form in word)]
    # `~~` is LIKE, which compares by letter case there.
    parameters = [f"%{_escaped(form)}%" for word in words for form in word]
    return f"SELECT id FROM {table} WHERE {any_form(words, 'search_text ~~ ?')}", parameters


def any_form(words: Sequence[Word], condition: str) -> str:
    """A condition: of each word one form meets the condition, which has it as a parameter."""
    return " AND ".join(f"({' OR '.join([condition] * len(word))})" for word in words)


def is_indexed(word: Word) -> bool:
    """Whether the index can find a word."""
    return min(map(len, word)) >= PIECE_LETTERS


def newest_ids(table: str, ids: str, limit: int) -> str:
    """A SELECT of one row about the newest ids of the SELECT `ids`.

    Columns: a JSON array of at most `limit` ids, how many these are, the lowest and the highest of
    them, and the highest id of the table.
    """
    return (
        "SELECT CAST(json_group_array(id) AS TEXT), count(*), min(id), max(id),"
        f" (SELECT max(id) FROM {table})"
        f" FROM ({ids} ORDER BY id DESC LIMIT {limit}) AS newest"
    )


def is_common(table: str, condition: str, parts: Iterable[int], rows: int, matches: int) -> str:
    """A SELECT that gives a row if many of the newest rows meet a condition.

    It looks at `rows` rows in each part, of which `matches` must meet it; a part begins so many ids
    below the newest. Parameters: the id below which rows are looked at, and for each part those of
    the condition.
    """
    counts = " AND ".join(
        f"(SELECT count(*) FROM (SELECT 1 FROM {by_id(table)} WHERE id <= top - {part}"
        f" AND id > top - {part + rows} AND {condition} LIMIT {matches}) AS part) = {matches}"
        for part in parts
    )
    return (
        f"SELECT 1 FROM (SELECT max(id) AS top FROM {table} WHERE id < ?) AS newest WHERE {counts}"
    )


def contains(table: str) -> str:
    """A condition: the row's text contains the one parameter."""
    return f"instr({table}.search_text, ?) > 0"


def _escaped(text: str) -> str:
    """A text in a pattern of LIKE, where it stands for itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _index_query(words: Sequence[Word]) -> str:
    """What FTS5 can tell of the words: all their pieces, not yet side by side."""
    # The longest are likely the rarest.
    longest = sorted(words, key=lambda word: -len(word[0]))[:MAX_PIECES]
    share = max(2, MAX_PIECES // len(longest))
    any_form = (" OR ".join(f"({_pieces(form, share)})" for form in word) for word in longest)
    return " AND ".join(f"({forms})" for forms in any_form)


def _pieces(form: str, share: int) -> str:
    """All of some pieces of a form, in quotes: AND and NEAR( are letters like others."""
    last = len(form) - PIECE_LETTERS
    count = min(share, last + 1)
    starts = [n * last // max(1, count - 1) for n in range(count)]
    pieces = (form[start : start + PIECE_LETTERS].replace('"', '""') for start in starts)
    return " AND ".join(f'"{letters}"' for letters in pieces)
