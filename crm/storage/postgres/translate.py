"""Translate statements from canonical SQL, which is SQLite's spelling, to PostgreSQL's.

Statements are written in what both engines take; what only one has is made by `dialect` and
`search_index`. Most differ in their placeholders alone. What is not known to mean the same in both
is refused: a statement that is only nearly the same would be found by a customer. Migrations are
translated beforehand (schema.py).
"""

import re
from functools import lru_cache

from crm.storage.postgres.folded_columns import fold_comparisons, is_folded
from crm.storage.postgres.sql_tokens import (
    Token,
    TranslationError,
    closing_index,
    join,
    quote,
    split,
    tokenize,
    words,
)

MAX_CACHED_TEXTS = 4096
STATEMENTS = frozenset({"select", "insert", "update", "delete", "with"})
CAST_TYPES = frozenset({"bigint", "text", "json"})
# Called in the same way with the same result. `length` and `substr` count characters, and
# `substr` is called with a start of at least 1; `min` and `max` are those of many rows.
COMMON_FUNCTIONS = frozenset(
    {"cast", "coalesce", "count", "exists", "gen_random_uuid", "json_array_elements_text"}
    | {"length", "lower", "max", "min", "nullif", "round", "substr", "sum"}
)
OTHER_FUNCTIONS = {  # what stands there before and after their arguments
    "instr": ("strpos", ")"),
    "json_group_array": ("coalesce(json_agg", ")::text, '[]')"),
    "json_object": ("json_build_object", ")"),
    # Of days since another moment: as there, only differences mean something.
    "julianday": ("(extract(epoch FROM CAST", " AS timestamptz)) / 86400.0)"),
}
FUNCTIONS = COMMON_FUNCTIONS | OTHER_FUNCTIONS.keys()
# Words that may stand directly before a parenthesis without being a function.
KEYWORDS = frozenset(
    {"all", "and", "any", "array", "as", "filter", "in", "not", "or", "over", "values", "when"}
    | {"where"}
)
# Words that mean something else in PostgreSQL, or nothing.
REFUSED = frozenset(
    {"attach", "autoincrement", "collate", "glob", "isnull", "like", "match", "notnull", "pragma"}
    | {"regexp", "replace", "rowid", "sqlite_master", "sqlite_schema", "sqlite_sequence", "vacuum"}
)
# Words before a name that stands before a parenthesis, and is no function.
BEFORE_NAME = [(word,) for word in ("into", "references", "conflict", "table", "with", "recursive")]
# What keeps SQLite from using an index, or makes it use one, as `dialect` makes it; and texts.
ADVICE = re.compile(r"('(?:[^']|'')*')| INDEXED BY \w+| NOT INDEXED\b|(?<=\()\+")
# As `dialect.among` makes it. An array, because the planner takes its values for few.
AMONG = re.compile(r"(NOT )?IN \(SELECT CAST\(value AS (BIGINT|TEXT)\) FROM json_each\((\?\d*)\)\)")


@lru_cache(MAX_CACHED_TEXTS)
def translate(sql: str) -> str:
    """Translate one statement: SELECT, INSERT, UPDATE, DELETE or WITH.

    Returns an empty text for the upkeep of a full-text index: PostgreSQL keeps its indexes itself.
    Parameters become `$1` and so on, in the order in which SQLite takes them. Raises
    TranslationError for what has no translation.
    """
    tokens = tokenize(AMONG.sub(_array, ADVICE.sub(r"\1", sql)))
    if not tokens or tokens[0].word not in STATEMENTS:
        raise TranslationError(f"this is no statement that is translated: {sql}")
    if words(tokens, 0, 2) == ("insert", "into") and is_search_table(tokens[2].text):
        return ""
    return join(translate_tokens(fold_comparisons(_number_parameters(tokens))))


def _array(match: re.Match[str]) -> str:
    negation, type_name, parameter = match.groups()
    values = f"json_array_elements_text(CAST({parameter} AS JSON)) AS t (value)"
    array = f"ARRAY(SELECT CAST(value AS {type_name}) FROM {values})"
    return f"{'<> ALL' if negation else '= ANY'} ({array})"


@lru_cache(MAX_CACHED_TEXTS)
def translate_insert(sql: str) -> str:
    """Translate an INSERT of one row so that it returns the new row's id."""
    tokens = tokenize(sql)
    if words(tokens, 0, 2) != ("insert", "into"):
        raise TranslationError(f"this is no INSERT: {sql}")
    is_event = tokens[2].text.strip('"').lower() == "event"
    return f"{translate(sql)} RETURNING {'sequence' if is_event else 'id'}"


def is_search_table(name: str) -> bool:
    """Whether a table is the full-text index of another table."""
    return name.strip('"').lower().endswith("_search")


def _number_parameters(tokens: list[Token]) -> list[Token]:
    """Write parameters as `$1`: `?` has the number after the highest before it, `?2` its own."""
    numbered, highest = [], 0
    for token in tokens:
        if token.kind == "parameter":
            number = int(token.text[1:] or highest + 1)
            highest = max(highest, number)
            token = token._replace(text=f"${number}")
        numbered.append(token)
    return numbered


def translate_tokens(tokens: list[Token]) -> list[Token]:
    """Translate an expression or a statement whose parameters are numbered already."""
    tokens = list(tokens)
    for index, token in enumerate(tokens):
        before, following = words(tokens, index - 1, 1) if index else (), words(tokens, index + 1)
        if _is_refused(token.word, before, following):
            raise TranslationError(f"{token.text} has no translation in: {join(tokens)}")
        if token.kind != "word":
            continue
        is_call = following[:1] == ("(",) and (
            not tokens[index + 1].spaced or token.word in FUNCTIONS
        )
        if is_call and token.word not in KEYWORDS and before not in BEFORE_NAME:
            _translate_call(tokens, index)
        else:
            tokens[index] = token._replace(text=quote(token.text))
    return tokens


def _is_refused(word: str, before: tuple[str, ...], following: tuple[str, ...]) -> bool:
    if word == "is":  # what is compared so may be NULL
        return following[following[:1] == ("not",)] not in ("null", "true", "false")
    if word == "or":
        return before in (("insert",), ("update",))
    return word in REFUSED or (word == "limit" and following[:1] == ("-",))


def _translate_call(tokens: list[Token], index: int) -> None:
    """Translate the call of a function whose name is at `index`; not yet what is inside."""
    token, end = tokens[index], closing_index(tokens, index + 1)
    is_known = token.word in FUNCTIONS
    if token.word in ("max", "min"):
        is_known = len(split(tokens[index + 2 : end])) == 1
    elif token.word == "lower":  # of another text it would change all letters, not ASCII alone
        is_known = end == index + 3 and is_folded(tokens[index + 2])
    elif token.word == "cast":
        is_known = words(tokens, end - 2, 1) == ("as",) and tokens[end - 1].word in CAST_TYPES
    if not is_known:
        raise TranslationError(f"this use of {token.text}() has no translation: {join(tokens)}")
    before, after = OTHER_FUNCTIONS.get(token.word, (token.text, ")"))
    tokens[index] = token._replace(text=before)
    tokens[end] = tokens[end]._replace(text=after)
