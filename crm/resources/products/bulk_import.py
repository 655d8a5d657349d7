"""Importing a price list by a few statements (spec: Products, import and export; D9).

A column that the file lacks, and an empty cell, leave a product as it is. An import is one
transaction with one product.imported and no event per row. 50,000 products by the verbs of single
ones would take a minute; so what the file changes is found out first, and then written at once.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from crm.json import dumps
from crm.records import search
from crm.resources import tenant
from crm.spreadsheets.importer import Importer
from crm.spreadsheets.results import RowFault
from crm.tenancy import search_index
from crm.tenancy.database import current_session, execute, execute_many, now, one_row, rows
from crm.tenancy.dialect import among, filling

# The columns in the order of the statements below; a row is a tuple of their stored values.
COLUMNS = ("sku", "name", "price", "unit", "category", "description", "active")
SEARCHED_COLUMNS = frozenset(("name", "category", "description"))
REQUIRED = (("name", 1), ("price", 2))  # of a new product: (column, place in a row)
BATCH_ROWS = 5000  # written between two reports of progress

SELECT_EXISTING = f"""
    SELECT sku, name, price, unit, category, description, active, id FROM product
    WHERE {among("sku", "TEXT")} AND deleted_at IS NULL
"""
INSERT = """
    INSERT INTO product (sku, name, price, unit, category, description, active, search_text,
                         currency, created_at, updated_at, version)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
"""
INSERT_CHANGE = """
    INSERT INTO audit_entry (noun, record_id, at, user_id, key_id, before, after)
    VALUES ('product', ?, ?, ?, ?, ?, ?)
"""


@dataclass(slots=True)
class Change:
    """An existing product and what the file changes of it, in stored form."""

    id: int
    before: dict[str, Any]
    after: dict[str, Any]
    row: tuple[Any, ...]  # as it will be


class ProductImporter(Importer):
    """Imports all products of a file at once."""

    def import_entries(self) -> None:
        new_rows, changes = self._plan()
        self.report_progress(len(self.file.rows) - len(new_rows) - len(changes))
        self._insert(new_rows)
        self._update(changes)

    def preview(self) -> None:
        """Find out what import_entries() would do; writes nothing."""
        self._plan()

    def _plan(self) -> tuple[list[tuple[Any, ...]], list[Change]]:
        """The new rows and the changes; counts all rows and rejects those that do not fit."""
        new_rows: list[tuple[Any, ...]] = []
        changes: list[Change] = []
        columns = [self.file.column_values(name) for name in COLUMNS]
        skus = dumps([sku for sku in columns[0] if sku is not None]).decode()
        existing_rows = {
            product_row[0]: product_row for product_row in rows(SELECT_EXISTING, (skus,))
        }
        unchanged = 0
        for at, values in enumerate(zip(*columns, strict=True)):
            if at in self.faults:
                continue
            product_row = existing_rows.get(values[0])
            if product_row is None:
                if None in values[1:3]:
                    missing = [name for name, place in REQUIRED if values[place] is None]
                    detail = "a new product needs it"
                    self.faults[at] = [RowFault(name, "required", detail) for name in missing]
                else:
                    new_rows.append(values if values[6] is not None else (*values[:6], 1))
            elif product_row[:-1] != values and (change := _difference(product_row, values)):
                changes.append(change)
            else:
                unchanged += 1
        self.counts = {"created": len(new_rows), "updated": len(changes), "unchanged": unchanged}
        return new_rows, changes

    def _insert(self, new_rows: list[tuple[Any, ...]]) -> None:
        if not new_rows:
            return
        (last_id,) = one_row("SELECT coalesce(max(id), 0) FROM product")
        # With more new rows than old ones, building the indexes anew is faster than updating them.
        constants = tenant.currency(), now(), now()
        with filling("product", rebuild_indexes=len(new_rows) > max(last_id, BATCH_ROWS)):
            for start in range(0, len(new_rows), BATCH_ROWS):
                batch = new_rows[start : start + BATCH_ROWS]
                texts = _search_texts(batch)
                values = [(*r, text, *constants) for r, text in zip(batch, texts, strict=True)]
                execute_many(INSERT, values)
                self.report_progress(len(batch))
        execute(search_index.add_later_statement("product"), (last_id,))

    def _update(self, changes: list[Change]) -> None:
        if not changes:
            return
        session, moment = current_session(), now()
        actor = session.user_id, session.key_id
        entries = [
            (change.id, moment, *actor, dumps(change.before).decode(), dumps(change.after).decode())
            for change in changes
        ]
        execute_many(INSERT_CHANGE, entries)
        reworded = [change for change in changes if not SEARCHED_COLUMNS.isdisjoint(change.after)]
        texts = _search_texts([change.row for change in reworded])
        for change, text in zip(reworded, texts, strict=True):
            change.after["search_text"] = text
        # The index finds the old words by the stored text, so they are removed before the update.
        ids = dumps([change.id for change in reworded]).decode()
        execute(search_index.remove_many_statement("product"), (ids,))
        by_columns: dict[tuple[str, ...], list[Change]] = defaultdict(list)
        for change in changes:
            by_columns[tuple(change.after)].append(change)
        # One prepared statement for all products in which the same columns change.
        for names, alike in by_columns.items():
            assignments = ", ".join(f"{name} = ?" for name in names)
            execute_many(
                f"UPDATE product SET {assignments}, updated_at = ?, version = version + 1"
                " WHERE id = ?",
                [(*change.after.values(), moment, change.id) for change in alike],
            )
            self.report_progress(len(alike))
        execute(search_index.add_many_statement("product"), (ids,))


def _difference(stored_row: tuple[Any, ...], values: tuple[Any, ...]) -> Change | None:
    """Return what a row changes of a product, or None; empty cells change nothing."""
    *old_values, id = stored_row
    before, after = {}, {}
    for name, old, value in zip(COLUMNS, old_values, values, strict=True):
        if value is not None and value != old:
            before[name], after[name] = old, value
    if not after:
        return None
    changed_row = dict(zip(COLUMNS, old_values, strict=True)) | after
    return Change(id, before, after, tuple(changed_row.values()))


def _search_texts(product_rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the search texts of many products at once, as Product.search_texts has them."""
    return search.fold_many([(r[0], r[1], r[4], r[5]) for r in product_rows])
