"""Endpoints of papers: those of a deal, all of them, their PDFs, their links, and an export."""

from typing import IO, Any

from flask import Response
from marshmallow import fields as ma

from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import ok_answer
from crm.api.stored_files import StoredFile
from crm.records import fields, parameters, queries
from crm.records.columns import N_
from crm.records.list_plans import join_conditions
from crm.records.parameters import Query
from crm.records.record import require_live
from crm.records.schemas import schema_of
from crm.records.views import RecordView
from crm.resources.papers import links
from crm.resources.papers import record as papers
from crm.resources.papers.links import LINK, LINK_IN
from crm.resources.papers.record import KEPT_KINDS, PAPER, Paper
from crm.spreadsheets import csv_format
from crm.spreadsheets.cells import decimal_writer
from crm.spreadsheets.exporter import CSV, DIALECT, written_response
from crm.storage.dialect import by_index
from crm.storage.reading import iterate_rows, snapshot

EXPORTED = (
    *("number", "kind", "date", "client_name", "amount", "vat_amount", "currency", "paid_at"),
    *("paid_amount", "voided_at", "deal_id", "client_id", "id"),
)
MONEY = ("amount", "vat_amount", "paid_amount")


PapersSorted: Any = queries.filter_of(Paper, queries.Filter, unsorted=("created_at", "updated_at"))


class PaperFilter(PapersSorted):
    since = parameters.Since("date", "Of this day or later.", inner=fields.Date())
    until = parameters.UpTo("date", "Of this day or earlier.", inner=fields.Date())
    is_paid = parameters.HasValue("paid_at", "Whether a payment is noted.", is_indexed=False)
    is_void = parameters.HasValue("voided_at", "Whether it was voided.", is_indexed=False)


class ExportFilter(PaperFilter):
    dialect = DIALECT


class WholePaperSchema(schema_of(Paper)):  # type: ignore[misc]  # made from the declaration
    snapshot = fields.Extra(
        dump_only=True, about="All that it shows; numbers are texts with a decimal point."
    )


PAPER_FILTER = PaperFilter()
EXPORT_FILTER = ExportFilter(only=("since", "until", "kind", "dialect"))
WHOLE_PAPER = RecordView(WholePaperSchema.out("WholePaperOut"), "paper", live=False)
WHOLE_PAPER.patch = WholePaperSchema.patch("PaperPatch")

blueprint = Blueprint(
    "papers", "Offers, invoices, acts and delivery notes, made of deals.", N_("Papers")
)


of_deal = Endpoints(blueprint, "/deals/<id>/papers", PAPER)
of_deal.list(
    PaperFilter(exclude=("deal_id",)),
    "List the papers of a deal, the newest first.",
    where=lambda id: ("deal_id = ?", [require_live("deal", id)], "paper_deal"),
    name="list_deal_papers",
    needs=("papers:read",),
)
of_deal.create(
    papers.create,
    "Make a paper of a deal as it is now.",
    example={"kind": "invoice"},
    conflicts=True,
    needs=("papers:write",),
)
all_papers = Endpoints(blueprint, "/papers", PAPER)
all_papers.list(PAPER_FILTER, "List papers, the newest first.")


@blueprint.operation(
    "GET",
    "/papers/export",
    query=EXPORT_FILTER,
    kind="raw",
    media_type=CSV,
)
def export_papers(query: Query) -> Response:
    """Export papers for the bookkeeper as CSV, by date and number; void ones are named so.

    Needs `papers:read`. Offers are left out unless `kind` says otherwise.
    """
    excel = query.options.get("dialect") == "excel"
    writers = [decimal_writer(4, comma=excel) if one in MONEY else str for one in EXPORTED]
    of_kinds = f"kind IN {KEPT_KINDS}" if "kind" not in dict(query.sent) else "TRUE"
    where, params = join_conditions(query.conditions)
    sql = (
        f"SELECT {', '.join(EXPORTED)} FROM {by_index('paper', 'paper_date')}"
        f" WHERE {of_kinds}{where and f' AND {where}'} ORDER BY date, id"
    )

    def write_file(to: IO[bytes]) -> None:
        with snapshot(), iterate_rows(sql, params) as rows:
            cells = (
                ["" if one is None else write(one) for write, one in zip(writers, row, strict=True)]
                for row in rows
            )
            # A number such as 1/2026 is a date to Excel.
            kept = ("number",)
            csv_format.write_to(to, EXPORTED, cells, excel, ("client_name",), kept_columns=kept)

    return written_response("papers.csv", write_file)


@blueprint.operation("GET", "/papers/<id>.pdf", kind="raw", media_type=papers.PDF)
def get_paper_pdf(id: str) -> StoredFile:
    """Get a paper as PDF: always the same bytes."""
    return papers.pdf_of(Paper.find(id))


one_paper = Endpoints(blueprint, "/papers", WHOLE_PAPER)
one_paper.get()
one_paper.change(
    papers.update, "Note that an invoice was paid, or, with null, that it was not.", conflicts=True
)


@blueprint.operation("POST", "/papers/<id>/void", response_view=PAPER, conflicts=True)
def void_paper(id: str) -> dict[str, Any]:
    """Void a paper: it keeps its number, and its links end."""
    return PAPER.one(papers.void(id).id)


@blueprint.operation(
    "POST",
    "/papers/<id>/links",
    body=LINK_IN,
    status=201,
    secret=True,
    conflicts=True,
    answer=ok_answer(
        "PaperLinkCreated",
        link_id=ma.String,
        url=ma.String(
            metadata={
                "description": "Shown only in this response; a replay is without it.",
                "examples": ["https://acme.crm.example.com/p/jr4Fx2…"],
            }
        ),
    ),
)
def create_paper_link(id: str, data: dict[str, Any]) -> dict[str, Any]:
    """Make an address by which a client sees the paper without an account."""
    link_id, url = links.create(id, data)
    return {"status": "ok", "link_id": str(link_id), "url": url}


of_paper = Endpoints(blueprint, "/papers/<id>/links", LINK, "paper_link", id="linkId")
of_paper.list(
    queries.sorted_by("-id"),
    "List the links to a paper, the newest first.",
    where=links.of_paper,
)
of_paper.delete(lambda id, link: links.revoke(id, link), "Revoke a link to a paper.")
