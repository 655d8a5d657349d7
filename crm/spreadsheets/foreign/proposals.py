"""How a file could be read: what each of its columns seems to be, and what only a person knows."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from crm.errors import Invalid
from crm.spreadsheets.csv_format import Sheet, UnusableFile
from crm.spreadsheets.foreign import headers
from crm.spreadsheets.foreign.headers import MAX_LARGE_ROWS, Guess, read_table
from crm.spreadsheets.foreign.mapping import own_names
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.reader import ParsedFile, read_file
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import ERROR_COLUMN, ImportableResource

# Columns that name other records.
REFERENCES = ("assigned_to", "pipeline", "stage", "client", "contact")
# Errors of a file without a mapping that one may remedy.
HEADER_CODES = ("unknown_column", "missing_column", "duplicate_column")


class FileProposal(NamedTuple):
    """`table` is the file as it is, `options` how to read it, `file` what that gives."""

    table: Sheet
    guesses: list[Guess]
    options: ImportOptions
    file: ParsedFile | None
    asks_date_order: bool = False

    @property
    def entries(self) -> int:
        return len(self.table.rows if self.file is None else self.file.entries)

    @property
    def left_out(self) -> int:
        return 0 if self.file is None else self.file.left_out

    @property
    def asks_decimal_mark(self) -> bool:
        """Whether a column of numbers does not tell which mark is the decimal one."""
        faults = self.file.faults.values() if self.file else ()
        return any(fault.code == "ambiguous_number" for row in faults for fault in row)

    @property
    def is_sure(self) -> bool:
        """Whether nothing has to be asked: all columns that have any content are known."""
        confidences = {guess.confidence for guess in self.guesses if guess.samples}
        return bool(self.file) and not self.asks_decimal_mark and confidences <= {headers.SURE}


def propose(
    data: bytes,
    resource: ImportableResource,
    options: ImportOptions = PLAIN,
    **reading: Any,
) -> FileProposal:
    """Find out what the columns of a file are, by the mapping of the options as far as it goes.

    `reading` goes to read_file(). Raises TooLarge, and Invalid for a file that is no table.
    """
    resource = resource.of_tenant()
    table, _ = read_table(data, resource, options, reading.get("max_rows", MAX_LARGE_ROWS))
    guesses = headers.guess(resource, table.columns, [cells for _, cells in table.rows])
    guesses = [guess for guess in guesses if guess.file != ERROR_COLUMN]
    said, attempts = options.mapping, list[ImportOptions]()
    if said is None:
        with suppress(UnusableFile):
            names, _ = own_names(resource, table.columns)
            pairs = zip(table.columns, names, strict=True)
            said = {column: name for column, name in pairs if name}
            attempts.append(options)
    if said is not None:
        guesses = [g._replace(field=said.get(g.file)) for g in guesses]
        guesses = [g._replace(confidence=headers.SURE) if g.file in said else g for g in guesses]
    attempts.append(replace(options, mapping={guess.file: guess.field for guess in guesses}))
    file, asks_date_order = None, False
    for options in attempts:
        try:
            file = read_file(data, resource, options=options, **reading)
            break
        except Invalid as invalid:  # a person has to say more
            if invalid.faults[0].where == "/key":
                raise
            asks_date_order = invalid.faults[0].where == "/date_order"
    return FileProposal(table, guesses, options, file, asks_date_order)


def unanswered(resource: ImportableResource, file: ParsedFile) -> dict[str, list[str]]:
    """{column: texts that name nothing} of a file, as far as nobody has said what they mean."""
    unknown: dict[str, list[str]] = {}
    references = References(ImportOptions(mapping={}))
    own_references = [column.name for column in resource.custom_columns if column.shows]
    for column in (*REFERENCES, *own_references):
        # A client is found by a phone or an e-mail, too, unless these are those of its contact.
        has_contact = "contact" in file.values
        names = [column, *(f"{column}_{name}" for name in ("email", "phone") if not has_contact)]
        for cells in dict.fromkeys(zip(*map(file.column_values, names), strict=True)):
            values = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
            text = next(iter(values.values()), None)
            if text is None or file.options.choice(column, text):
                continue
            try:
                resource.resolve_references(values, None, None, references)
            except Invalid as invalid:
                if invalid.faults[0].code == "not_found" and text not in unknown.get(column, ()):
                    unknown.setdefault(column, []).append(text)
    for row, faults in file.faults.items():
        for fault in faults:
            column = fault.column or ""
            if fault.code == "invalid_choice" and column in file.sheet.columns:
                text = file.rows[row][1][file.sheet.columns.index(column)]
                if text not in unknown.setdefault(column, []):
                    unknown[column].append(text)
    return unknown
