"""The report of money received: what invoices were paid, by day or month and currency."""

import pytest

from crm.resources import users
from crm.resources.papers import company
from tests.company_papers import REQUISITES
from tests.conftest import Api, key_for


@pytest.fixture
def paid(crm, api, no_typst):
    """Invoices of acme that were paid, and one that was not."""
    with crm.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    days = {"UAH": ("2026-01-05", "2026-03-02", "2026-03-02", None), "USD": ("2026-03-04",)}
    for currency, all_days in days.items():
        for number, day in enumerate(all_days, 1):
            deal = api.create("/deals", title=day, amount=number * 100.5, currency=currency)
            paper = api.create(f"/deals/{deal}/papers", kind="invoice")
            if day:
                assert api.patch(f"/papers/{paper}", {"paid_at": day}).status_code == 200
    return deal


def received(api, query):
    answer = api.get(f"/reports/received?{query}")
    assert answer.status_code == 200, answer.text
    rows = {
        row["period"]: (row["payments"], row["payments_amounts"])
        for row in answer.json["data"]
        if row["payments"]
    }
    return rows, answer.json["total"]


def sums(**by_currency):
    return [{"currency": code, "amount": amount} for code, amount in by_currency.items()]


def test_money_is_summed_by_day_or_month_and_currency(api, paid):
    days, total = received(api, "since=2026-03-01&until=2026-03-31")
    assert days == {"2026-03-02": (2, sums(UAH=502.5)), "2026-03-04": (1, sums(USD=100.5))}
    assert total == {"payments": 3, "payments_amounts": sums(UAH=502.5, USD=100.5)}
    months, _ = received(api, "since=2026-01-01&until=2026-03-31&currency=UAH")
    assert months == {"2026-01": (1, sums(UAH=100.5)), "2026-03": (2, sums(UAH=502.5))}
    text = api.get("/reports/received?since=2026-03-01&until=2026-03-31&format=csv").text
    assert "2026-03-02,2,502.50," in text


def test_a_part_of_an_invoice_counts_as_what_was_paid(api, paid):
    api.patch("/papers/1", {"paid_at": "2026-02-01", "paid_amount": 10.25})
    assert received(api, "until=2026-02-28")[1]["payments_amounts"] == sums(UAH=10.25)


def test_sellers_see_the_money_of_their_own_deals(crm, api, paid):
    with crm.tenants.session("acme"):
        seller = users.create({"name": "Ігор", "role": "seller"}).id
    his = Api(crm, "acme", key_for(crm, "acme", "*", seller))
    query = "since=2026-03-01&until=2026-03-31"
    assert received(his, query)[1]["payments"] == 0
    assert api.patch(f"/deals/{paid}", {"assigned_to": str(seller)}).status_code == 200
    assert received(his, query)[1] == {"payments": 1, "payments_amounts": sums(USD=100.5)}


def test_money_of_a_deleted_deal_was_received(api, paid):
    _, before = received(api, "since=2026-03-01&until=2026-03-31")
    assert api.delete(f"/deals/{paid}").status_code == 204
    assert received(api, "since=2026-03-01&until=2026-03-31")[1] == before


def test_it_needs_the_right_to_read_papers(crm):
    key = Api(crm, "acme", key_for(crm, "acme", "deals:read"))
    assert key.get("/reports/received").json["scope"] == "papers:read"


def test_the_page_shows_it_to_who_may_see_the_deals(olena, paid):
    page = olena.sees("/reports/received?since=2026-03-01&until=2026-03-31")
    assert "Надходження" in page and "502,50" in page and "plot-bar" in page
    assert 'href=""' not in page
