"""Moving in and out by CSV: every noun that people bring along, through one pair of doors (D9).

For products the price list does the work, by its own key and column by column; for the others the
engine here does, record by record.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

from crm.resources.imports import Progress, Result
from crm.resources.moving import engine, export, table
from crm.resources.moving.clients import CLIENTS
from crm.resources.moving.deals import DEALS
from crm.resources.moving.leads import LEADS
from crm.resources.moving.noun import Moving
from crm.resources.moving.table import Table
from crm.resources.moving.tasks import TASKS
from crm.resources.products import price_list
from crm.resources.products.price_list import PriceList

PRODUCTS = "products"
MOVING: dict[str, Moving] = {noun.plural: noun for noun in (CLIENTS, DEALS, LEADS, TASKS)}
NOUNS = (PRODUCTS, *MOVING)  # in the order in which they move in: each names those before it
FILES = {PRODUCTS: "price-list.csv", **{plural: f"{plural}.csv" for plural in MOVING}}


def read(data: bytes, noun: str, excel: bool = False) -> Table | PriceList:
    """The rows of a file of `leads`, `clients`, … each cell checked; touches no database.

    Raises TooLarge and Invalid as `imports.open_sheet`.
    """
    if noun == PRODUCTS:
        return price_list.read(data, excel)
    return table.read(data, MOVING[noun], excel)


def import_csv(
    sheet: Table | PriceList,
    file_name: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Make and change records by what `read` gave. A dry run writes nothing and counts the same."""
    bring = price_list.import_csv if isinstance(sheet, PriceList) else engine.import_csv
    return bring(sheet, file_name, dry_run, progress)


def export_csv(
    to: BinaryIO,
    noun: str,
    condition: str = "1",
    params: Sequence[Any] = (),
    order: str = "",
    excel: bool = False,
    may_read: export.MayRead = lambda plural: True,
) -> None:
    """Write all live records of a noun that meet an SQL condition, as a file that `read` takes.

    They are written one by one, and all as of one moment. Of other nouns the file has what
    `may_read(plural)` allows, else only ids.
    """
    if noun == PRODUCTS:
        price_list.export_csv(to, condition, params, order or "name, id", excel)
    else:
        export.export_csv(to, MOVING[noun], condition, params, order or "id", excel, may_read)
