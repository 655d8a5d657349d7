"""PostgreSQL's spelling of statements, which are written in SQLite's.

Both engines take nearly all texts as they are, with the same result: what only one of them has is
made by `dialect` and `search_index`. What is left differs by a word at a time. A test has a server
prepare every statement that other tests execute.
"""

import re
from functools import lru_cache
from itertools import count

MAX_CACHED_TEXTS = 4096
FUNCTIONS = {
    "instr": "strpos",
    "json_object": "json_build_object",
    "json_group_array": "json_agg",  # of no rows it is NULL
}
SPELLINGS = re.compile(
    r"""
    (?P<text>'(?:[^']|'')*')
    |\ INDEXED\ BY\ \w+|\ NOT\ INDEXED\b|(?<=\()\+  # which index to use, as `dialect` says it
    |(?P<negation>\bNOT\ )?\bIN\ \(SELECT\ \+CAST\(value\ AS\ (?P<type>\w+)\)
        \ FROM\ json_each\(\?\)\)
    |(?P<parameter>\?)
    |\b(?P<function>instr|json_object|json_group_array)(?=\()
    """,
    re.VERBOSE,
)
INDEX_UPKEEP = re.compile(r"\s*INSERT INTO \w+_search \(")
INTO_EVENT = re.compile(r"\s*INSERT INTO event\b")  # whose key is `sequence`


@lru_cache(MAX_CACHED_TEXTS)
def spell(sql: str) -> str:
    """Return a statement as PostgreSQL spells it; empty for the upkeep of a full-text index."""
    numbers = count(1)

    def replace(match: re.Match[str]) -> str:
        if match["type"]:  # of `dialect.among`: the planner takes the values of an array for few
            values = f"json_array_elements_text(CAST(${next(numbers)} AS JSON)) AS t (value)"
            array = f"ARRAY(SELECT CAST(value AS {match['type']}) FROM {values})"
            return f"{'<> ALL' if match['negation'] else '= ANY'} ({array})"
        if match["parameter"]:
            return f"${next(numbers)}"
        return match["text"] or FUNCTIONS.get(match["function"], "")

    return "" if INDEX_UPKEEP.match(sql) else SPELLINGS.sub(replace, sql)


@lru_cache(MAX_CACHED_TEXTS)
def spell_insert(sql: str) -> str:
    """Return an INSERT of one row as PostgreSQL spells it, which returns the new row's id."""
    return f"{spell(sql)} RETURNING {'sequence' if INTO_EVENT.match(sql) else 'id'}"
