"""The tokens of SQL statements in canonical spelling, which is SQLite's."""

import re
from typing import NamedTuple

NAME = r'(?:[A-Za-z_]\w*|"(?:[^"]|"")+")'
PATTERN = re.compile(
    rf"""
    (?P<space>(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+)
    |(?P<string>'(?:[^']|'')*')
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?![\w.]))
    |(?P<word>{NAME}(?:\.{NAME})*(?![\w']))
    |(?P<parameter>\?\d*)
    |(?P<operator>\|\||<>|<=|>=|!=|~~|-(?!>)|=(?!=)|\+(?=\s)|[*/%<>(),.;])
    """,
    re.VERBOSE | re.DOTALL,
)
# Names of the data model that are keywords in PostgreSQL: `user` would be the database's user.
RESERVED_NAMES = frozenset({"user", "session_user"})


class TranslationError(RuntimeError):
    """A statement has something that has no translation: an error of this program."""


class Token(NamedTuple):
    """A token of a statement.

    kind: a group of PATTERN; a word is a keyword or a name, also `lead.id`. spaced: whether space
    stands before it.
    """

    kind: str
    text: str
    spaced: bool = True

    @property
    def word(self) -> str:
        """A keyword or a name in lower case, an operator as it is; else empty."""
        return self.text.lower() if self.kind in ("word", "operator") else ""


def tokenize(sql: str) -> list[Token]:
    """Split a statement into tokens, without comments and a semicolon at its end.

    Raises TranslationError for a character that begins no token.
    """
    tokens: list[Token] = []
    position, spaced = 0, False
    while position < len(sql):
        match = PATTERN.match(sql, position)
        if match is None:
            raise TranslationError(f"no token begins with {sql[position : position + 20]!r}")
        position = match.end()
        kind = str(match.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, match.group(), spaced))
        spaced = kind == "space"
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return tokens


def join(tokens: list[Token]) -> str:
    """Write tokens as a text again."""
    return "".join(f" {token.text}" if token.spaced else token.text for token in tokens).strip()


def closing_index(tokens: list[Token], start: int) -> int:
    """Return the index of the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if not depth:
            return index
    raise TranslationError(f"a parenthesis is not closed in: {join(tokens)}")


def split(tokens: list[Token]) -> list[list[Token]]:
    """Split tokens at the commas that stand outside of parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def words(tokens: list[Token], start: int = 0, count: int = 3) -> tuple[str, ...]:
    """Return `Token.word` of some tokens, for comparisons."""
    return tuple(token.word for token in tokens[start : start + count])


def quote(name: str) -> str:
    """Write a name, maybe with that of its table, with quotes where PostgreSQL needs them."""
    parts = name.split(".")
    return ".".join(f'"{part}"' if part.lower() in RESERVED_NAMES else part for part in parts)
