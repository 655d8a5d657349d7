"""How one file is to be read and imported, beyond its content (D9)."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from crm.json import dumps, loads

DATE_ORDERS = ("day", "month")
ON_EMPTY = ("keep", "clear")
KNOWN = ("update", "skip")
UNKNOWN = ("create", "skip")
HIDDEN_ROWS = ("skip", "read")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The choices of a person or a program for one file.

    mapping: {column of the file: field, `extra.<name>`, {"new_field": definition}, or None to leave
    it out}; None: the file has our own columns. header_line: where the header is, by default found.
    sheet: which one of a workbook, by default the first. hidden_rows: whether its hidden rows are
    left out or read.
    on_empty: whether an empty cell keeps or clears the field of a known record.
    key: the field that finds known records, by default id and external_id, or the sku.
    known: what happens with a record that `key` finds: update or skip.
    date_order: whether the day or the month is first in 03/04/2026, where the file does not tell.
    decimal_mark: a key of cells.DECIMAL_MARKS, by which 1,250 has decimals or thousands, where its
    column does not tell.
    unknown_references: "create" or "skip" colleagues, stages and others that do not exist; by
    default their rows are rejected. unknown_values: {column: {text or "*": create, skip or
    "=<text of the one meant>"}} for single columns and texts, also of choices.
    """

    mapping: dict[str, Any] | None = None
    header_line: int | None = None
    sheet: str | None = None
    hidden_rows: str = "skip"
    on_empty: str = "keep"
    key: str | None = None
    known: str = "update"
    date_order: str | None = None
    decimal_mark: str | None = None
    unknown_references: str | None = None
    unknown_values: dict[str, dict[str, str]] = field(default_factory=dict)

    def choice(self, column: str, text: str) -> str | None:
        """What becomes of a text that names nothing: create, skip, `=<another text>`, or None."""
        choices = self._choices(column)
        return choices.get(text, choices["*"])

    def creates(self, column: str) -> bool:
        """Whether texts of a column that name nothing may be created."""
        return "create" in self._choices(column).values()

    def _choices(self, column: str) -> dict[str, str | None]:
        return {"*": self.unknown_references, **self.unknown_values.get(column, {})}

    def as_json(self) -> str:
        """The options as a text that from_json() reads."""
        return dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """The options that as_json() wrote; the default ones from an empty text."""
        values: dict[str, Any] = loads(text) if text else {}
        return cls(**values)


PLAIN = ImportOptions()
