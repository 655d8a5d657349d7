"""The file of a request, and what the request says about it.

A choice comes as a query parameter or as a part of the form beside the file; a part goes first.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from flask import Request
from werkzeug.datastructures import MultiDict

from crm.api.bodies import read_uploaded_file
from crm.errors import Invalid
from crm.json import loads
from crm.records import fields, parameters, queries
from crm.spreadsheets.foreign.mapping import KEYS
from crm.spreadsheets.options import DATE_ORDERS, KNOWN, ON_EMPTY, UNKNOWN, ImportOptions
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES
from crm.storage.heavy_work import heavy_work
from crm.values import InvalidValue

MAX_JSON_CHARACTERS = 30_000
DIALECT = parameters.Option(
    fields.Choice("excel"), "`excel`: BOM, semicolons, decimal comma, no formulas."
)


class JsonText(fields.Field):
    """The text of a JSON object; `is_valid` tells of each of its values whether it is one."""

    wire_schema = {"type": "string", "maxLength": MAX_JSON_CHARACTERS}

    def __init__(self, is_valid: Callable[[Any], bool], example: str):
        super().__init__(example=example)
        self._is_valid = is_valid

    def read(self, value: Any) -> dict[str, Any]:
        try:
            sent = loads(value) if len(value) <= MAX_JSON_CHARACTERS else None
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict) or not all(map(self._is_valid, sent.values())):
            raise InvalidValue("invalid_json", f"must be a JSON object such as {self.example}")
        return sent


class NumberText(fields.Integer):
    """The digits of a whole number in a range."""

    def read(self, value: str) -> int:
        is_number = value.isascii() and value.isdecimal() and len(value) < 6
        return super().read(int(value) if is_number else value)


def _is_choices(value: Any) -> bool:
    """Whether it is {text: what becomes of it}, as in ImportOptions.unknown_values."""
    return isinstance(value, dict) and all(
        isinstance(choice, str) and (choice in UNKNOWN or choice[:1] == "=")
        for choice in value.values()
    )


class ImportFilter(queries.DryRunFilter):
    dialect = DIALECT
    sheet = parameters.Option(
        fields.Text(31), "The sheet of a workbook (.xlsx), by default the first one."
    )
    mapping = parameters.Option(
        JsonText(
            lambda field: field is None or isinstance(field, str),
            '{"Артикул": "sku", "Залишок": null}',
        ),
        "Which field each column of the file is, null to leave it out; without it the file has our"
        " columns.",
    )
    header_line = parameters.Option(
        NumberText(1, 1000), "With a mapping: the line of the header, by default found."
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
        "With a mapping: whether colleagues, stages, clients and contacts that do not exist are"
        " created or left out; by default their rows are rejected.",
    )
    unknown_values = parameters.Option(
        JsonText(_is_choices, '{"stage": {"Переговори": "=Пропозиція", "*": "skip"}}'),
        "With a mapping: what becomes of texts that name no colleague, stage, client or choice, by"
        " column and text or `*`: `create`, `skip`, or `=` and the name or id of the one meant.",
    )


MAPPED_ONLY = {"header_line", "date_order", "unknown_references", "unknown_values"}
OPTIONS = tuple(field.name for field in dataclasses.fields(ImportOptions))
IMPORT_FILTER = ImportFilter(only=("dry_run", "dialect", *OPTIONS))


class UploadReader:
    """Reads the file of a request for an operation: the operation's `upload`.

    read(data, excel, options): makes of the file what the operation takes beside its name, as heavy
    work.
    """

    filter, parts = IMPORT_FILTER, OPTIONS  # parts of the form beside the file

    def __init__(self, read: Callable[[bytes, bool, ImportOptions], Any], guesses: bool = False):
        """`guesses`: without a mapping the columns are guessed, so that its options go alone."""
        self._read, self._needs_mapping = read, not guesses

    def __call__(self, request: Request) -> tuple[str | None, Any]:
        """Raises what read_uploaded_file() does, and Invalid."""
        name, data, parts = read_uploaded_file(request, "file", MAX_LARGE_FILE_BYTES, OPTIONS)
        chosen = IMPORT_FILTER.read(request.args).options
        chosen |= IMPORT_FILTER.read(MultiDict(parts)).options
        return self.of_bytes(data, chosen, name)

    def of_bytes(
        self, data: bytes, chosen: dict[str, Any], name: str | None = None
    ) -> tuple[str | None, Any]:
        """The same of a file with the options of ImportFilter. Raises Invalid."""
        values = {option: chosen[option] for option in OPTIONS if option in chosen}
        if "mapping" not in values and self._needs_mapping:
            for option in values.keys() & MAPPED_ONLY:
                raise Invalid.field(option, "needs_mapping", "goes with a mapping")
        with heavy_work():
            is_excel = chosen.get("dialect") == "excel"
            return name, self._read(data, is_excel, ImportOptions(**values))
