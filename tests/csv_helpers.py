"""Files of records for the tests of imports and exports, and what there is afterwards."""

import csv
import io
from typing import Any

from python_calamine import load_workbook

from crm import spreadsheets
from crm.resources import users
from crm.resources.clients.record import CLIENT
from crm.resources.deals.items import ITEM
from crm.resources.deals.record import DEAL
from crm.resources.leads.record import LEAD
from crm.resources.tasks import TASK
from crm.spreadsheets import Result, all_resources, find_resource
from crm.storage.session import row, rows
from tests.conftest import Api

SHAPES = {"leads": LEAD, "clients": CLIENT, "deals": DEAL, "tasks": TASK}
HOSTILE = (
    "a,b;c\td",
    'він сказав "так"',
    '"',
    "'",
    "''подвійний",
    "=HYPERLINK(1)",
    "-5",
    "+380",
    "@x",
    "'=1",
    "sep=;",
    "null",
    "1250,00",
    "true",
    "\u00a0всередині\u00a0нерозривні",
    "👩‍💻 ґанок",
    "İstanbul ß",
    "а\u0301",
    "\\n \\",
    "0012",
    "\ufeffbom",
    "<r><t>x</t></r>",
    "_x0041_",
)
# What is another's in another tenant, or tells only when something was written.
OWN = ("id", "version", "updated_at", "created_by")


def load(noun: str, text: str | bytes, excel: bool = False, **options: Any) -> Result:
    """Import a file at the tenant visited."""
    data = text if isinstance(text, bytes) else text.encode()
    file = spreadsheets.read_file(data, find_resource(noun), excel)
    return spreadsheets.import_file(file, **options)


def file_of(noun: str, **options: Any) -> bytes:
    """The file of a noun's records at the tenant visited."""
    to = io.BytesIO()
    spreadsheets.export_csv(to, find_resource(noun), **options)
    return to.getvalue()


def all_files(excel: bool = False) -> dict[str, bytes]:
    """The files of all resources by name, in the order in which they are imported elsewhere."""
    return {
        resource.file_name: file_of(resource.plural, excel=excel) for resource in all_resources()
    }


def counts(result: Result) -> tuple[int, int, int, int]:
    """(created, updated, unchanged, rejected)"""
    return result.created, result.updated, result.unchanged, result.rejected


def errors(result: Result) -> list[tuple[int, str | None, str]]:
    return [(error["line"], error["column"], error["code"]) for error in result.errors]


def send(api: Api, noun: str, text: str | bytes, query: str = "", **options: Any) -> Any:
    """POST /<noun>/import with one file part."""
    data = text if isinstance(text, bytes) else text.encode()
    files = {"file": (io.BytesIO(data), options.pop("name", f"{noun}.csv"))}
    return api.call("POST", f"/{noun}/import{query}", data=files, **options)


def said(answer: Any) -> tuple[int, int, int]:
    """(created, updated, skipped) of an import's answer, which is that and what it left out."""
    assert set(answer.json) - {"left_out_columns"} == {"status", "created", "updated", "skipped"}, (
        answer.text
    )
    assert (answer.status_code, answer.json["status"]) == (200, "ok")
    return answer.json["created"], answer.json["updated"], answer.json["skipped"]


def exported(api: Api, noun: str, query: str = "") -> list[dict[str, str]]:
    """The rows of an export in the plain dialect."""
    answer = api.get(f"/{noun}/export{query}")
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.data.decode())))


def everybody() -> list[dict[str, Any]]:
    """The users of the tenant visited, as they are sent."""
    records = users.User.every("TRUE ORDER BY id")
    return [{n: getattr(user, n) for n in ("name", "phone", "email", "role")} for user in records]


def contents() -> dict[str, list[Any]]:
    """All live records of the tenant visited, comparable with those of another: ids are places in
    the order of ids, and an external_id that was made of the other's id is none."""
    places = {
        f"{noun[:-1]}_id": {
            str(id): place
            for place, (id,) in enumerate(
                rows(f"SELECT id FROM {shape.table} WHERE deleted_at IS NULL ORDER BY id")
            )
        }
        for noun, shape in SHAPES.items()
    }
    phones = {str(id): phone for id, phone in rows('SELECT id, phone FROM "user"')}
    stages = {str(id): name for id, name in rows("SELECT id, name FROM stage")}
    contacts = {str(id): name for id, name in rows("SELECT id, name FROM contact")}
    places |= {"assigned_to": phones, "stage_id": stages, "contact_id": contacts}
    results = {}
    for noun, shape in SHAPES.items():
        results[noun] = []
        for record in shape.every("deleted_at IS NULL ORDER BY id"):
            if noun == "deals":
                lines = ITEM.every("deal_id = ? ORDER BY position, id", int(record["id"]))
                record["items"] = [
                    _portable(line, {}, ("created_at", "position")) for line in lines
                ]
                del record["manager"], record["pipeline_id"]
            if noun == "clients":
                record["contacts"] = [
                    _portable(contact, {}, ("created_at",)) for contact in record["contacts"]
                ]
            results[noun].append(_portable(record, places, ()))
    return results


def workbook_rows(data: bytes) -> list[list[Any]]:
    """The cells of a workbook's first sheet."""
    return load_workbook(io.BytesIO(data)).get_sheet_by_index(0).to_python()


def _portable(record: dict[str, Any], places: dict[str, Any], more: tuple[str, ...]) -> Any:
    kept = {
        name: places[name].get(value) if name in places else value
        for name, value in record.items()
        if name not in (*OWN, *more)
    }
    if "product_id" in kept:
        known = row("SELECT sku FROM product WHERE id = ?", (int(kept["product_id"] or 0),))
        kept["product_id"] = known and known[0]
    made = kept.get("external_id")
    if made and made.startswith("acme-") and made.rpartition("-")[2].isdecimal():
        kept["external_id"] = None
    return kept
