"""The file of a request, and what the request says about it.

A choice comes as a query parameter or as a part of the form beside the file; a part goes first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from flask import Request
from werkzeug.datastructures import MultiDict

from crm.api.bodies import read_uploaded_file
from crm.errors import Invalid
from crm.json import loads
from crm.records import fields, parameters, queries
from crm.spreadsheets.foreign.mapping import KEYS
from crm.spreadsheets.options import DATE_ORDERS, KNOWN, ON_EMPTY, UNKNOWN, ImportOptions
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES, ParsedFile, read_file
from crm.spreadsheets.resource import ImportableResource
from crm.storage.heavy_work import heavy_work
from crm.values import InvalidValue

MAX_MAPPING_CHARACTERS = 30_000
DIALECT = parameters.Option(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)


class Mapping(fields.Field):
    """The text of a JSON object {column of the file: field, or null to leave it out}."""

    wire_schema = {"type": "string", "maxLength": MAX_MAPPING_CHARACTERS}

    def read(self, value: Any) -> dict[str, str | None]:
        try:
            mapping = loads(value) if len(value) <= MAX_MAPPING_CHARACTERS else None
        except (ValueError, RecursionError):
            mapping = None
        if not isinstance(mapping, dict) or not all(
            field is None or isinstance(field, str) for field in mapping.values()
        ):
            detail = 'must be a JSON object such as {"Артикул": "sku", "Залишок": null}'
            raise InvalidValue("invalid_json", detail)
        return mapping


class ImportFilter(queries.Filter):
    dry_run = parameters.Option(
        fields.Choice("true", "false"), "`true`: only count, write nothing."
    )
    dialect = DIALECT
    sheet = parameters.Option(
        fields.Text(31), "The sheet of a workbook (.xlsx), by default the first one."
    )
    mapping = parameters.Option(
        Mapping(), "Which field each column of the file is; without it the file has our columns."
    )
    on_empty = parameters.Option(
        fields.Choice(*ON_EMPTY),
        "Whether empty cells keep or clear fields; by default `keep`.",
    )
    key = parameters.Option(
        fields.Choice(*KEYS), "The field that finds known records, as far as the resource has it."
    )
    known = parameters.Option(
        fields.Choice(*KNOWN), "What becomes of a record that `key` finds; by default `update`."
    )
    date_order = parameters.Option(
        fields.Choice(*DATE_ORDERS), "With a mapping: which is first in dates such as 03/04/2026."
    )
    unknown_references = parameters.Option(
        fields.Choice(*UNKNOWN),
        "With a mapping: whether colleagues, stages and clients that do not exist are created or"
        " left out; by default their rows are rejected.",
    )


OPTIONS = ("mapping", "on_empty", "key", "known", "date_order", "unknown_references")
MAPPED_ONLY = ("date_order", "unknown_references")
IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect", "sheet", *OPTIONS))


class Upload(NamedTuple):
    """What a request has sent: a file under its name, and how to read it."""

    name: str | None
    data: bytes
    excel: bool
    sheet: str | None
    options: ImportOptions

    def parse(self, resource: ImportableResource) -> ParsedFile:
        """The rows of the file, each cell checked, as heavy work. Raises Invalid, TooLarge."""
        with heavy_work():
            return read_file(self.data, resource, self.excel, self.sheet, self.options)


class UploadReader:
    """Reads the file of a request for an operation of a resource: the operation's `upload`.

    read: makes of the file what the operation takes.
    """

    filter, parts = IMPORT_FILTER, OPTIONS  # parts of the form beside the file

    def __init__(
        self, resource: ImportableResource, read: Callable[[ImportableResource, Upload], Any]
    ):
        self._resource, self._read = resource, read

    def __call__(self, request: Request) -> Any:
        """Raises what read_uploaded_file() does, and Invalid."""
        name, data, parts = read_uploaded_file(request, "file", MAX_LARGE_FILE_BYTES, OPTIONS)
        chosen = IMPORT_FILTER.read(request.args).options
        chosen |= IMPORT_FILTER.read(MultiDict(parts)).options
        return self.of_bytes(data, chosen, name)

    def of_bytes(self, data: bytes, chosen: dict[str, Any], name: str | None = None) -> Any:
        """The same of a file with the options of ImportFilter. Raises Invalid."""
        values = {option: chosen[option] for option in OPTIONS if option in chosen}
        if "mapping" not in values:
            for option in MAPPED_ONLY:
                if option in values:
                    raise Invalid.field(option, "needs_mapping", "goes with a mapping")
        if unknown := values.pop("unknown_references", None):
            values["unknown"] = {"*": {"*": unknown}}
        excel, options = chosen.get("dialect") == "excel", ImportOptions(**values)
        return self._read(self._resource, Upload(name, data, excel, chosen.get("sheet"), options))
