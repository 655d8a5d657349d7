"""Which column of a file is which field of a record: as it seems to be, and as it was said.

A mapping is {column of the file: field, `extra.<name>`, or null to leave it out}; a column that it
does not name is left out too.
"""

from collections.abc import Container

from crm.errors import Fault, Invalid
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
KEYS = ("external_id", "sku", "phone", "email", "tax_number")


def own_mapping(resource: ImportableResource, names: list[str]) -> dict[str, str | None] | None:
    """{column of a file: our column that it is by its name or label}; None if it has others."""
    known: dict[str, str] = {}
    for column in resource.all_columns:
        labels = (header(column.name, column.label, language) for language in LANGUAGES)
        for name in (*labels, *column.aliases, column.name):
            known[name.lower()] = column.name
    own = [name for name in names if name != ERROR_COLUMN and not name.startswith("#")]
    if not all(name.lower() in known for name in own):
        return None
    return {name: known[name.lower()] for name in own}


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
