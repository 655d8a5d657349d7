"""Papers: offers, invoices, acts and delivery notes, made from a deal as it is.

A paper has the next number of its kind and year: numbers have no gaps, also when processes die,
because a number is given in the transaction that adds the paper. What it shows is stored with it,
and its PDF once that was made; neither changes, whatever becomes of the deal. A wrong paper is
voided, and keeps its number. Papers outlive their deal and client, as the law asks of invoices.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Any

from peewee import IntegerField, TextField

from crm.api.stored_files import StoredFile
from crm.errors import Conflict, CRMError, NotFound
from crm.json import dumps, loads
from crm.papers import KINDS, LANGUAGES, pdf
from crm.records import columns, erasure, parameters
from crm.records.columns import N_
from crm.records.conditions import Condition
from crm.records.list_plans import join_conditions
from crm.records.record import Record
from crm.records.views import declare_views
from crm.resources import logo
from crm.resources.deals.record import Deal
from crm.resources.papers import snapshots
from crm.storage import contents, own_rows
from crm.storage.clocks import today
from crm.storage.dialect import among, by_index
from crm.storage.session import (
    after_commit,
    current_session,
    execute,
    now,
    one_row,
    remembered_rows,
    row,
    transaction,
)
from crm.values import money

PDF = "application/pdf"
MAX_SUMMED = 10_000  # papers; of sellers the deal of each is looked up too
MAX_PICTURES_BYTES = 16 << 20  # of the lines of a PDF, which is as large
ERASED = "{}"  # the snapshot of an offer to somebody whose personal data was erased
KEPT_KINDS = KINDS[1:]  # primary documents, which are kept when a person's data is erased


class Paper(Record):
    """One paper, in stored form; all but its payment never changes."""

    noun = "paper"

    deal_id = columns.Id(dump_only=True, filtered=parameters.Reference(about="Papers of a deal."))
    client_id = columns.Id(
        dump_only=True, allow_none=True, filtered=parameters.Reference(about="Papers of a client.")
    )
    kind = columns.Choice(
        *KINDS,
        required=True,
        create_only=True,
        example="invoice",
        filtered=parameters.Equals(),
        label=N_("Kind"),
    )
    language = columns.Choice(
        *LANGUAGES, default="uk", create_only=True, about="Of its texts.", label=N_("Language")
    )
    number = columns.Text(64, dump_only=True, example="17/2026", label=N_("Paper number"))
    date = columns.Date(dump_only=True, sorted=True, label=N_("Date"))
    year = IntegerField()
    sequence = IntegerField()
    client_name = columns.Text(255, dump_only=True, allow_none=True, label=N_("Client"))
    amount = columns.Amount(dump_only=True, label=N_("Amount"))
    vat_amount = columns.Amount(dump_only=True, allow_none=True, label=N_("VAT"))
    currency = columns.Currency(dump_only=True, label=N_("Currency"))
    snapshot = TextField()
    sha256 = columns.Text(
        64, dump_only=True, allow_none=True, about="Of its PDF; null until that was made."
    )
    user_id = columns.Id(dump_only=True, allow_none=True, about="Who made it.")
    voided_at = columns.DateTime(dump_only=True, allow_none=True)
    paid_at = columns.Date(about="Of an invoice: the day of the payment.", label=N_("Paid on"))
    paid_amount = columns.Amount(about="By default its amount.", label=N_("Paid"))

    @property
    def is_erased(self) -> bool:
        """Whether it is an offer to somebody whose personal data was erased."""
        return self.snapshot == ERASED


own_rows.declare_parts("paper", "deal")
contents.declare_users("paper")

PAPER, PAPER_IN, PAPER_PATCH = declare_views(Paper)


def create(deal_id: int | str, data: dict[str, Any]) -> int:
    """Make a paper of a live deal, with its PDF where Typst is installed; return its id.

    Raises what add() does.
    """
    with transaction():
        paper = add(deal_id, data)
        after_commit(partial(_make_pdf, paper))
        return paper.id


def add(deal_id: int | str, data: dict[str, Any]) -> Paper:
    """Make a paper of a live deal, whose PDF is made when it is asked for.

    Raises NotFound, and Conflict: `no_amount`, `amount_differs`, `requisites_missing`.
    """
    with transaction():
        deal = Deal.find(deal_id)
        day = today()
        kind, language = data["kind"], data.get("language") or "uk"
        snapshot = snapshots.of(deal, kind, language, day)
        last = "SELECT coalesce(max(sequence), 0) FROM paper WHERE kind = ? AND year = ?"
        sequence = one_row(last, (kind, day.year))[0] + 1
        snapshots.set_number(snapshot, sequence)
        vat = snapshot["totals"]["vat"]
        return Paper.add(
            {
                "deal_id": deal.id,
                "client_id": deal.client_id,
                "kind": kind,
                "language": language,
                "number": snapshot["number"],
                "date": snapshot["date"],
                "year": day.year,
                "sequence": sequence,
                "client_name": deal.client_name,
                "amount": money(snapshot["totals"]["gross"], 2, 1 << 62),
                "vat_amount": None if vat is None else money(vat, 2, 1 << 62),
                "currency": deal.currency,
                "snapshot": dumps(snapshot).decode(),
                "user_id": current_session().user_id,
            }
        )


def _make_pdf(paper: Paper) -> None:
    """Make the PDF of a new paper; without one it is made when it is asked for."""
    with suppress(CRMError, OSError):
        require_pdf(paper)


def require_pdf(paper: Paper) -> str:
    """The sha256 of a paper's PDF, which is made if it is not there yet.

    Of two that make it at once, one is stored. Raises NoTypst and PdfFailed, and NotFound of an
    offer that was erased.
    """
    if paper.is_erased:
        raise NotFound
    if paper.sha256 is None:
        snapshot = loads(paper.snapshot)
        store = current_session().source.contents
        sha256, _ = store.add(BytesIO(pdf.compile(snapshot, _pictures(snapshot))))
        with transaction():
            # Unless another has made it, or erased the offer, meanwhile.
            set_once = (
                "UPDATE paper SET sha256 = ? WHERE id = ? AND sha256 IS NULL AND snapshot <> ?"
            )
            execute(set_once, (sha256, paper.id, ERASED))
            paper.sha256 = Paper.find(paper.id).sha256
        if paper.sha256 is None:
            raise NotFound
    return paper.sha256


def pdf_of(paper: Paper) -> StoredFile:
    """The PDF of a paper; raises NoTypst and PdfFailed if it is yet to be made, and cannot be."""
    sha256 = require_pdf(paper)
    name = f"{paper.kind}-{paper.number.replace('/', '-')}.pdf"
    return StoredFile(name, PDF, current_session().source.contents.size(sha256), sha256, True)


def picture_of(paper: Paper, sha256: str) -> StoredFile:
    """A picture of the lines of an offer; raises NotFound, also when its file was deleted."""
    named = {line.get("picture") for line in loads(paper.snapshot).get("lines", ())}
    file = row("SELECT content_type, size FROM file WHERE sha256 = ? LIMIT 1", (sha256,))
    if sha256 not in named or file is None:
        raise NotFound
    return StoredFile("", file[0], file[1], sha256, True)


def sums(conditions: Sequence[Condition]) -> list[tuple[Any, ...]] | None:
    """What papers that meet conditions come to: [(kind, currency, count, amount, paid amount)].

    Amounts are in 1/100; in 1/10 000 they could add up to more than 64 bits. Void papers are left
    out. None if there are more than MAX_SUMMED, of which no more are read.
    """
    where, params = join_conditions([*conditions, Condition("voided_at IS NULL")])
    # The index has the amounts too; a deal and a client have indexes of their few papers.
    has_few = "deal_id" in where or "client_id" in where
    papers = "paper" if has_few else by_index("paper", "paper_date")
    some = f"SELECT kind, currency, amount, paid_amount FROM {papers} WHERE {where} LIMIT ?"
    figures = "count(*), sum(amount / 100), coalesce(sum(paid_amount / 100), 0)"
    sums = remembered_rows(
        f"SELECT kind, currency, {figures} FROM ({some}) AS summed"
        " GROUP BY kind, currency ORDER BY kind, currency",
        (*params, MAX_SUMMED + 1),
    )
    return sums if sum(count for _, _, count, *_ in sums) <= MAX_SUMMED else None


def _pictures(snapshot: dict[str, Any]) -> dict[str, bytes]:
    """The pictures of a paper by name: `logo`, and those of its lines by sha256.

    Of its lines those of the first that have MAX_PICTURES_BYTES together.
    """
    store, left = current_session().source.contents, MAX_PICTURES_BYTES
    pictures = {"logo": stored[1]} if (stored := logo.read()) else {}
    for sha256 in dict.fromkeys(filter(None, (line.get("picture") for line in snapshot["lines"]))):
        size = row("SELECT size FROM file WHERE sha256 = ? LIMIT 1", (sha256,))
        if size and size[0] <= left:
            left -= size[0]
            pictures[sha256] = b"".join(store.read(sha256))
    return pictures


def void(id: int | str) -> Paper:
    """Declare a paper void; it keeps its number, and its links end.

    Raises NotFound, and Conflict `paper_paid`.
    """
    with transaction():
        paper = Paper.find(id)
        if paper.paid_at is not None:
            raise Conflict("it is paid: take back the payment first", "paper_paid")
        if paper.voided_at is None:
            paper.save_changes({"voided_at": now()})
            execute(
                "UPDATE paper_link SET ended_at = ? WHERE paper_id = ? AND ended_at IS NULL",
                (now(), paper.id),
            )
        return paper


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Paper:
    """Note that an invoice was paid, or with null that it was not.

    A day without an amount is a payment in full; an amount without a day is one of today. Raises
    NotFound, Stale, and Conflict `not_an_invoice` or `paper_voided`.
    """
    with transaction():
        paper = Paper.find(id, expected_version)
        if paper.kind != "invoice":
            raise Conflict("only an invoice is paid", "not_an_invoice")
        if paper.voided_at is not None:
            raise Conflict("it is void", "paper_voided")
        stored = {name: getattr(paper, name) for name in ("paid_at", "paid_amount")}
        values = stored | {name: data[name] for name in stored if name in data}
        if any(values[name] is None and stored[name] is not None for name in stored):
            values = dict.fromkeys(values)
        elif values["paid_amount"] is None and values["paid_at"] is not None:
            values["paid_amount"] = paper.amount
        elif values["paid_amount"] is not None and values["paid_at"] is None:
            values["paid_at"] = today().isoformat()
        paper.save_changes(values)
        return paper


def find_by_number(number: str, kind: str = "invoice") -> Paper:
    """The paper of that number that is not void, the newest of several; raises NotFound."""
    last = "number = ? AND kind = ? AND voided_at IS NULL AND id = (SELECT max(id) FROM paper"
    paper = Paper.first(f"{last} WHERE number = ? AND kind = ?)", number, kind, number, kind)
    if paper is None:
        raise NotFound
    return paper


def of_person(ids: dict[str, list[int]]) -> tuple[str, tuple[str, str]]:
    """The condition of the papers of a person's deals, also of those that are now of another
    client or gone."""
    condition = f"({among('deal_id')} OR {among('client_id')})"
    return condition, (dumps(ids["deal"]).decode(), dumps(ids["client"]).decode())


def _erase_person(person: erasure.Person) -> int:
    """Erase the offers of a person's deals, but their numbers, and end all links.

    Invoices, acts and delivery notes are kept: the Tax Code of Ukraine (44.3) asks for years.
    """
    condition, ids = of_person(person.ids)
    execute(
        "UPDATE paper_link SET ended_at = ? WHERE ended_at IS NULL"
        f" AND paper_id IN (SELECT id FROM paper WHERE {condition})",
        (now(), *ids),
    )
    return execute(
        f"UPDATE paper SET snapshot = '{ERASED}', client_name = NULL, client_id = NULL,"
        " sha256 = NULL, voided_at = coalesce(voided_at, ?)"
        f" WHERE kind = 'offer' AND {condition}",
        (now(), *ids),
    ).rowcount


def _count_kept(person: erasure.Person) -> int:
    """How many papers of a person's deals are kept."""
    condition, ids = of_person(person.ids)
    return one_row(f"SELECT count(*) FROM paper WHERE kind <> 'offer' AND {condition}", ids)[0]


erasure.register("offers", _erase_person, "paper", "paper_link")
erasure.register("kept_papers", _count_kept)
