"""The price list: products in files (spec: Products, import and export; D9).

`sku` is the key: a new one makes a product, a known one changes it. A row without one changes the
product without one that has its name, if that is the only one. A column that the file lacks,
and an empty cell, leave a product as it is. An import has one product.imported and no event per
row. 50,000 products one by one would take a minute; so what the file changes is found out first,
and then written at once.
"""

from typing import Any

from crm.activity import computing
from crm.errors import Invalid
from crm.json import dumps
from crm.outbox import events
from crm.records import many_records
from crm.records.columns import Column, declared
from crm.records.custom import values as custom_values
from crm.records.many_records import Change
from crm.records.record import SoftDeletedRecord
from crm.resources import tenant
from crm.resources.products.record import PRODUCT_IN, Product
from crm.resources.user_references import ImportableRecord
from crm.spreadsheets.csv_columns import plain_column
from crm.spreadsheets.import_run import ImportRun
from crm.spreadsheets.importer import RecordImporter, lost_zeros
from crm.spreadsheets.resource import Entry, Result
from crm.storage.chunks import HasTime
from crm.storage.dialect import among
from crm.storage.session import rows

# The columns of files.
COLUMNS = tuple(
    name
    for name, column in declared(Product).items()
    if isinstance(column, Column) and column.csv and name not in declared(SoftDeletedRecord)
)
CHUNK_ROWS = 2000  # that are written at once
STORED = (*COLUMNS, "external_id", "custom", "id", "version")
SELECT_LIVE = f"SELECT {', '.join(STORED)} FROM product WHERE deleted_at IS NULL"
SELECT_EXISTING = f"{SELECT_LIVE} AND {among('sku', 'TEXT')}"
SELECT_WITHOUT_SKU = f"{SELECT_LIVE} AND sku IS NULL AND {among('name', 'TEXT')}"


class ProductImporter(RecordImporter):
    """Imports CHUNK_ROWS products at once."""

    def import_some(self, position: int, stop: int, has_time: HasTime) -> int:
        while position < stop:
            end = min(stop, position + CHUNK_ROWS)
            new, changes = self._plan(position, end)
            many_records.add_all(Product, new)
            many_records.save_all(Product, changes)
            self.report_progress(end - position)
            position = end
            if not has_time():
                break
        return position

    def preview(self) -> None:
        """Find out what an import would do; writes nothing."""
        with computing():
            self._plan(0, self.file.count)

    def _plan(self, start: int, stop: int) -> tuple[list[dict[str, Any]], list[Change]]:
        """The new products and the changes; counts the rows and rejects those that do not fit."""
        new: list[dict[str, Any]] = []
        changes: list[Change] = []
        columns = [self.file.column_values(name)[start:stop] for name in COLUMNS]
        skus = dumps([sku for sku in columns[0] if sku is not None]).decode()
        existing: dict[Any, Any] = {stored[0]: stored for stored in rows(SELECT_EXISTING, (skus,))}
        longer = self.find_longer("sku", (sku for sku in columns[0] if sku not in existing))
        if None in columns[0]:
            names = [name for sku, name in zip(*columns[:2], strict=True) if sku is None]
            for product in rows(SELECT_WITHOUT_SKU, (dumps(names).decode(),)):
                existing[product[1],] = None if (product[1],) in existing else product
        currency, options = tenant.currency(), self.file.options
        is_clearing = options.on_empty == "clear"
        clearable = self.resource.empty_values(self.file.sheet.columns) if is_clearing else {}
        clearable["custom"] = None
        for at, cells in enumerate(zip(*columns, strict=True), start):
            if at in self.faults:
                continue
            values = {**dict(zip(COLUMNS, cells, strict=True)), "custom": None}
            if self.own_columns and not self._read_own_fields(at, values):
                continue
            stored_cells = existing.pop(cells[0] or (cells[1],), None)
            if stored_cells is None:
                if values["active"] is None:
                    values["active"] = 1
                values["currency"] = currency
                values["custom"] = custom_values.merged(None, values["custom"])
                try:
                    if cells[0] is None:
                        raise Invalid.field("sku", "required", "every row needs one")
                    if cells[0] in longer:
                        raise lost_zeros("sku", longer[cells[0]])
                    self.resource.require_fields(values)
                    new.append(values)
                except Invalid as error:
                    self.reject(Entry(at, values), error)
            elif (values["custom"] or stored_cells[:-4] != cells) and not (
                options.key and options.known == "skip"
            ):
                stored = dict(zip(STORED, stored_cells, strict=True))
                patch = values["custom"] or stored["custom"]
                values["custom"] = custom_values.merged(stored["custom"], patch)
                after = {
                    name: value
                    for name, value in values.items()
                    if value != stored[name] and (value is not None or name in clearable)
                }
                if after:
                    changes.append(Change(stored, after))
        rejected = sum(at in self.faults for at in range(start, stop))
        self.counts["created"] += len(new)
        self.counts["updated"] += len(changes)
        self.counts["unchanged"] += stop - start - len(new) - len(changes) - rejected
        return new, changes

    def _read_own_fields(self, row: int, values: dict[str, Any]) -> bool:
        """Add the row's values of the tenant's own fields; False: they do not fit."""
        named = {one.name: self.file.values[one.name][row] for one in self.own_columns}
        try:
            self.resource.resolve_references(named, None, None, self.references)
        except Invalid as error:
            self.reject(Entry(row, values), error)
            return False
        self.join_own_fields(named)
        values["custom"] = named.get("custom")
        return True


class ImportableProducts(ImportableRecord):
    record, body = Product, PRODUCT_IN
    own_columns = tuple(plain_column(Product, name) for name in COLUMNS)
    rare_columns = ("vat",)
    key_columns = required_columns = ("sku",)
    max_rows = 50_000
    file_name = "price-list.csv"
    export_order = "name, id"
    importer = ProductImporter

    def on_undone(self, batch_id: int, reversed: int, kept: int) -> None:
        import_run = ImportRun.first("batch_id = ?", batch_id)
        id = import_run.id if import_run else batch_id
        body = {"id": str(id), "created": 0, "updated": reversed, "skipped": kept}
        events.emit(events.PRODUCT_IMPORTED, id, {"import": body})

    def on_imported(self, import_id: int, result: Result) -> None:
        body = {"id": str(import_id), **result.counts()}
        events.emit(events.PRODUCT_IMPORTED, import_id, {"import": body})


PRODUCTS = ImportableProducts()
