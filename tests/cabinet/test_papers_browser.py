"""From a deal to the paper that its client sees, in a browser of three widths."""

import pytest

from crm.resources.papers import company
from tests.cabinet.test_pages import LOW_CONTROLS, check
from tests.chromium import NARROW, WIDE, log_in, open_page, serving
from tests.waiting import wait_for

SHARING = """
    window.shared = [];
    navigator.canShare = ({ files }) => files.every((file) => file instanceof File);
    navigator.share = async ({ title, url, files }) => shared.push([title, url, files?.[0].size]);
"""


@pytest.mark.parametrize("width", [NARROW, 768, WIDE])
def test_from_a_deal_to_its_client(crm, api, browser, width):
    with crm.tenants.session("acme"):
        company.update(requisites={"legal_name": "ТОВ", "iban": "UA213223130000026007233566001"})
    deal = api.create("/deals", title="Крісла", amount=100)
    with serving(crm) as home, open_page(browser, width) as page:
        log_in(page, crm, home)
        page.add_init_script(SHARING)
        page.goto(f"{home}/deals/{deal}")
        page.get_by_role("button", name="Рахунок на оплату").click()
        page.get_by_role("heading", name="Рахунок на оплату № 1/2026", exact=True).wait_for()
        check(page, "the paper")
        page.locator("[data-kind=pdf]").click()
        wait_for(lambda: page.evaluate("shared.length"))
        ((_, address, size),) = page.evaluate("shared")
        assert address is None and size > 1000, "the PDF itself"
        with page.expect_download() as download:
            page.get_by_role("link", name="Завантажити PDF").click()
        assert download.value.path().read_bytes().startswith(b"%PDF")
        page.get_by_role("button", name="Створити посилання").click()
        path = page.locator("#paper-link").inner_text().split("localhost:8000")[1]
        check(page, "the link")
        page.locator("[data-kind=link]").click()
        wait_for(lambda: page.evaluate("shared.length"))
        assert page.evaluate("shared[0][1]").endswith(path)
        if width == NARROW:
            assert page.evaluate(LOW_CONTROLS) == []
        page.get_by_role("button", name="Позначити сплаченим").click()
        page.locator(".pill", has_text="Сплачено").first.wait_for()
        page.context.clear_cookies()
        page.goto(f"{home}{path}")
        check(page, "what the client sees")
        assert page.context.cookies() == []
        assert not page.get_by_text("Угоди").count()
        page.goto(f"{home}/p/{'x' * 43}")
        check(page, "no link")
