"""A day at an embedded cabinet in a real browser: below /crm, by the site's own login."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask, redirect, request, session
from playwright.sync_api import Page, expect

from crm import CRM
from crm.access import api_keys
from tests.cabinet.test_board import card, column, drag, is_in
from tests.chromium import open_page, serving
from tests.conftest import OLENA
from tests.embedding.test_embedding import copied
from tests.installations import settings_for
from tests.sites import logged_in

pytestmark = pytest.mark.browser

LOGIN = """<!doctype html><title>shop</title><link rel="icon" href="data:,">
<h1>The shop</h1><form method="post"><label>Name <input name="name"></label>
<button>Log in</button></form>"""


def shop(folder: Path) -> Flask:
    """A site with a start page and a login of its own."""
    site = Flask("shop", instance_path=str(folder / "instance"), static_folder=None)
    site.secret_key = "the site's own"

    @site.get("/")
    def home() -> str:
        return LOGIN.partition("<form")[0]

    @site.get("/login")
    def login() -> str:
        return LOGIN

    @site.post("/login")
    def enter():
        session.update(id="u1", name=request.form["name"], role="owner")
        return redirect(request.args["next"])

    return site


@pytest.fixture(scope="module")
def crm(furnished, tmp_path_factory) -> Iterator[CRM]:
    folder = tmp_path_factory.mktemp("shop")
    result = CRM(
        shop(folder), url_prefix="/crm", tenant="acme", current_user=logged_in,
        login_url="/login", **settings_for(copied(furnished, folder / "data")), sends=False,
    )  # fmt: skip
    yield result
    result.app.tenants.forget_idle()


@pytest.fixture(scope="module")
def home(crm) -> Iterator[str]:
    """The address of the site, served by threads of this process."""
    with serving(crm.host_app, "shop") as address:
        yield address


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, str]]:
    """(method, path) of every request of the browser."""
    return []


@pytest.fixture(scope="module")
def page(home, asked, browser) -> Iterator[Page]:
    """One browser for the whole day, whose tests follow each other; the console stays silent."""
    said: list[str] = []
    with open_page(browser, 1600) as result:
        result.on("console", lambda message: said.append(message.text))
        result.on("request", lambda r: asked.append((r.method, urlsplit(r.url).path)))
        yield result
    assert said == []


@pytest.fixture
def nadiia(page, home) -> None:
    """That Nadiia is logged in, also where a test runs alone."""
    page.goto(f"{home}/crm")
    if page.url == f"{home}/crm/":
        return
    page.get_by_label("Name").fill("Надія")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{home}/crm/")


def test_the_sites_login_leads_in(page, home, crm):
    page.goto(f"{home}/crm")
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
    assert page.url == f"{home}/login?next=%2Fcrm%2F"
    page.get_by_label("Name").fill("Надія")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{home}/crm/")
    expect(page.get_by_role("link", name="Надія")).to_be_visible()


@pytest.mark.usefixtures("nadiia")
def test_a_card_of_the_board_is_moved(page, home, crm, asked):
    with crm.tenant("acme"):
        crm.deals.create(title="Крісла", amount=1200)
    page.goto(f"{home}/crm/deals")
    asked.clear()
    drag(page, card(page, "Крісла"), column(page, "Proposal"))
    is_in(page, "Крісла", "Proposal")
    with crm.tenant("acme"):
        assert crm.deals.get(1)["stage_id"] == "3"
    assert ("POST", "/crm/deals/1/stage") in asked


@pytest.mark.deep
@pytest.mark.usefixtures("nadiia")
def test_swagger_tries_it_out(page, home, crm, asked):
    with crm.tenant("acme"):
        crm.leads.create(name="Марія Коваль", phone="067 123 45 67")
        _, key = api_keys.create("swagger", "leads:read", OLENA)
    page.goto(f"{home}/crm/settings/api-keys")
    page.get_by_role("link", name="Документація API").click()
    page.wait_for_url(f"{home}/crm/api/v1/docs")
    expect(page.locator("#operations-tag-leads")).to_be_visible()
    expect(page.locator("[id^=operations-leads-]")).to_have_count(0)  # all is collapsed
    page.get_by_role("button", name="Authorize").click()
    page.locator(".auth-container input").fill(key)
    page.locator(".auth-container button[type=submit]").click()
    page.locator(".auth-container .btn-done").click()
    page.locator(".filter input").fill("leads")
    expect(page.locator("#operations-tag-products")).to_have_count(0)
    page.locator("#operations-tag-leads").click()
    page.locator("#operations-leads-list_leads button.opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    asked.clear()
    page.get_by_role("button", name="Execute").click()
    answer = page.locator(".live-responses-table .response-col_status").last
    expect(answer).to_contain_text("200")
    expect(page.locator(".live-responses-table")).to_contain_text("Марія Коваль")
    assert asked == [("GET", "/crm/api/v1/leads")]


@pytest.mark.usefixtures("nadiia")
def test_logging_out_leads_to_the_site(page, home):
    page.goto(f"{home}/crm/")
    page.get_by_role("button", name="Вийти").click()
    page.wait_for_url(f"{home}/")
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
