"""Columns that SQLite compares without regard to the case of ASCII letters (COLLATE NOCASE).

PostgreSQL's own case-insensitive comparison follows Unicode, where straße and strasse are equal.
So there such a column is compared, and indexed, as `lower(email)`: under the collation "C", which
all columns have, `lower` changes ASCII letters alone.
"""

from crm.storage.postgres.sql_tokens import (
    Token,
    TranslationError,
    closing_index,
    join,
    quote,
    words,
)

FOLDED_COLUMNS = frozenset({"email"})  # each is NOCASE in every table that has it
# Of these `=`, `<>` and IN are translated, if they stand after the column.
COMPARISONS = frozenset(
    {"=", "<>", "!=", "<", ">", "<=", ">=", "in", "not", "is", "between", "distinct", "~~"}
)
CLAUSES = frozenset(
    {"select", "from", "where", "by", "having", "limit", "values", "set", "returning"}
)


def fold_comparisons(tokens: list[Token]) -> list[Token]:
    """Write comparisons of such columns for PostgreSQL; parameters are numbered already.

    Raises TranslationError where one is compared with something unknown, sorted, or grouped.
    """
    if not any(map(is_folded, tokens)):
        return tokens
    tokens = list(tokens)
    clauses = [""]  # that is being read, at each depth of parentheses
    for index, token in enumerate(tokens):
        if token.text == "(":
            clauses.append("")
        elif token.text == ")":
            clauses.pop()
        elif token.word in CLAUSES or (token.word == "distinct" and clauses[-1] == "select"):
            clauses[-1] = token.word
        if not is_folded(token) or clauses[-1] == "set":  # there it is assigned
            continue
        before, after = words(tokens, index - 1, 1), words(tokens, index + 1)
        if after[:2] == ("is", "null") or after == ("is", "not", "null"):
            continue
        if clauses[-1] in ("by", "distinct") or (index and before[0] in COMPARISONS):
            raise TranslationError(f"this comparison has no translation: {join(tokens)}")
        if after[:1] in (("=",), ("<>",), ("!=",)):
            _fold(tokens, index)
            _fold(tokens, index + 2)
        elif after[:2] == ("in", "(") or after == ("not", "in", "("):
            _fold(tokens, index)
            _fold_list(tokens, index + after.index("(") + 1)
        elif after and after[0] in COMPARISONS:
            raise TranslationError(f"this comparison has no translation: {join(tokens)}")
    return tokens


def is_folded(token: Token) -> bool:
    """Whether it is such a column."""
    name = token.text.rpartition(".")[2].strip('"').lower()
    return token.kind == "word" and name in FOLDED_COLUMNS


def _fold(tokens: list[Token], index: int) -> None:
    """Write the column or the parameter at `index` in `lower()`."""
    token = tokens[index]
    if token.kind == "parameter":
        text = f'CAST({token.text} AS TEXT) COLLATE "C"'
    elif is_folded(token):
        text = quote(token.text)
    else:
        raise TranslationError(f"this comparison has no translation: {join(tokens)}")
    tokens[index] = Token("call", f"lower({text})", token.spaced)


def _fold_list(tokens: list[Token], start: int) -> None:
    """Fold what stands in the parentheses after IN: parameters, or SELECTs of such a column."""
    is_query = tokens[start + 1].word == "select"
    depth = 0
    for index in range(start + 1, closing_index(tokens, start)):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        is_value = tokens[index - 1].word == "select" if is_query else tokens[index].text != ","
        if is_value and not depth:
            _fold(tokens, index)
