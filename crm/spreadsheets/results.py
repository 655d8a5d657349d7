"""What became of the rows of a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ERROR_COLUMN = "error"  # the first column of a file of rejected rows


class RowFault(NamedTuple):
    """Why a row is rejected; `column` is None for the row as a whole."""

    column: str | None
    code: str
    detail: str

    @property
    def message(self) -> str:
        return f"{self.column}: {self.detail}" if self.column else self.detail


class RejectedRow(NamedTuple):
    line: int
    reason: str
    cells: Sequence[str]


@dataclass(slots=True)
class Result:
    """The counts of an import, in records, and its first errors {line, column, code, message}."""

    created: int
    updated: int
    unchanged: int
    rejected: int
    errors: list[dict[str, Any]]
    import_id: int | None = None  # None of a dry run
    batch_id: int | None = None

    @property
    def skipped(self) -> int:
        return self.unchanged + self.rejected

    def counts(self) -> dict[str, int]:
        """The counts that answers and events have (spec: Products)."""
        return {"created": self.created, "updated": self.updated, "skipped": self.skipped}
