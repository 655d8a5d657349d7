"""Columns that SQLite compares without regard to the case of ASCII letters (COLLATE NOCASE).

PostgreSQL's own case-insensitive comparison follows Unicode, where straße and strasse are equal.
So there such a column is compared, and indexed, as `lower(email)`: under the collation "C", which
all columns have, `lower` changes ASCII letters alone.
"""

from crm.tenancy.engines.sql_tokens import Token, TranslationError, closing_index, join

FOLDED_COLUMNS = frozenset({"email"})  # each is NOCASE in every table that has it
COMPARISONS = frozenset({"=", "==", "<>", "!="})
ENDS_OF_SET = frozenset({"where", "returning", "from"})


def fold_comparisons(tokens: list[Token]) -> list[Token]:
    """Write comparisons of such columns for PostgreSQL; parameters are numbered already.

    Raises TranslationError for a comparison with something unknown.
    """
    if not any(_is_folded(token) for token in tokens):
        return tokens
    tokens = list(tokens)
    depth, set_depth = 0, -1  # of parentheses; where SET stands whose assignments are read
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if token.word == "set":
            set_depth = depth
        elif depth < set_depth or (depth == set_depth and token.word in ENDS_OF_SET):
            set_depth = -1
        if not _is_folded(token) or depth == set_depth:
            continue
        following = [token.word for token in tokens[index + 1 : index + 4]]
        if following[:1] and following[0] in COMPARISONS:
            _fold(tokens, index)
            _fold_operand(tokens, index + 2)
        elif following[:2] == ["in", "("] or following == ["not", "in", "("]:
            _fold(tokens, index)
            _fold_list(tokens, index + following.index("(") + 1)
    return [token for token in tokens if token.kind != "removed"]


def _is_folded(token: Token) -> bool:
    return token.kind in ("word", "name") and token.text.strip('"').lower() in FOLDED_COLUMNS


def _fold(tokens: list[Token], index: int) -> None:
    """Write the column at `index`, with the table before it, in `lower()`."""
    start = index - 2 if index and tokens[index - 1].text == "." else index
    column = join(tokens[start : index + 1])
    tokens[index] = Token("call", f"lower({column})", tokens[start].spaced)
    for number in range(start, index):
        tokens[number] = Token("removed", "")


def _fold_operand(tokens: list[Token], index: int) -> None:
    token = tokens[index]
    if token.kind == "parameter":
        text = f'lower(CAST({token.text} AS TEXT) COLLATE "C")'
        tokens[index] = Token("call", text, token.spaced)
        return
    column = index + 2 if tokens[index + 1 : index + 2] and tokens[index + 1].text == "." else index
    if not _is_folded(tokens[column]):
        raise TranslationError(f"this comparison has no translation: {join(tokens)}")
    _fold(tokens, column)


def _fold_list(tokens: list[Token], start: int) -> None:
    """Fold what stands in the parentheses after IN: parameters, or SELECTs of such a column."""
    end = closing_index(tokens, start)
    if tokens[start + 1].word != "select":
        for index in range(start + 1, end, 2):
            _fold_operand(tokens, index)
        return
    depth = 0
    for index in range(start + 1, end):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if tokens[index].word == "select" and not depth:
            _fold_operand(tokens, index + 1)
