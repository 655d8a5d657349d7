"""The price list: products in files (spec: Products, import and export; D9).

`sku` is the key: a new one makes a product, a known one changes it. The file has exactly the seven
columns of the specification.
"""

from crm.outbox import events
from crm.resources.products.bulk_import import COLUMNS, ProductImporter
from crm.resources.products.record import PRODUCT_IN, Product
from crm.spreadsheets.csv_columns import plain_column
from crm.spreadsheets.import_run import ImportRun
from crm.spreadsheets.resource import ImportableResource, Result


class ImportableProducts(ImportableResource):
    record, body = Product, PRODUCT_IN
    own_columns = tuple(plain_column(Product, name) for name in COLUMNS)
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
