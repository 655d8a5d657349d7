"""Papers of deals: numbers without gaps, sums, payments, links and the export."""

import hashlib
import sqlite3
from io import BytesIO

import pytest

from crm.errors import Invalid, NotFound
from crm.json import loads
from crm.records.conditions import Condition
from crm.resources import personal_data, users
from crm.resources.files import record as files
from crm.resources.papers import company, record
from crm.storage.session import rows
from crm.storage.sqlite.connection import FileConnection
from tests.concurrency import run_in_threads
from tests.conftest import Api, key_for
from tests.pictures import png

pytestmark = pytest.mark.process  # Typst runs in one

SELLER = {
    "legal_name": "ТОВ «Дубок»",
    "edrpou": "14360570",
    "iban": "UA213223130000026007233566001",
    "bank": "АТ «Банк»",
}


@pytest.fixture
def deal(crm, api):
    """A deal of 2250.90, of a company with requisites."""
    with crm.tenants.session("acme"):
        company.update(requisites=SELLER)
    client = api.create("/clients", name="ТОВ Ромашка", requisites={"edrpou": "31451288"})
    deal = api.create("/deals", title="Крісла", client_id=client)
    item = {"name": "Крісло", "price": 1250.5, "quantity": 2, "discount": 10, "unit": "шт"}
    api.create(f"/deals/{deal}/items", **item)
    return deal


def make(api, deal, kind="invoice", **more):
    return api.read(f"/papers/{api.create(f'/deals/{deal}/papers', kind=kind, **more)}")


def test_a_paper_has_the_sums_of_its_deal_and_never_changes(api, deal):
    paper = make(api, deal)
    assert (paper["number"], paper["amount"], paper["currency"]) == ("1/2026", 2250.9, "UAH")
    assert paper["client_name"] == "ТОВ Ромашка"
    snapshot = paper["snapshot"]
    assert snapshot["seller"]["iban"] == SELLER["iban"]
    assert snapshot["buyer"]["edrpou"] == "31451288"
    (line,) = snapshot["lines"]
    assert (line["quantity"], line["price"], line["discount"]) == ("2", "1250.5", "10%")
    assert snapshot["words"] == "дві тисячі двісті п’ятдесят гривень 90 копійок"
    api.create(f"/deals/{deal}/items", name="Стіл", price=100)
    assert api.read(f"/papers/{paper['id']}") == paper
    assert [make(api, deal)[name] for name in ("number", "amount")] == ["2/2026", 2350.9]


def test_a_payment_is_noted_on_the_paper_as_it_was_read(api, deal):
    path = f"/papers/{make(api, deal)['id']}"
    read = api.get(path)
    condition = {"If-Match": read.headers["ETag"]}
    paid = api.patch(path, read.json | {"paid_at": "2026-03-02"}, headers=condition)
    assert (paid.status_code, paid.json["paid_amount"]) == (200, 2250.9), paid.text
    assert paid.headers["ETag"] == api.get(path).headers["ETag"]
    assert api.patch(path, {"paid_at": None}, headers=condition).status_code == 412


def test_numbers_are_of_a_kind_and_year(api, deal, clock):
    assert make(api, deal, "offer")["number"] == "1/2026"
    assert make(api, deal, "act")["number"] == "1/2026"
    assert make(api, deal, "offer")["number"] == "2/2026"
    clock.tick(365 * 86_400)
    assert make(api, deal, "offer")["number"] == "1/2027"


def test_numbers_of_sixteen_threads_have_no_gaps(crm, api, deal):
    other = api.create("/deals", title="Без суми")
    # Each second request fails, and takes no number with it.
    made = run_in_threads(
        16,
        lambda number: (
            Api(crm, "acme", api.key)
            .post(f"/deals/{other if number % 2 else deal}/papers", {"kind": "invoice"})
            .status_code
        ),
    )
    assert sorted(made) == [201] * 8 + [409] * 8
    numbers = {int(paper["number"].split("/")[0]) for paper in api.walk("/papers")}
    assert numbers == set(range(1, 9))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"amount": 2000}, "amount_differs"),
        ({"items": []}, "no_amount"),
    ],
)
def test_a_deal_that_makes_no_paper(api, deal, change, code):
    if "items" in change:
        assert api.put(f"/deals/{deal}/items", change).status_code == 200
    else:
        assert api.patch(f"/deals/{deal}", change).status_code == 200
    answer = api.post(f"/deals/{deal}/papers", {"kind": "offer"})
    assert (answer.status_code, answer.json["code"]) == (409, code)
    assert api.read("/papers") == []


def test_an_invoice_needs_the_companys_requisites(crm, api, deal):
    with crm.tenants.session("acme"):
        company.update(requisites={"iban": None})
    answer = api.post(f"/deals/{deal}/papers", {"kind": "invoice"})
    assert (answer.status_code, answer.json["code"]) == (409, "requisites_missing")
    assert answer.json["missing"] == ["iban"]
    assert make(api, deal, "act")["number"] == "1/2026"


def test_the_companys_requisites_are_merged_and_cleared(crm):
    with crm.tenants.session("acme"):
        company.update(requisites=SELLER, paper_settings={"vat_mode": "inside"})
        company.update(requisites={"bank": None, "iban": "UA21 3223 1300 0002 6007 2335 6600 1"})
        kept = {name: SELLER[name] for name in ("legal_name", "edrpou", "iban")}
        assert company.about()["requisites"] == kept
        with pytest.raises(Invalid) as refused:
            company.update(requisites={"edrpou": "14360571"}, paper_settings={"vat_rate": 19})
        assert [(fault.where, fault.code) for fault in refused.value.faults] == [
            ("/requisites/edrpou", "invalid_edrpou"),
            ("/paper_settings/vat_rate", "invalid_choice"),
        ]
        company.update(requisites=None)
        assert company.about()["requisites"] == {}
        assert company.about()["paper_settings"]["vat_mode"] == "inside"


def test_an_invoice_is_paid(api, deal):
    paper = make(api, deal)
    path = f"/papers/{paper['id']}"
    paid = api.patch(path, {"paid_at": "2026-03-01"}).json
    assert (paid["paid_at"], paid["paid_amount"]) == ("2026-03-01", 2250.9)
    assert api.post(f"{path}/void").json["code"] == "paper_paid"
    paid = api.patch(path, {"paid_amount": None}).json
    assert (paid["paid_at"], paid["paid_amount"]) == (None, None)
    paid = api.patch(path, {"paid_amount": 1000}).json
    assert (paid["paid_at"], paid["paid_amount"]) == ("2026-03-02", 1000)
    assert [one["id"] for one in api.read("/papers?is_paid=true")] == [paper["id"]]
    offer = make(api, deal, "offer")
    answer = api.patch(f"/papers/{offer['id']}", {"paid_at": "2026-03-01"})
    assert (answer.status_code, answer.json["code"]) == (409, "not_an_invoice")
    assert api.patch(path, {"number": "7"}).status_code == 422


def test_a_void_paper_keeps_its_number_and_its_links_end(crm, api, deal):
    paper = make(api, deal)
    path = f"/papers/{paper['id']}"
    made = api.post(f"{path}/links").json
    assert api.post(f"{path}/void").json["voided_at"] == "2026-03-02T09:00:00Z"
    assert make(api, deal)["number"] == "2/2026"
    assert api.post(f"{path}/links").json["code"] == "paper_voided"
    assert api.patch(path, {"paid_at": "2026-03-01"}).json["code"] == "paper_voided"
    (link,) = api.read(f"{path}/links")
    assert (link["id"], link["ended_at"]) == (made["link_id"], "2026-03-02T09:00:00Z")


def test_the_export_for_the_bookkeeper(api, deal, clock):
    make(api, deal, "offer")
    paper = make(api, deal)
    clock.tick(86_400)
    void = make(api, deal)
    api.post(f"/papers/{void['id']}/void")
    api.patch(f"/papers/{paper['id']}", {"paid_amount": 2250.9})
    answer = api.get("/papers/export?since=2026-03-01&until=2026-03-03")
    header, *lines = answer.text.splitlines()
    assert header.startswith("number,kind,date,client_name,amount,vat_amount,currency,paid_at")
    assert [line.split(",")[:5] for line in lines] == [
        ["1/2026", "invoice", "2026-03-02", "ТОВ Ромашка", "2250.90"],
        ["2/2026", "invoice", "2026-03-03", "ТОВ Ромашка", "2250.90"],
    ]
    assert len(api.get("/papers/export?kind=offer").text.splitlines()) == 2
    excel = api.get("/papers/export?dialect=excel").text.splitlines()[1].split(";")
    assert (excel[0], excel[4]) == ("'1/2026", "2250,90")  # no date, and a number
    assert len(api.get("/papers/export?until=2026-03-02").text.splitlines()) == 2


def test_sellers_see_the_papers_of_their_own_deals(crm, api, deal):
    paper = make(api, deal)
    with crm.tenants.session("acme"):
        seller = users.create({"name": "Ігор", "role": "seller"}).id
    his = Api(crm, "acme", key_for(crm, "acme", "*", seller))
    assert his.read("/papers") == []
    assert his.get(f"/papers/{paper['id']}").status_code == 404
    assert his.get(f"/papers/{paper['id']}.pdf").status_code == 404
    assert his.post(f"/deals/{deal}/papers", {"kind": "invoice"}).status_code == 404
    assert api.patch(f"/deals/{deal}", {"assigned_to": str(seller)}).status_code == 200
    assert [one["id"] for one in his.read("/papers")] == [paper["id"]]
    assert his.get(f"/papers/{paper['id']}.pdf").data.startswith(b"%PDF")


def test_the_pdf_is_the_same_each_time(api, deal):
    paper = make(api, deal)
    answer = api.get(f"/papers/{paper['id']}.pdf")
    assert answer.data.startswith(b"%PDF")
    assert hashlib.sha256(answer.data).hexdigest() == paper["sha256"]
    assert "filename=invoice-1-2026.pdf" in answer.headers["Content-Disposition"]


def test_a_repeated_request_makes_one_paper(api, deal):
    path, headers = f"/deals/{deal}/papers", {"Idempotency-Key": "one"}
    first, second = (api.post(path, {"kind": "act"}, headers=headers) for _ in range(2))
    assert (first.status_code, first.json) == (201, second.json)
    (paper,) = api.read("/papers")
    assert paper["sha256"] is not None


def test_a_paper_without_a_pdf_gets_it_when_it_is_asked_for(crm, api, deal, monkeypatch):
    """As of a process that died in between, or where Typst was installed later."""
    with monkeypatch.context() as patched:
        patched.setattr(record.pdf, "compile", raise_no_typst)
        paper = make(api, deal)
        assert paper["sha256"] is None
        answer = api.get(f"/papers/{paper['id']}.pdf")
        assert (answer.status_code, answer.json["code"]) == (409, "pdf_not_installed")
    data = api.get(f"/papers/{paper['id']}.pdf").data
    assert api.read(f"/papers/{paper['id']}")["sha256"] == hashlib.sha256(data).hexdigest()


def test_an_offer_erased_while_its_pdf_is_made_gets_none(crm, api, deal, monkeypatch):
    client = api.read(f"/deals/{deal}")["client_id"]

    def compile_slowly(*_):
        personal_data.erase("client", client)
        return b"%PDF of a person"

    with crm.tenants.session("acme"), monkeypatch.context() as patched:
        patched.setattr(record.pdf, "compile", compile_slowly)
        paper = record.add(deal, {"kind": "offer"})
        with pytest.raises(NotFound):
            record.require_pdf(paper)
        assert record.Paper.find(paper.id).sha256 is None


def raise_no_typst(*_):
    raise record.pdf.NoTypst


def test_the_pictures_of_a_paper_are_bounded_together(crm, api, deal):
    for number in range(20):  # each of almost 2 MiB
        product = api.create("/products", name=f"Стіл {number}", price=10)
        with crm.tenants.session("acme"):
            data = png(64) + bytes([number]) * 2_000_000
            files.add("product", product, BytesIO(data), "стіл.png")
        api.create(f"/deals/{deal}/items", product_id=product)
    with crm.tenants.session("acme"):
        lines = loads(record.add(deal, {"kind": "offer"}).snapshot)["lines"]
        assert len({line.get("picture") for line in lines}) == 21
        pictures = record._pictures({"lines": lines})
        assert list(pictures) == [line["picture"] for line in lines[1:9]]
        assert sum(map(len, pictures.values())) <= record.MAX_PICTURES_BYTES


@pytest.mark.files
def test_unpaid_invoices_are_found_in_an_index(crm):
    """Rows have all that a paper shows, and are not read to know whether it is paid."""
    sql = "EXPLAIN QUERY PLAN SELECT * FROM paper WHERE kind = 'invoice' AND paid_at IS NULL"
    with crm.tenants.session("acme"):
        ((*_, step),) = rows(f"{sql} AND voided_at IS NULL ORDER BY id DESC LIMIT 51")
    assert step == "SEARCH paper USING INDEX paper_kind (kind=?)"


def test_the_sums_of_too_many_papers_are_left_out(crm, api, deal, monkeypatch):
    make(api, deal)
    with crm.tenants.session("acme"):
        ((kind, currency, *figures),) = record.sums([])
        assert (kind, currency, figures) == ("invoice", "UAH", [1, 225_090, 0])
        monkeypatch.setattr(record, "MAX_SUMMED", 0)
        assert record.sums([]) is None
        assert record.sums([Condition("kind = 'act'")]) == []


@pytest.mark.files
def test_papers_are_read_by_the_index_that_finds_few(crm, api, deal, monkeypatch):
    asked = []

    def note(connection, sql, params=()):
        asked.append((sql, params))
        return sqlite3.Connection.execute(connection, sql, params)

    monkeypatch.setattr(FileConnection, "execute", note)
    for path, index in {
        f"/deals/{deal}/papers?kind=invoice": "paper_deal",
        "/reports/received?since=2026-03-01": "paper_paid_at",
        "/papers/export?since=2026-03-01": "paper_date",
    }.items():
        asked.clear()
        assert api.get(path).status_code == 200
        (statement,) = (one for one in asked if "FROM paper" in one[0])
        with crm.tenants.session("acme"):
            plan = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1])]
        assert f"INDEX {index} " in plan[0], plan
        assert "SEARCH" in plan[0]
