"""The rows of a file whose columns were matched with our fields, as those of a file of ours (D9).

What programs write into their files is understood here, and only here: a file without a mapping is
read exactly. Cells that cannot be read for sure stay as they are and are the row's errors.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from itertools import zip_longest
from typing import Any

from crm.errors import Invalid
from crm.json import dumps
from crm.records import fields
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.foreign import values
from crm.spreadsheets.foreign.aliases import COMBINED, NAME_PARTS, fields_of
from crm.spreadsheets.foreign.mapping import EXTRA, KEYS, check_mapping
from crm.spreadsheets.marked_cells import shown
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.resource import ImportableResource, RowFault
from crm.storage.session import one_row
from crm.values import InvalidValue, email, phone

SEVERAL = {"phone": phone, "email": email}  # fields of which a cell may have more than one
OWN_OF_VARIANT = ("sku", "price")  # what a row of a product's variant does not take from above
TOTAL = re.compile(
    r"(?:разом|всього|усього|итого|всего|підсумок|total|grand total|subtotal)"
    r"(?:\s+[^\W\d]+)?\s*+(?P<tail>:|:?\s*+\d[\d\s.,]*)?",
    re.IGNORECASE,
)

CellsByField = dict[str, str]


class MappedRows:
    """The rows of a table by a mapping.

    `sheet` has them with our columns; `faults` those of rows, by the place of the row; `left_out`
    is the number of lines that are no records: titles of groups, totals, pictures of a product.
    `contacts` are the contacts made of further phones and e-mails of a cell, by the row's place.
    Raises Invalid for a mapping that does not fit, or if nothing tells how dates are meant.
    """

    def __init__(self, table: Sheet, resource: ImportableResource, options: ImportOptions):
        self.resource, self.options = resource, options
        self.left_out = 0
        self.faults: dict[int, list[RowFault]] = {}
        self.contacts: dict[int, list[dict[str, Any]]] = {}
        by_field = check_mapping(resource, table.columns, options)
        self._places = {field: table.columns.index(name) for field, name in by_field.items()}
        self._combined = {
            name: column
            for name, column in COMBINED.get(resource.plural, {}).items()
            if name not in resource.column_names
        }
        self._makes_contacts = resource.part == "contact" and not any(
            name.startswith("contact_") for name in self._places
        )
        self._currency, zone = one_row("SELECT currency, time_zone FROM tenant")
        self._converters = self._make_converters(self._date_order(table), zone)
        targets = {self._target(name) for name in self._places}
        if "company" in self._places and "company" in self._combined:
            targets.add("type")
        names = [name for name in resource.column_names if name in targets - {"extra"}]
        rows: list[tuple[int, tuple[str, ...]]] = []
        above = CellsByField()
        for line, cells in table.rows:
            row = {name: cells[at].strip() for name, at in self._places.items()}
            if self._is_no_record(row, [cell.strip() for cell in cells if cell.strip()], above):
                self.left_out += 1
                continue
            if "handle" in row:
                above = row = _with_product_above(row, above)
            converted, contacts, faults = self._convert(dict(row))
            if contacts:
                self.contacts[len(rows)] = contacts
            if faults:
                self.faults[len(rows)] = faults
            rows.append((line, tuple(converted.get(name, "") for name in (*names, "extra"))))
        if any(cells[-1] for _, cells in rows):
            names.append("extra")
        else:
            rows = [(line, cells[:-1]) for line, cells in rows]
        self.sheet = table._replace(columns=names, rows=rows)

    def _target(self, field: str) -> str:
        """The column of ours that a field's cells go into, and that their errors name."""
        return "extra" if field.startswith(EXTRA) else self._combined.get(field, field)

    def _date_order(self, table: Sheet) -> str | None:
        """Whether day or month comes first in the dates of the file; raises Invalid."""
        known = fields_of(self.resource)
        places = [
            at
            for name, at in self._places.items()
            if (column := known.get(name))
            and isinstance(column.field, (fields.DateTime, fields.Date))
        ]
        order = values.date_order(cells[at] for _, cells in table.rows for at in places)
        if order == "either" and self.options.date_order is None:
            detail = "the dates may be day or month first: say which, by date_order"
            raise Invalid.field("date_order", "required", detail)
        return self.options.date_order if order == "either" else order

    def _make_converters(self, order: str | None, zone: str) -> dict[str, Callable[[str], str]]:
        known = fields_of(self.resource)
        converters: dict[str, Callable[[str], str]] = {}
        for name in self._places:
            wire = column.field if (column := known.get(name)) else None
            convert = values.converter(self.resource, name, wire, order, zone)
            chosen = self.options.unknown_values.get(name)
            if convert and chosen and isinstance(wire, fields.Choice):
                convert = self._with_chosen(convert, wire.choices, chosen)
            if convert:
                converters[name] = cache(convert)
        return converters

    @staticmethod
    def _with_chosen(
        convert: Callable[[str], str], choices: tuple[str, ...], unknown: dict[str, str]
    ) -> Callable[[str], str]:
        """`convert`, and what was chosen for words that mean nothing to us."""

        def converted(cell: str) -> str:
            word = convert(cell)
            chosen = unknown.get(cell, unknown.get("*", "")) if word not in choices else ""
            return chosen.removeprefix("=") if chosen[:1] == "=" else "" if chosen else word

        return converted

    def _is_no_record(self, row: CellsByField, cells: list[str], above: CellsByField) -> bool:
        """Whether a line is the title of a group, a total, or a further picture of a product."""
        first, *others = cells or [""]
        if self.resource.plural == "products" and len(self._places) > 1 and not others:
            return True
        if row.get("handle") and row["handle"] == above.get("handle"):
            return not any(row.get(name) for name in OWN_OF_VARIANT)
        total = TOTAL.fullmatch(first)
        if total is None or any(row.get(name, first) != first for name in KEYS if row.get(name)):
            return False
        is_sum = all(map(values.is_number, others))
        return is_sum and bool(others or total["tail"])

    def _convert(
        self, row: CellsByField
    ) -> tuple[CellsByField, list[dict[str, Any]], list[RowFault]]:
        """The cells of a row as ours, and its contacts; cells with a fault stay as they are."""
        faults: list[RowFault] = []

        def change(name: str, convert: Callable[[str], str]) -> None:
            try:
                row[name] = convert(row[name])
            except InvalidValue as invalid:
                faults.append(RowFault(self._target(name), invalid.code, invalid.detail))

        extra: dict[str, Any] = {}
        for name, cell in row.items():
            if name.startswith(EXTRA) and cell:
                extra[name.removeprefix(EXTRA)] = values.APOSTROPHE.sub("", shown(cell))
            elif cell:
                field = column.field if (column := fields_of(self.resource).get(name)) else None
                change(name, partial(values.clean, field=field))
        self._combine(row, extra)
        contacts = self._keep_further(row, extra)
        faulty = {fault.column for fault in faults}
        for name, convert in self._converters.items():
            if row[name] and name not in faulty:
                change(name, convert)
        currency = row.get("currency") or self._currency
        for name in row.keys() - faulty:
            column = fields_of(self.resource).get(name)
            if row[name] and column and isinstance(column.field, fields.Number):
                change(name, lambda cell: self._amount(cell, currency))
        if "currency" in self._combined and currency != self._currency:
            detail = f"is in {currency}, but prices are in {self._currency}"
            faults.append(RowFault("price", "other_currency", detail))
        if extra and "extra" in self.resource.column_names:
            row["extra"] = dumps(extra).decode()
        return row, contacts, faults

    def _keep_further(self, row: CellsByField, extra: dict[str, Any]) -> list[dict[str, Any]]:
        """Leave the first phone and e-mail in a row; the others become contacts, or `extra`."""
        further: dict[str, list[str]] = {name: [] for name in SEVERAL}
        for name, read in SEVERAL.items():
            parts = values.several(row.get(name, ""))
            row |= {name: parts[0]} if parts else {}
            for number, part in enumerate(parts[1:], 2):
                try:
                    value = read(part) if self._makes_contacts and row.get("name") else None
                except InvalidValue:
                    value = None
                if value:
                    further[name].append(value)
                else:
                    extra[f"{name} {number}"] = part
        return [
            {"contact_name": row["name"]}
            | {f"contact_{name}": value for name, value in zip(SEVERAL, both, strict=True) if value}
            for both in zip_longest(*further.values())
        ]

    def _amount(self, cell: str, currency: str) -> str:
        amount, own = values.split_money(cell)
        if own not in (None, currency):
            detail = f"{cell[:40]!r} is in {own}, but the row is in {currency}"
            raise InvalidValue("other_currency", detail)
        return amount

    def _combine(self, row: CellsByField, extra: dict[str, Any]) -> None:
        """Put the parts of a name together, and whatever may stand for a name that is missing."""
        if target := self._combined.get("first_name"):
            whole = " ".join(filter(None, (row.get(name) for name in NAME_PARTS)))
            row[target] = row.get(target) or whole
        if "name" in row and self.resource.plural != "products":
            company = row.get("company", "")
            if not row["name"] and company:
                row |= {"name": company, "type": row.get("type") or "company"}
            elif company and "company" in self._combined:
                extra["company"] = company
            row["name"] = row["name"] or row.get("email", "")
        if "client" in row and not row["client"] and row.get("contact"):
            row |= {"client": row["contact"], "contact": ""}
        if "handle" in row:
            row["sku"] = row.get("sku") or row["handle"]


def _with_product_above(row: CellsByField, above: CellsByField) -> CellsByField:
    """A row of a product's variant, with what stands only in the product's first row."""
    if not row["handle"] or row["handle"] != above.get("handle"):
        return row
    return {
        name: cell or ("" if name in OWN_OF_VARIANT else above[name]) for name, cell in row.items()
    }
