"""Values as they are sent to PostgreSQL and read from it, so that rows look as those of SQLite."""

from collections.abc import Sequence
from typing import Any

from psycopg import adapt
from psycopg.types.string import TextLoader


class BooleanLoader(adapt.Loader):
    """Booleans are read as SQLite has them: 0 and 1."""

    def load(self, data: Any) -> int:
        return 1 if bytes(data) == b"t" else 0


class NumericLoader(adapt.Loader):
    """The sum of integers is read as an integer."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text or b"N" in text else int(text)


LOADERS: tuple[tuple[str, type[adapt.Loader]], ...] = (
    ("json", TextLoader),
    ("jsonb", TextLoader),
    ("bool", BooleanLoader),
    ("numeric", NumericLoader),
)


def encode(params: Sequence[Any]) -> tuple[list[bytes | None], list[int] | None]:
    """Return the values of parameters as libpq takes them, and their formats."""
    values: list[bytes | None] = []
    formats = None  # all texts
    for value in params:
        if value is None:
            values.append(None)
        elif isinstance(value, str):
            # A text ends at NUL there; losing the rest silently would be worse.
            values.append(value.replace("\0", "\ufffd").encode())
        elif isinstance(value, (bytes, bytearray, memoryview)):
            formats = formats or [0] * len(params)
            formats[len(values)] = 1
            values.append(bytes(value))
        else:  # int, float and bool; True is 1, as SQLite has it
            values.append(repr(+value).encode())
    return values, formats
