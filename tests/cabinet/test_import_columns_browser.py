"""The step "Columns" of an import in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crm.storage.session import rows
from tests.chromium import NARROW, WIDE, Tab, log_in

FILE = Path(__file__).parent.parent / "data" / "foreign" / "01-salesdrive-orders.csv"


@pytest.fixture(params=[pytest.param(WIDE, marks=pytest.mark.deep), NARROW])
def page(crm, served: str, tab: Tab, request) -> Page:
    page = tab(request.param, base_url=served)
    log_in(page, crm, served)
    return page


def test_a_person_matches_columns_and_imports(crm, page):
    page.goto("/leads/import")
    page.set_input_files("input[type=file]", FILE)
    page.get_by_role("button", name="Далі").click()
    expect(page.get_by_role("heading", name="Стовпці файлу")).to_be_visible()
    expect(page.get_by_label("Поле для стовпця «Прізвище»")).to_have_value("last_name")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    field = page.get_by_label("Поле для стовпця «Прізвище»").bounding_box()
    assert field and field["x"] + field["width"] <= page.viewport_size["width"]
    page.get_by_label("Поле для стовпця «ТТН»").select_option(label="Зберегти в інших даних")
    unknown = page.get_by_label("Тарас", exact=True)
    if unknown.count():
        unknown.select_option(label="Залишити порожнім")
    page.get_by_role("button", name="Далі").click()
    page.get_by_role("button", name="Імпортувати").click()
    expect(page.get_by_role("heading", name="Звіт про імпорт")).to_be_visible()
    with crm.tenants.session("acme"):
        assert rows("SELECT name, extra FROM lead ORDER BY id LIMIT 1") == [
            ("Олена Іванівна Коваль", '{"ТТН":"20450000000001"}')
        ]
