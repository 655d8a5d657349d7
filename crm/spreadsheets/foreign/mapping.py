"""Which column of a file is which field of a record: as it seems to be, and as it was said.

A mapping is {column of the file: field, `extra.<name>`, or null to leave it out}; a column that it
does not name is left out too. The header of a file of ours implies one.
"""

import re
from collections.abc import Container, Sequence

from crm.errors import Fault, Invalid
from crm.spreadsheets.cells import without_guard
from crm.spreadsheets.csv_format import UnusableFile
from crm.spreadsheets.foreign.aliases import (
    COMBINED,
    OF_CLIENT,
    SEVERAL,
    aliases_of,
    fields_of,
    normalise,
)
from crm.spreadsheets.labels import LANGUAGES, header
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.resource import ERROR_COLUMN, ImportableResource

EXTRA = "extra."
UNNAMED = re.compile("#[0-9]+")  # what stands for a column without a name
MAX_NAMED_COLUMNS = 20  # unknown columns that a message names
KEYS = ("external_id", "sku", "phone", "email", "tax_number")


def own_names(resource: ImportableResource, cells: Sequence[str]) -> tuple[list[str], bool]:
    """Our column that each cell of a header is, empty where it has no name; or UnusableFile.

    And whether these are the names of files for programs, not what people call them.
    """
    by_name = {"": "", ERROR_COLUMN: ERROR_COLUMN}
    for column in resource.all_columns:
        by_name |= dict.fromkeys((*column.aliases, column.name), column.name)
    texts = ["" if UNNAMED.fullmatch(cell) else cell.strip().lower() for cell in cells]
    written = [without_guard(text) for text in texts]
    other = [name for name in dict.fromkeys(written) if name not in by_name]
    by_label = {
        header(column.name, column.label, language).lower(): column.name
        for column in resource.all_columns
        for language in LANGUAGES
        if other
    }
    if not by_label.keys() >= {*other}:
        named = ", ".join(repr(name[:40]) for name in other[:MAX_NAMED_COLUMNS])
        detail = f"unknown column{'s' * (len(other) > 1)} {named}: the columns are "
        raise UnusableFile("unknown_column", detail + ", ".join((*resource.column_names, "error")))
    names = [by_name.get(name) or by_label.get(name, "") for name in written]
    for name in filter(None, names):
        if names.count(name) > 1:
            raise UnusableFile("duplicate_column", f"the column {name!r} is there more than once")
    for name in resource.required_columns:
        if name not in names:
            raise UnusableFile("missing_column", f"the column {name!r} is missing from the header")
    return names, not other


def check_mapping(
    resource: ImportableResource, names: list[str], options: ImportOptions
) -> dict[str, str]:
    """{field: column of the file}, or Invalid: every fault of the mapping at its column.

    Further columns of one field are `phone 2`, `phone 3`; first is that with the best header.
    """
    known, columns, faults = fields_of(resource), dict[str, list[str]](), list[Fault]()
    by_name = {name.strip().casefold(): name for name in names}
    for given, field in (options.mapping or {}).items():
        where, column = f"/mapping/{given}", by_name.get(given.strip().casefold())
        if field is None or field == "":
            continue
        if column is None:
            faults.append(Fault(where, "unknown_column", f"the file has no column {given!r}"))
        elif field not in known and not (
            "extra" in resource.column_names and field.startswith(EXTRA) and field != EXTRA
        ):
            detail = f"{given!r} cannot be {field!r}: there is no such field"
            faults.append(Fault(where, "unknown_field", detail))
        elif field in columns and field.removeprefix(OF_CLIENT) not in SEVERAL:
            detail = f"both {columns[field][0]!r} and {given!r} are to be {field!r}: choose one"
            faults.append(Fault(where, "duplicate_column", detail))
        else:
            columns.setdefault(field, []).append(column)
    for name in resource.required_columns:
        stand_ins = [part for part, of in COMBINED.get(resource.plural, {}).items() if of == name]
        if columns.keys().isdisjoint([name, *stand_ins]):
            detail = f"no column of the file is {name!r}: every row needs it"
            faults.append(Fault("/mapping", "missing_column", detail))
    if faults:
        raise Invalid(faults)
    places = dict[str, str]()
    for field, several in columns.items():
        texts = aliases_of(resource).get(field, ())
        several.sort(key=lambda name: [normalise(name) != text for text in texts])
        for number, column in enumerate(several, 1):
            places[field if number == 1 else f"{field} {number}"] = column
    return places


def check_key(resource: ImportableResource, columns: Container[str], key: str) -> None:
    """Raise Invalid for a key that the resource or the file lacks."""
    keys = [name for name in KEYS if name in resource.column_names]
    if key not in keys:
        raise Invalid.field("key", "invalid_choice", f"must be one of {', '.join(keys)}")
    if key not in columns:
        detail = f"no column of the file is {key!r}, the key"
        raise Invalid.field("key", "missing_column", detail)
