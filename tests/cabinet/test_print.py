"""What is printed on A4: lists, records and quotations."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.chromium import log_in, open_page, serving

A4_PIXELS = 794 - 2 * 53  # at 96 dpi, without the margins of 14 mm


@pytest.fixture
def deal(api) -> str:
    """The path of a deal with a client, items and a discount."""
    client = api.create(
        "/clients", name="ТОВ Світанок", phone="+380671234567", tax_number="12345678"
    )
    deal = api.create("/deals", title="Крісла", client_id=client)
    api.create(f"/deals/{deal}/items", name="Крісло", price=1200, quantity=2, discount=10)
    api.create(f"/deals/{deal}/items", name="Доставка", price=350.5)
    return f"/deals/{deal}"


def test_a_quotation_names_the_company_the_client_and_the_items(olena, deal):
    assert f'href="{deal}/quotation"' in olena.sees(deal)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", olena.sees(f"{deal}/quotation")))
    shown = (
        *("Комерційна пропозиція № 1 від", "Acme", "ТОВ Світанок", "12345678", "067 123 45 67"),
        *("Крісло", "2 160 ₴", "Доставка", "350,50 ₴", "До сплати 2 510,50 ₴", "Olena"),
    )
    for text in shown:
        assert text in page.replace("\N{NO-BREAK SPACE}", " "), text


def test_a_deal_without_items_or_client_has_a_quotation(olena, api):
    deal = api.create("/deals", title="Кухня", amount=5000)
    assert "Кухня" in olena.sees(f"/deals/{deal}/quotation")


@pytest.fixture
def printed(crm, api, deal, browser) -> Iterator[tuple[Page, str]]:
    for number in range(60):
        api.create("/leads", name=f"Лід {number}", phone="+380671234567", comment="Стіл " * 30)
    with serving(crm) as home, open_page(browser, A4_PIXELS) as page:
        log_in(page, crm, home)
        page.emulate_media(media="print")
        yield page, home


def test_pages_fit_on_paper_without_menus(printed, deal):
    page, home = printed
    for path in ("/leads", "/deals?view=list", deal, f"{deal}/quotation"):
        page.goto(f"{home}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= A4_PIXELS, path
        assert not page.locator("header.menu").is_visible()
        assert not page.locator(".btn").locator("visible=true").count(), path
        assert page.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF"), path
    assert page.get_by_role("heading").count() == 1  # of the quotation
    page.goto(f"{home}/leads")
    assert page.locator(".col-comment").last.is_visible()
