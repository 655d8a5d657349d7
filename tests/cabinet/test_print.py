"""What is printed on A4: lists, records and papers."""

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


@pytest.fixture
def printed(crm, api, deal, browser) -> Iterator[tuple[Page, str]]:
    for number in range(60):
        api.create("/leads", name=f"Лід {number}", phone="+380671234567", comment="Стіл " * 30)
    with serving(crm) as home, open_page(browser, A4_PIXELS) as page:
        log_in(page, crm, home)
        page.emulate_media(media="print")
        yield page, home


def test_pages_fit_on_paper_without_menus(printed, api, deal):
    page, home = printed
    paper = f"/papers/{api.create(f'{deal}/papers', kind='offer')}"
    for path in ("/leads", "/deals?view=list", deal, paper):
        page.goto(f"{home}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= A4_PIXELS, path
        assert not page.locator("header.menu").is_visible()
        assert not page.locator(".btn").locator("visible=true").count(), path
        assert page.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF"), path
    assert page.get_by_role("heading").count() == 1  # of the paper
    page.goto(f"{home}/leads")
    assert page.locator(".col-comment").last.is_visible()
