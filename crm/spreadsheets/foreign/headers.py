"""Which field each column of a foreign file is, guessed from its header and its cells.

A wrong guess is worse than none: a header must be an alias of the field (aliases.json), as it
stands or without its language, currency or number, and the cells must not contradict it.
"""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from crm.records import fields
from crm.records.custom import types as custom_types
from crm.records.custom.fields import PREFIX
from crm.spreadsheets.cells import is_date, is_number
from crm.spreadsheets.conversion import plain_csv
from crm.spreadsheets.csv_columns import BadCell
from crm.spreadsheets.csv_format import Sheet, decode, find_header, read_rows
from crm.spreadsheets.foreign.aliases import (
    COMBINED,
    NAME_PARTS,
    OF_CLIENT,
    SEVERAL,
    aliases_of,
    fields_of,
    normalise,
)
from crm.spreadsheets.foreign.mapping import EXTRA, own_names
from crm.spreadsheets.labels import word_key, words
from crm.spreadsheets.marked_cells import shown
from crm.spreadsheets.options import PLAIN, ImportOptions
from crm.spreadsheets.resource import ERROR_COLUMN, MAX_TENANTS, ImportableResource

# Texts that are neither numbers nor phones.
WORDS = {*NAME_PARTS, "name", "company", "position", "client", "contact", "category", "source"}
WORDS |= {"unit", "stage", "pipeline", "assigned_to", "lost_reason", "title"}
MAX_SAMPLED_ROWS = 200
SAMPLES = 3
CONFIDENCES = SURE, LIKELY, NONE = "sure", "likely", "none"
FURTHER_DISTANCE = 3  # of the header of a second phone

# "Назва (UA)", "Опис укр", "Ціна, грн", "E-mail 1 - Value", "Телефон 2 (контакт)"
SUFFIX = re.compile(
    r" (?:ua|uk|ukr|укр|українською|ru|рос|en|англ|uah|usd|eur|грн|₴|\$|value|контакт|контакта)$"
)
NUMBER_SUFFIX = re.compile(r" ?1$")
FURTHER = re.compile(r" ?[2-9]\b")  # "E-mail 2 Address"
REACH = re.compile(r"phone|fax|mail|телефон|факс|пошта|почта")
PHONE_OR_EMAIL = re.compile(r"@|(?:\d\D?){7}")
NUMBER_SIGNS = "#№ "  # before the number of an order
MAX_LARGE_ROWS = 100_000  # of a file of an API or a page
MAX_COLUMNS = 1000  # what stands to the right of them is under no column
MAX_HEADER_LINES = 10  # with content, of which one is the header


class Guess(NamedTuple):
    """A column of a file: what it seems to be, how sure that is, and some cells.

    field: None, or as a mapping has it.
    """

    file: str
    field: Any
    confidence: str
    samples: list[str]


@lru_cache(maxsize=5 * MAX_TENANTS)
def _fields_by_alias(resource: ImportableResource) -> dict[str, list[tuple[int, str]]]:
    by_alias: dict[str, list[tuple[int, str]]] = {}
    for name, texts in aliases_of(resource).items():
        # What the tenant calls a field goes before what others call theirs.
        for rank, text in enumerate(texts, -name.startswith(PREFIX)):
            by_alias.setdefault(text, []).append((rank, name))
    return by_alias


def count_known(resource: ImportableResource, cells: Sequence[str]) -> int:
    """How many cells of a line are headers that the resource knows."""
    known = _fields_by_alias(resource.of_tenant())
    return sum(
        any(form in known for _, form in _forms(known, cell)) for cell in cells if cell.strip()
    )


def read_table(
    data: bytes,
    resource: ImportableResource,
    options: ImportOptions = PLAIN,
    max_rows: int = MAX_LARGE_ROWS,
    is_own: bool = False,
    excel: bool | None = False,
) -> tuple[Sheet, dict[str, str | None] | None]:
    """The rows of a file with the names of its columns as they are written, or UnusableFile.

    The header is in the line that the options say, else the one that has most headers known to the
    resource. A column without a name is `#` and its number, and a name that repeats gets a number
    too. The mapping is that of the options.

    Of a file that `is_own` it is the one that the header, in the first line by default, implies;
    or None if that is one for programs: the table has our names then, and cells that a row lacks
    are empty. In the excel dialect, None: if the file has semicolons, one leading `'` is taken off
    each cell of such a file.
    """
    includes_hidden = options.hidden_rows == "read"
    plain = plain_csv(data, options.sheet, includes_hidden, resource)
    encoding, content = decode(plain.data)
    line, marks = options.header_line or 1, ",;\t" if is_own and not excel else ";,\t"
    max_lines = 1 if is_own or options.header_line else MAX_HEADER_LINES
    header = find_header(content, partial(count_known, resource), marks, max_lines, line)
    columns, mapping = _unique_names(header.cells[:MAX_COLUMNS]), options.mapping
    places = list(range(len(columns)))
    if is_own:
        names, is_for_programs = own_names(resource, header.cells)
        if is_for_programs:
            places = [at for at, name in enumerate(names) if name]
            columns = [names[at] for at in places]
        else:
            pairs = zip(columns, names, strict=False)  # without those beyond MAX_COLUMNS
            mapping = {column: name for column, name in pairs if name not in ("", ERROR_COLUMN)}
    if excel is None or mapping is not None:  # any program may have saved it, in another dialect
        excel = excel or header.delimiter == ";"
    excel = excel and not plain.format
    rows, errors = read_rows(content, header, places, max_rows, excel and mapping is None)
    read_as = (plain.format or encoding, header.delimiter, header.line, excel)
    return Sheet(columns, rows, errors, *read_as, **plain.counts), mapping


def _unique_names(header: list[str]) -> list[str]:
    names: list[str] = []
    for number, cell in enumerate(header, 1):
        name = " ".join(cell.split()) or f"#{number}"
        copies = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({copies + 1})" if name in names else name)
    return names


def guess(
    resource: ImportableResource, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[Guess]:
    """What each column of a file seems to be; each field is given to one column at most.

    But for phones and e-mails: further ones are the same field, or other data if no header tells.
    """
    columns = [_cells(rows, at) for at in range(len(header))]
    chosen: dict[int, tuple[str, str]] = {}
    for _, at, name, certainty in sorted(_candidates(resource, header, columns)):
        is_further = name.removeprefix(OF_CLIENT) in SEVERAL and columns[at]
        if at not in chosen and (is_further or all(name != other for other, _ in chosen.values())):
            chosen[at] = name, certainty
    _choose_names(resource, chosen)
    guesses = []
    for at, name in enumerate(header):
        field, confidence = chosen.get(at) or (None, NONE)
        is_person = "extra" in resource.column_names and REACH.search(normalise(name))
        if field is None and is_person and any(map(PHONE_OR_EMAIL.search, columns[at])):
            field, confidence = f"{EXTRA}{name}", LIKELY
        guesses.append(Guess(name, field, confidence, list(dict.fromkeys(columns[at]))[:SAMPLES]))
    return guesses


def _cells(rows: Sequence[Sequence[str]], at: int) -> list[str]:
    return [cell for row in rows[:MAX_SAMPLED_ROWS] if (cell := shown(row[at]).strip())]


def _forms(known: Container[str], header: str) -> Iterator[tuple[int, str]]:
    """(how far it is from what is written, the header), the header's own form first.

    That is the whole header if it is known, such as `Organization - Name`, else it without its
    subject.
    """
    whole = normalise(header, with_subject=True)
    text = whole if whole in known else normalise(header)
    yield 0, text
    short = text
    while short != (shorter := SUFFIX.sub("", short)):
        short = shorter
    if short != text:
        yield 1, short
    if short != (numbered := NUMBER_SUFFIX.sub("", short)):
        yield 2, numbered
    if short != (numbered := FURTHER.sub("", short, count=1)):
        yield FURTHER_DISTANCE, numbered


def _candidates(
    resource: ImportableResource, header: Sequence[str], columns: list[list[str]]
) -> Iterator[tuple[tuple[bool, int, int], int, str, str]]:
    """((how good it is), place, field, confidence) of what the columns may be; the best first."""
    by_alias = _fields_by_alias(resource.of_tenant())
    for at, (name, cells) in enumerate(zip(header, columns, strict=True)):
        for distance, form in _forms(by_alias, name):
            for rank, field in by_alias.get(form, ()):
                is_one = distance < FURTHER_DISTANCE or field.removeprefix(OF_CLIENT) in SEVERAL
                if is_one and _fits(resource, field, cells):
                    yield (not cells, distance, rank), at, field, LIKELY if distance else SURE


def _choose_names(resource: ImportableResource, chosen: dict[int, tuple[str, str]]) -> None:
    """`Ім'я` is the first name beside a surname, and else the whole one."""
    places = {field: at for at, (field, _) in chosen.items()}
    target = COMBINED.get(resource.plural, {}).get("first_name")
    if target is None or "first_name" not in places or "last_name" in places:
        return
    at = places["first_name"]
    if target in places or "middle_name" in places:
        del chosen[at]
    else:
        chosen[at] = target, chosen[at][1]


def _fits(resource: ImportableResource, field: str, cells: list[str]) -> bool:
    """Whether cells may be values of a field."""
    known = fields_of(resource)
    column = known[field] or known[COMBINED[resource.plural][field]]
    wire = column.field if column else None
    of_words = (fields.Choice, fields.Boolean, fields.Currency, custom_types.Choices)
    if column and isinstance(wire, of_words):
        return BadCell not in set(map(type, column.read_cells(cells)))
    if field == "currency":
        return all(word_key(cell) in words("currency") for cell in cells)
    checks: list[tuple[type, Callable[[str], bool]]] = [
        (fields.Phone, lambda cell: sum(map(str.isdecimal, cell)) >= 7 and "@" not in cell),
        (fields.Email, lambda cell: "@" in cell),
        (fields.Number, is_number),
        (fields.DateTime, is_date),
        (fields.Date, is_date),
    ]
    for kind, is_value in checks:
        if isinstance(wire, kind):
            return _most(cells, is_value)
    if column and column.custom:  # it is called as the header
        return True
    if field == "extra":
        return all(cell.startswith("{") for cell in cells)
    is_other = is_date if field not in WORDS else _is_date_or_number
    may_be_email = field in ("assigned_to", "comment", "description")
    return not cells or not (
        _most(cells, is_other) or (_most(cells, lambda cell: "@" in cell) and not may_be_email)
    )


def _is_date_or_number(cell: str) -> bool:
    return is_date(cell) or is_number(cell.lstrip(NUMBER_SIGNS))


def _most(cells: list[str], is_value: Callable[[str], bool]) -> bool:
    return sum(map(is_value, cells)) >= 0.7 * len(cells)
