"""Importing a price list by a few statements (spec: Products, import and export; D9).

A column that the file lacks, and an empty cell, leave a product as it is. An import is one
transaction with one product.imported and no event per row. 50,000 products by the verbs of single
ones would take a minute; so what the file changes is found out first, and then written at once.
"""

from collections import defaultdict
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from crm.activity import computing
from crm.json import dumps
from crm.records import search
from crm.records.columns import Column, declared
from crm.records.record import SoftDeletedRecord
from crm.resources import tenant
from crm.resources.products.record import Product
from crm.spreadsheets.importer import Importer
from crm.spreadsheets.results import RowFault
from crm.storage import search_index
from crm.storage.chunks import HasTime
from crm.storage.dialect import among, filling
from crm.storage.session import current_session, execute, execute_many, now, one_row, rows

INHERITED = declared(SoftDeletedRecord).keys()
# The columns of files; a row is a tuple of their stored values.
DECLARED = {
    name: column
    for name, column in declared(Product).items()
    if isinstance(column, Column) and column.csv and name not in INHERITED
}
COLUMNS = tuple(DECLARED)
SEARCHED_COLUMNS = tuple(name for name in COLUMNS if DECLARED[name].searched)
# Of a new product: (column, place in a row).
REQUIRED = [(name, at) for at, name in enumerate(COLUMNS) if DECLARED[name].wire.required]
ACTIVE = COLUMNS.index("active")
CHUNK_ROWS = 1000  # of a large file in one transaction
BATCH_ROWS = 5000  # written between two reports of progress

SELECT_EXISTING = f"""
    SELECT {", ".join(COLUMNS)}, id FROM product
    WHERE {among("sku", "TEXT")} AND deleted_at IS NULL
"""
INSERT = f"""
    INSERT INTO product ({", ".join(COLUMNS)}, search_text,
                         currency, created_at, updated_at, version)
    VALUES ({"?, " * len(COLUMNS)}?, ?, ?, ?, 1)
"""
INSERT_CHANGE = """
    INSERT INTO audit_entry (noun, record_id, at, user_id, key_id, before, after)
    VALUES ('product', ?, ?, ?, ?, ?, ?)
"""


# What the statements above did, for the undo of the session's batch.
NOTE_CREATED = """
    INSERT INTO batch_record (batch_id, noun, record_id, action, version_before, version)
    SELECT ?, 'product', id, 'created', 0, version FROM product WHERE id > ? ORDER BY id
"""
NOTE_UPDATED = f"""
    INSERT INTO batch_record
        (batch_id, noun, record_id, action, version_before, version, audit_id)
    SELECT ?, 'product', product.id, 'updated', product.version - 1, product.version,
           audit_entry.id
    FROM audit_entry JOIN product ON product.id = audit_entry.record_id
    WHERE audit_entry.id > ? AND audit_entry.noun = 'product' AND {among("product.id")}
    ORDER BY audit_entry.id
"""


@dataclass(slots=True)
class Change:
    """An existing product and what the file changes of it, in stored form."""

    id: int
    before: dict[str, Any]
    after: dict[str, Any]
    row: tuple[Any, ...]  # as it will be


class ProductImporter(Importer):
    """Imports all products of a file at once, those of a large file CHUNK_ROWS at once."""

    def import_all(self) -> None:
        self._import(0, len(self.file.rows))

    def import_some(self, position: int, stop: int, has_time: HasTime) -> int:
        stop = min(stop, position + CHUNK_ROWS)
        self._import(position, stop)
        return stop

    def _import(self, start: int, stop: int) -> None:
        new_rows, changes = self._plan(start, stop)
        self.report_progress(stop - start - len(new_rows) - len(changes))
        self._insert(new_rows)
        self._update(changes)

    def preview(self) -> None:
        """Find out what import_all() would do; writes nothing."""
        with computing():
            self._plan(0, len(self.file.rows))

    def _plan(self, start: int, stop: int) -> tuple[list[tuple[Any, ...]], list[Change]]:
        """The new rows and the changes; counts the rows and rejects those that do not fit."""
        new_rows: list[tuple[Any, ...]] = []
        changes: list[Change] = []
        columns = [self.file.column_values(name)[start:stop] for name in COLUMNS]
        skus = dumps([sku for sku in columns[0] if sku is not None]).decode()
        existing_rows = {
            product_row[0]: product_row for product_row in rows(SELECT_EXISTING, (skus,))
        }
        options, unchanged = self.file.options, 0
        may_clear = [
            options.on_empty == "clear" and name in self.file.sheet.columns and wire.allow_none
            for name, wire in ((name, DECLARED[name].wire) for name in COLUMNS)
        ]
        for at, values in enumerate(zip(*columns, strict=True), start):
            if at in self.faults:
                continue
            product_row = existing_rows.get(values[0])
            if product_row is None:
                if missing := [name for name, place in REQUIRED if values[place] is None]:
                    detail = "a new product needs it"
                    self.faults[at] = [RowFault(name, "required", detail) for name in missing]
                else:
                    if values[ACTIVE] is None:
                        values = (*values[:ACTIVE], 1, *values[ACTIVE + 1 :])
                    new_rows.append(values)
            elif options.key and options.known == "skip":
                unchanged += 1
            elif change := _difference(product_row, values, may_clear):
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
        search.index_new("product")
        execute(NOTE_CREATED, (current_session().batch_id, last_id))

    def _update(self, changes: list[Change]) -> None:
        if not changes:
            return
        session, moment = current_session(), now()
        actor = session.user_id, session.key_id
        entries = [
            (change.id, moment, *actor, dumps(change.before).decode(), dumps(change.after).decode())
            for change in changes
        ]
        (last_audit_id,) = one_row("SELECT coalesce(max(id), 0) FROM audit_entry")
        execute_many(INSERT_CHANGE, entries)
        reworded = [
            change for change in changes if not change.after.keys().isdisjoint(SEARCHED_COLUMNS)
        ]
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
        changed_ids = dumps([change.id for change in changes]).decode()
        execute(NOTE_UPDATED, (session.batch_id, last_audit_id, changed_ids))


def _difference(
    stored_row: tuple[Any, ...], values: tuple[Any, ...], may_clear: list[bool]
) -> Change | None:
    """Return what a row changes of a product, or None; an empty cell may clear its column."""
    if stored_row[:-1] == values:
        return None
    *old_values, id = stored_row
    before, after = {}, {}
    for name, old, value, clears in zip(COLUMNS, old_values, values, may_clear, strict=True):
        if value != old and (value is not None or clears):
            before[name], after[name] = old, value
    if not after:
        return None
    changed_row = dict(zip(COLUMNS, old_values, strict=True)) | after
    return Change(id, before, after, tuple(changed_row.values()))


def _search_texts(product_rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the search texts of many products at once, as Product.search_texts has them."""
    return search.fold_many([_searched_values(product_row) for product_row in product_rows])


_searched_values = itemgetter(*map(COLUMNS.index, SEARCHED_COLUMNS))
