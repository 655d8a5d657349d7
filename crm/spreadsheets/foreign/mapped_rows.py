"""The rows of a file whose columns were matched with our fields, as those of a file of ours (D9).

How the rows of other programs stand for records is understood here, and only here; how their cells
are spelled, in `cells.py`.
"""

import re
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any

from crm.json import dumps, loads
from crm.spreadsheets.cells import clean, is_number, several, without_guard
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.foreign.aliases import COMBINED, NAME_PARTS, OF_CLIENT, SEVERAL
from crm.spreadsheets.foreign.mapping import EXTRA, KEYS, check_mapping
from crm.spreadsheets.labels import word_key, words
from crm.spreadsheets.marked_cells import shown, unmark
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.resource import ERROR_COLUMN, ImportableResource, RowFault
from crm.storage.session import one_row
from crm.values import InvalidValue

# Phones or e-mails of a person; each of them repeats the name, of which so many characters are
# enough.
MAX_REACH, MAX_NAME_CHARACTERS = 10, 256
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
    is the number of lines that are no records: titles of groups, totals, pictures of a product;
    `left_out_columns` are those with content that the mapping leaves out.
    `contacts` are the contacts made of further phones and e-mails of a cell, by the row's place.
    Raises Invalid for a mapping that does not fit.
    """

    def __init__(self, table: Sheet, resource: ImportableResource, options: ImportOptions):
        self.resource, self.options = resource, options
        self.left_out = 0
        self.faults: dict[int, list[RowFault]] = {}
        self.contacts: dict[int, list[dict[str, Any]]] = {}
        by_field = check_mapping(resource, table.columns, options)
        self._places = {field: table.columns.index(name) for field, name in by_field.items()}
        named = {*by_field.values(), ERROR_COLUMN}
        self.left_out_columns = [
            name[:MAX_NAME_CHARACTERS]
            for at, name in enumerate(table.columns)
            if name not in named and any(cells[at].strip() for _, cells in table.rows)
        ]
        self._combined = {
            name: column
            for name, column in COMBINED.get(resource.plural, {}).items()
            if name not in resource.column_names
        }
        self._prefix = OF_CLIENT if resource.plural == "deals" else ""
        self._several = {
            field: [n for n in self._places if n.partition(" ")[0] == self._prefix + field]
            for field in SEVERAL
        }
        self._cleaned = {*self._combined, *chain(*self._several.values())}
        self._makes_contacts = resource.part == "contact" and not any(
            name.startswith("contact_") for name in self._places
        )
        (self._currency,) = one_row("SELECT currency FROM tenant")
        targets = {self._target(name) for name in self._places}
        if "company" in self._places and "company" in self._combined:
            targets.add("type")
        names = [name for name in resource.column_names if name in targets - {"extra"}]
        names.append("extra")
        is_plain = resource.plural == "products" and self._combined.keys().isdisjoint(self._places)
        rows: list[tuple[int, tuple[str, ...]]] = []
        above = CellsByField()
        for line, cells in table.rows:
            row = {name: cells[at].strip() for name, at in self._places.items()}
            is_further = rows and not any(row.values())  # such as those of Tryton's parties
            if is_further or self._is_no_record(
                row, list(filter(None, map(str.strip, cells))), above
            ):
                self.left_out += 1
                continue
            if "handle" in row:
                above = row = _with_product_above(row, above)
            if not is_plain:
                contacts, faults = self._convert(row := dict(row))
                if contacts:
                    self.contacts[len(rows)] = contacts
                if faults:
                    self.faults[len(rows)] = faults
            rows.append((line, tuple([row.get(name, "") for name in names])))
        if not any(cells[-1] for _, cells in rows):
            names, rows = names[:-1], [(line, cells[:-1]) for line, cells in rows]
        self.sheet = table._replace(columns=names, rows=rows)

    def _target(self, field: str) -> str:
        """The column of ours that a field's cells go into, and that their errors name."""
        field = "extra" if field.startswith(EXTRA) else field.partition(" ")[0]
        return self._combined.get(field, field)

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
        is_sum = all(is_number(shown(cell)) for cell in others)
        return is_sum and bool(others or total["tail"])

    def _convert(self, row: CellsByField) -> tuple[list[dict[str, Any]], list[RowFault]]:
        """Put the cells of a row under our columns; its contacts and faults."""
        faults: list[RowFault] = []
        extra: dict[str, Any] = {}
        for name, cell in row.items():
            if name.startswith(EXTRA) and cell:
                extra[name.removeprefix(EXTRA)] = without_guard(shown(cell))
            elif name in self._cleaned:
                try:
                    row[name] = clean(unmark(cell, None), is_exact=False)
                except InvalidValue as invalid:
                    faults.append(RowFault(self._target(name), invalid.code, invalid.detail))
        texts = {
            field: [text for name in names for text in several(row[name])]
            for field, names in self._several.items()
        }
        row |= {self._prefix + field: parts[0] for field, parts in texts.items() if parts}
        self._combine(row, extra)
        person = row.get("name", "") if self._makes_contacts else ""
        contacts = further_contacts(person, texts, extra)
        if "currency" in self._combined and row.get("currency"):
            currency = words("currency").get(word_key(row["currency"]), row["currency"])
            if currency != self._currency:
                detail = f"is in {currency}, but prices are in {self._currency}"
                faults.append(RowFault("price", "other_currency", detail))
        if extra and "extra" in self.resource.column_names:
            with suppress(ValueError, TypeError):  # else it is no object, which its column tells
                row["extra"] = dumps(loads(row.get("extra") or "{}") | extra).decode()
        return contacts, faults

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
        if "client" in row and not row["client"] and row.get("contact"):
            row |= {"client": row["contact"], "contact": ""}
        if "won_at" in row or "lost_at" in row:
            status = words("deal.status").get(word_key(row.get("status", "")), "won")
            row["closed_at"] = row.get("closed_at") or row.get(f"{status}_at", "")
        if "handle" in row:
            row["sku"] = row.get("sku") or row["handle"]


def _with_product_above(row: CellsByField, above: CellsByField) -> CellsByField:
    """A row of a product's variant, with what stands only in the product's first row."""
    if not row["handle"] or row["handle"] != above.get("handle"):
        return row
    return {
        name: cell or ("" if name in OWN_OF_VARIANT else above[name]) for name, cell in row.items()
    }


def further_contacts(
    name: str, texts: dict[str, list[str]], extra: dict[str, Any]
) -> list[dict[str, Any]]:
    """Contacts of the phones and e-mails behind the first; what makes none goes to `extra`.

    Nothing does of a record that has no contacts, whose `name` is empty.
    """
    further: dict[str, list[str]] = {field: [] for field in SEVERAL}
    for field, read in SEVERAL.items():
        known = set[str]()
        for number, text in enumerate(texts.get(field, ()), 1):
            value = ""
            with suppress(InvalidValue):
                value = read(text) or ""
            if value in known:
                continue
            known |= {value} - {""}
            if number > 1 and value and name and number <= MAX_REACH:
                further[field].append(value)
            elif number > 1:
                extra[f"{field} {number}"] = text
    return [
        {"contact_name": name[:MAX_NAME_CHARACTERS]}
        | {f"contact_{field}": value for field, value in zip(SEVERAL, both, strict=True) if value}
        for both in zip_longest(*further.values())
    ]
