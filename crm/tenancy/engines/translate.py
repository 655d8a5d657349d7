"""Translate statements from canonical SQL, which is SQLite's spelling, to PostgreSQL's.

Most statements differ in their placeholders alone. What is not known to mean the same in both is
refused: a statement that is only nearly the same would be found by a customer. Migrations are
translated by `translate_migrations`.
"""

from functools import lru_cache

from crm.tenancy.engines.folded_columns import fold_comparisons
from crm.tenancy.engines.sql_tokens import (
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
TYPES = {"integer": "BIGINT", "text": "TEXT", "real": "DOUBLE PRECISION", "blob": "BYTEA"}
COLLATIONS = {"binary": '"C"'}
# Called in the same way with the same result. `length` and `substr` count characters, and
# `substr` is called with a start of at least 1.
COMMON_FUNCTIONS = frozenset({"coalesce", "count", "exists", "length", "nullif", "substr", "sum"})
FUNCTIONS = COMMON_FUNCTIONS | (
    {"cast", "instr", "json_group_array", "json_object", "lower", "max", "min"}
)
RANDOM_BYTES = ("hex", "(", "randomblob", "(", "", ")", ")")
MAX_RANDOM_BYTES = 4  # of a UUID, before the first of its hyphens
# Words that may stand directly before a parenthesis without being a function.
KEYWORDS = frozenset({"and", "as", "filter", "in", "not", "or", "over", "values", "when", "where"})
# Words of SQLite that mean something else in PostgreSQL, or nothing.
REFUSED = frozenset(
    {"attach", "autoincrement", "glob", "isnull", "like", "match", "notnull", "pragma", "regexp"}
    | {"replace", "rowid", "sqlite_master", "sqlite_schema", "sqlite_sequence", "vacuum"}
)
# What a `+` or `-` before an operand follows.
BEFORE_OPERAND = frozenset(
    {"(", ",", "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "||"}
    | {"and", "by", "case", "else", "having", "in", "not", "on", "or", "select", "set", "then"}
    | {"when", "where", "between", "limit", "offset"}
)
# The columns that insert() returns, where they are not `id`.
ID_COLUMNS = {"event": "sequence"}


@lru_cache(MAX_CACHED_TEXTS)
def translate(sql: str) -> str:
    """Translate one statement: SELECT, INSERT, UPDATE, DELETE or WITH.

    Returns an empty text for the upkeep of a full-text index: PostgreSQL keeps its indexes itself.
    Parameters become `$1` and so on, in the order in which SQLite takes them. Raises
    TranslationError for what has no translation.
    """
    tokens = tokenize(sql)
    if not tokens or tokens[0].word not in STATEMENTS:
        raise TranslationError(f"this is no statement that is translated: {sql}")
    if words(tokens, 0, 2) == ("insert", "into") and is_search_table(tokens[2].text):
        return ""
    return join(translate_tokens(fold_comparisons(_number_parameters(tokens))))


@lru_cache(MAX_CACHED_TEXTS)
def translate_insert(sql: str) -> str:
    """Translate an INSERT of one row so that it returns the new row's id."""
    tokens = tokenize(sql)
    if words(tokens, 0, 2) != ("insert", "into"):
        raise TranslationError(f"this is no INSERT: {sql}")
    column = ID_COLUMNS.get(tokens[2].text.strip('"').lower(), "id")
    return f"{translate(sql)} RETURNING {column}"


def is_search_table(name: str) -> bool:
    """Whether a table is the full-text index of another table."""
    return name.strip('"').lower().endswith("_search")


def translate_tokens(tokens: list[Token]) -> list[Token]:
    """Translate an expression or a statement whose parameters are numbered already."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        index = _translate_one(tokens, index, result)
    return result


def _number_parameters(tokens: list[Token]) -> list[Token]:
    """Write parameters as `$1`: `?` has the number after the highest before it, `?2` its own."""
    numbered, highest = [], 0
    for token in tokens:
        if token.kind == "parameter":
            number = int(token.text[1:] or highest + 1)
            highest = max(highest, number)
            token = Token("parameter", f"${number}", token.spaced)
        numbered.append(token)
    return numbered


def _translate_one(tokens: list[Token], index: int, result: list[Token]) -> int:
    """Translate what begins at `index` to the end of `result`; return the index after it."""
    token, word = tokens[index], tokens[index].word
    following = words(tokens, index + 1)
    before = result[-1].word if result else "("
    if token.kind == "blob":
        result.append(Token("string", f"'\\x{token.text[2:-1]}'::bytea", token.spaced))
    elif word in REFUSED and before != "." or (word == "or" and before in ("insert", "update")):
        raise TranslationError(f"{token.text} has no translation in: {join(tokens)}")
    elif word == "indexed" and following[:1] == ("by",):
        return index + 3
    elif word == "not" and following[:1] == ("indexed",):
        return index + 2
    elif word == "+" and before in BEFORE_OPERAND:
        # It only keeps SQLite from using an index.
        tokens[index + 1] = tokens[index + 1]._replace(spaced=token.spaced)
        return index + 1
    elif word == "is" and not _is_standard(following):
        negated = following[0] == "not"
        result.append(token._replace(text=f"IS {'' if negated else 'NOT '}DISTINCT FROM"))
        return index + 1 + negated
    elif word == "limit" and following[:1] == ("-",):
        raise TranslationError(f"a negative LIMIT has no translation in: {join(tokens)}")
    elif word == "collate":
        collation = tokens[index + 1]
        if collation.word not in COLLATIONS:
            raise TranslationError(f"unknown collation in: {join(tokens)}")
        result += [token, Token("name", COLLATIONS[collation.word])]
        return index + 2
    elif word in ("in", "not") and (end := _translate_among(tokens, index, result)):
        return end
    elif (
        token.kind == "word"
        and following[:1] == ("(",)
        and (not tokens[index + 1].spaced or word in FUNCTIONS)
        and before not in ("into", "references", "conflict", "table", "with", "recursive")
    ):
        return _translate_call(tokens, index, result)
    elif token.kind == "word":
        result.append(token._replace(text=quote(token.text)))
    else:
        result.append(token._replace(text="=") if word == "==" else token)
    return index + 1


def _is_standard(following: tuple[str, ...]) -> bool:
    """Whether IS is followed by what both engines take after it."""
    operand = following[1] if following[0] == "not" else following[0]
    return operand in ("null", "true", "false", "distinct")


def _translate_call(tokens: list[Token], index: int, result: list[Token]) -> int:
    """Translate a call of a function, or a keyword before a parenthesis."""
    token, name = tokens[index], tokens[index].word
    end = closing_index(tokens, index + 1)
    inside = tokens[index + 2 : end]
    if name in KEYWORDS:
        result.append(token)
        return index + 1
    if name not in FUNCTIONS:
        raise TranslationError(f"the function {name} has no translation in: {join(tokens)}")
    if name == "lower":
        result.append(Token("call", _random_text(inside), token.spaced))
        return end + 1
    arguments = [join(translate_tokens(argument)) for argument in split(inside)]
    if name in ("min", "max") and len(arguments) > 1:
        text = _extreme("LEAST" if name == "min" else "GREATEST", arguments)
    elif name == "cast":
        text = _cast(inside)
    elif name == "instr":
        text = f"strpos({', '.join(arguments)})"
    elif name == "json_object":
        text = f"json_build_object({', '.join(arguments)})"
    elif name == "json_group_array":
        text = f"coalesce(json_agg({arguments[0]})::text, '[]')"
    else:
        text = f"{token.text}({', '.join(arguments)})"
    result.append(Token("call", text, token.spaced))
    return end + 1


def _cast(inside: list[Token]) -> str:
    *operand, keyword, type_name = inside
    if keyword.word != "as" or type_name.word not in TYPES:
        raise TranslationError(f"this CAST has no translation: {join(inside)}")
    return f"CAST({join(translate_tokens(operand))} AS {TYPES[type_name.word]})"


def _random_text(inside: list[Token]) -> str:
    """Translate `lower(hex(randomblob(n)))`: letters apart from ASCII differ for `lower` alone."""
    length = int(inside[4].text) if words(inside, 0, len(inside)) == RANDOM_BYTES else None
    if length is None or length > MAX_RANDOM_BYTES:
        raise TranslationError(f"lower({join(inside)}) has no translation")
    return f"substr(CAST(gen_random_uuid() AS TEXT), 1, {2 * length})"


def _extreme(function: str, arguments: list[str]) -> str:
    """The least or greatest of values; NULL if one is NULL, which PostgreSQL leaves out."""
    is_null = " OR ".join(f"{argument} IS NULL" for argument in arguments)
    return f"CASE WHEN {is_null} THEN NULL ELSE {function}({', '.join(arguments)}) END"


def _translate_among(tokens: list[Token], index: int, result: list[Token]) -> int:
    """Translate `IN (SELECT CAST(value AS type) FROM json_each(?))`, also after NOT.

    As an array, because the planner takes its values for few. Returns the index after it, 0 if
    it is something else.
    """
    negated = tokens[index].word == "not"
    start = index + 1 + negated
    if negated and tokens[start - 1].word != "in":
        return 0
    if words(tokens, start, 2) != ("(", "select"):
        return 0
    end = closing_index(tokens, start)
    inside = words(tokens, start + 2, end - start - 2)
    if "json_each" not in inside:
        return 0
    type_name = TYPES.get(inside[4] if len(inside) > 4 else "")
    expected = ("cast", "(", "value", "as", inside[4], ")", "from", "json_each", "(", "", ")")
    if type_name is None or inside != expected:
        raise TranslationError(f"this use of json_each has no translation: {join(tokens)}")
    sign = "<> ALL" if negated else "= ANY"
    values = f"json_array_elements_text(CAST({tokens[end - 2].text} AS JSON)) AS t (value)"
    text = f"{sign} (ARRAY(SELECT CAST(value AS {type_name}) FROM {values}))"
    result.append(Token("call", text))
    return end + 1
