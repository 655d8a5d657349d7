"""The price list as CSV, in and out (spec: Products, import and export; D9).

`sku` is the key: a new one makes a product, a known one changes it. A column that the file lacks,
and an empty cell, leave a product as it is. Bad rows don't stop good ones: each is counted, told
and kept for repair. An import is one transaction with one product.imported and no event per row.
What was exported and is imported again in the same dialect changes nothing.

A list is checked column by column and written by a few statements: 50,000 products by the verbs of
single ones would take a minute.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from crm import sheets
from crm.json import dumps
from crm.outbox import events
from crm.records import search
from crm.resources import imports, tenant
from crm.resources.imports import (
    MOST_ERRORS,
    REASON,
    Progress,
    Reject,
    Report,
    Result,
    RowFault,
)
from crm.resources.products.cells import LONGEST, Bad, stored
from crm.tenancy import search_index
from crm.tenancy.database import (
    current_session,
    execute,
    execute_many,
    now,
    row,
    rows,
    transaction,
)
from crm.tenancy.dialect import among, filling
from crm.tenancy.reading import batches, snapshot

COLUMNS = ("sku", "name", "price", "unit", "category", "description", "active")
TEXTS = frozenset((*LONGEST, REASON))
SEARCHED = frozenset(("name", "category", "description"))
REQUIRED = (("name", 1), ("price", 2))  # of a new product, and their places
MOST_ROWS = 50_000
AT_ONCE = 5000  # rows written between two reports of progress

KNOWN = f"""
    SELECT sku, name, price, unit, category, description, active, id FROM product
    WHERE {among("sku")} AND deleted_at IS NULL
"""
ADD = """
    INSERT INTO product (sku, name, price, unit, category, description, active, search_text,
                         currency, created_at, updated_at, version)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
"""
TRAIL = """
    INSERT INTO audit_entry (noun, record_id, at, user_id, key_id, before, after)
    VALUES ('product', ?, ?, ?, ?, ?, ?)
"""


@dataclass(slots=True)
class PriceList:
    """A file as read. `columns` are the stored values in the order of COLUMNS, None where empty;
    `faults` what is wrong with a row whatever is in the catalog."""

    sheet: sheets.Sheet
    excel: bool
    columns: list[list[Any]]
    faults: dict[int, list[RowFault]]

    @property
    def rows(self) -> list[tuple[int, tuple[str, ...]]]:
        """(line, cells) of the rows that are rows at all."""
        return self.sheet.rows


@dataclass(slots=True)
class Change:
    """A known product and what the file changes of it, in stored form."""

    id: int
    before: dict[str, Any]
    after: dict[str, Any]
    becomes: tuple[Any, ...]  # in the order of COLUMNS


@dataclass(slots=True)
class Work:
    """What an import comes to; new rows in the order of COLUMNS."""

    faults: dict[int, list[RowFault]]
    new: list[tuple[Any, ...]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    unchanged: int = 0


def read(data: bytes, excel: bool = False) -> PriceList:
    """The file's rows, each cell checked; touches no database. Raises as `imports.open_sheet`."""
    sheet = imports.open_sheet(data, COLUMNS, ("sku",), MOST_ROWS, excel)
    columns = [_column(sheet, name) for name in COLUMNS]
    return PriceList(sheet, excel, columns, _faults(sheet, columns))


def import_csv(
    prices: PriceList,
    file_name: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Make and change products by the list that `read` gave; one product.imported.

    A dry run writes nothing and gives the counts as they would be. `progress(done, total)` is
    called now and then with numbers of rows.
    """
    if dry_run:
        return _result(prices, _sorted_out(prices))[0]
    with transaction():
        work = _sorted_out(prices)
        result, rejects = _result(prices, work)
        report = imports.reporter(progress, len(prices.rows))
        report(len(prices.rows) - len(work.new) - len(work.changes))
        _add(work.new, report)
        _change(work.changes, report)
        id = imports.keep("product", prices.sheet, result, rejects, file_name, prices.excel, TEXTS)
        told = {
            "id": str(id),
            "created": result.created,
            "updated": result.updated,
            "skipped": result.skipped,
        }
        events.emit(events.PRODUCT_IMPORTED, id, {"import": told})
    return result


def export_csv(
    to: BinaryIO,
    condition: str = "1",
    params: Sequence[Any] = (),
    order: str = "name, id",
    excel: bool = False,
) -> None:
    """Write all live products that meet an SQL condition, as a file of the seven columns."""
    sql = (
        f"SELECT {', '.join(COLUMNS)} FROM product"
        f" WHERE deleted_at IS NULL AND {condition} ORDER BY {order}"
    )
    text = sheets.decimal_text
    cells = (
        (sku, name, text(price, 4, excel), unit, category, about, "true" if active else "false")
        for found in batches(sql, params)
        for sku, name, price, unit, category, about, active in found
    )
    with snapshot():
        sheets.write_to(to, COLUMNS, cells, excel, TEXTS)


# Reading


def _column(sheet: sheets.Sheet, name: str) -> list[Any]:
    if name not in sheet.columns:
        return [None] * len(sheet.rows)
    place = sheet.columns.index(name)
    return stored(name, [row_cells[place] for _, row_cells in sheet.rows])


def _faults(sheet: sheets.Sheet, columns: list[list[Any]]) -> dict[int, list[RowFault]]:
    """{row: what is wrong with it}: cells that don't fit, no sku, or that of a row above."""
    found: dict[int, list[RowFault]] = defaultdict(list)
    for name, column in zip(COLUMNS, columns, strict=True):
        if Bad in set(map(type, column)):
            for at, value in enumerate(column):
                if type(value) is Bad:
                    found[at].append(RowFault(name, *value))
    skus = columns[0]
    if None in skus or len(set(skus)) < len(skus):
        lines: dict[str, int] = {}
        for at, sku in enumerate(skus):
            line, _ = sheet.rows[at]
            if sku is None:
                found[at].append(RowFault("sku", "required", "every row needs one"))
            elif type(sku) is str and lines.setdefault(sku, line) != line:
                detail = f"{sku} stands in line {lines[sku]} already"
                found[at].append(RowFault("sku", "duplicate_in_file", detail))
    return dict(found)


# Importing


def _sorted_out(prices: PriceList) -> Work:
    """Which rows are new, which change something, which are rejected, by what is kept now."""
    work = Work(dict(prices.faults))
    asked = dumps([sku for sku in prices.columns[0] if type(sku) is str]).decode()
    known = {kept[0]: kept for kept in rows(KNOWN, (asked,))}
    for at, record in enumerate(zip(*prices.columns, strict=True)):
        if at in work.faults:
            continue
        kept = known.get(record[0])
        if kept is None:
            if None in record[1:3]:
                lacking = [name for name, place in REQUIRED if record[place] is None]
                detail = "a new product needs it"
                work.faults[at] = [RowFault(name, "required", detail) for name in lacking]
            else:
                work.new.append(record if record[6] is not None else (*record[:6], 1))
        elif kept[:-1] != record and (change := _difference(kept, record)):
            work.changes.append(change)
        else:
            work.unchanged += 1
    return work


def _difference(kept: tuple[Any, ...], record: tuple[Any, ...]) -> Change | None:
    """What a row changes of a product; empty cells change nothing."""
    *was, id = kept
    before, after = {}, {}
    for name, old, value in zip(COLUMNS, was, record, strict=True):
        if value is not None and value != old:
            before[name], after[name] = old, value
    if not after:
        return None
    becomes = dict(zip(COLUMNS, was, strict=True)) | after
    return Change(id, before, after, tuple(becomes.values()))


def _result(prices: PriceList, work: Work) -> tuple[Result, list[Reject]]:
    """The result, and the rejected rows in their order."""
    errors, rejects = imports.told(prices.sheet, work.faults)
    counts = len(work.new), len(work.changes), work.unchanged, len(rejects)
    return Result(*counts, errors[:MOST_ERRORS]), rejects


def _add(new: list[tuple[Any, ...]], report: Report) -> None:
    if not new:
        return
    (last,) = row("SELECT coalesce(max(id), 0) FROM product")
    rest = tenant.currency(), now(), now()
    with filling("product", rebuild_indexes=len(new) > max(last, AT_ONCE)):
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            folded = _folded(part)
            execute_many(ADD, [(*r, text, *rest) for r, text in zip(part, folded, strict=True)])
            report(len(part))
    execute(search_index.add_later_statement("product"), (last,))


def _change(changes: list[Change], report: Report) -> None:
    if not changes:
        return
    here, moment = current_session(), now()
    trail = [
        (
            change.id,
            moment,
            here.user_id,
            here.key_id,
            dumps(change.before).decode(),
            dumps(change.after).decode(),
        )
        for change in changes
    ]
    execute_many(TRAIL, trail)
    reworded = [change for change in changes if not SEARCHED.isdisjoint(change.after)]
    folded = _folded([change.becomes for change in reworded])
    for change, text in zip(reworded, folded, strict=True):
        change.after["search_text"] = text
    ids = dumps([change.id for change in reworded]).decode()
    execute(search_index.remove_many_statement("product"), (ids,))
    alike: dict[tuple[str, ...], list[Change]] = defaultdict(list)
    for change in changes:
        alike[tuple(change.after)].append(change)
    for names, found in alike.items():
        places = ", ".join(f"{name} = ?" for name in names)
        sql = f"UPDATE product SET {places}, updated_at = ?, version = version + 1 WHERE id = ?"
        execute_many(sql, [(*change.after.values(), moment, change.id) for change in found])
        report(len(found))
    execute(search_index.add_many_statement("product"), (ids,))


def _folded(records: list[tuple[Any, ...]]) -> list[str]:
    """What `q` will look into, of products in the order of COLUMNS: see Product.search_texts."""
    return search.fold_many([(r[0], r[1], r[4], r[5]) for r in records])
