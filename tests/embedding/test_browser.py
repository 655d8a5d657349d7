"""A day at an embedded cabinet in a real browser: below /crm, by the site's own login."""

import logging
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask, redirect, request, session
from playwright.sync_api import Page, expect
from werkzeug.serving import make_server

from crm import CRM
from crm.access import api_keys
from tests.cabinet.test_board import card, column, drag, is_in
from tests.chromium import open_page
from tests.conftest import OLENA
from tests.embedding.test_embedding import copied
from tests.installations import settings_for
from tests.readme import ROOT, blocks, read
from tests.server_process import find_free_port, wait_until_listening
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
    logging.getLogger("werkzeug").setLevel("ERROR")
    server = make_server("127.0.0.1", 0, crm.host_app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://shop.localhost:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


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


def test_the_sites_login_leads_in(page, home, crm):
    page.goto(f"{home}/crm")
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
    assert page.url == f"{home}/login?next=%2Fcrm%2F"
    page.get_by_label("Name").fill("Надія")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{home}/crm/")
    expect(page.get_by_role("link", name="Надія")).to_be_visible()


def test_every_page_of_the_menu_is_below_the_prefix(page, home, asked):
    asked.clear()
    links = page.locator(".menu-body nav a")
    paths = [links.nth(number).get_attribute("href") for number in range(links.count())]
    assert len(paths) == 9 and all(path.startswith("/crm/") for path in paths)
    for path in paths:
        page.goto(f"{home}{path}")
        assert page.locator("h1").count() == 1
        inner = page.evaluate(
            "() => [...document.querySelectorAll('[href],[src],form[action]')].map("
            "each => new URL(each.getAttribute('href') ?? each.getAttribute('src') ??"
            " each.getAttribute('action'), location.href)).map(url => url.pathname)"
        )
        assert all(item.startswith("/crm/") for item in inner), (path, inner)
    assert {path.split("/")[1] for _, path in asked} == {"crm"}


def test_a_lead_is_created_and_made_a_deal(page, home, crm):
    page.goto(f"{home}/crm/leads")
    page.get_by_role("link", name="Новий лід", exact=True).first.click()
    form = page.locator('form[method=post][action="/crm/leads"]')
    form.locator("[name=name]").fill("Марія Коваль")
    form.locator("[name=phone]").fill("067 123 45 67")
    form.locator("button").last.click()
    page.wait_for_url(f"{home}/crm/leads/1")
    expect(page.get_by_role("heading", name="Марія Коваль")).to_be_visible()
    with crm.tenant("acme"):
        assert crm.leads.get(1)["created_by"] == "3"


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
def test_swagger_tries_it_out(page, home, crm, asked):
    with crm.tenant("acme"):
        _, key = api_keys.create("swagger", "leads:read", OLENA)
    page.goto(f"{home}/crm/settings/api-keys")
    page.get_by_role("link", name="Документація API").click()
    page.wait_for_url(f"{home}/crm/api/v1/docs")
    expect(page.locator("#operations-tag-leads")).to_be_visible(timeout=20_000)
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


@pytest.mark.deep
def test_swagger_keeps_the_key_for_the_session(page, home):
    """Of the tab: loaded anew it has the key, after a logout and in another tab not."""
    page.goto(f"{home}/crm/api/v1/docs")
    expect(page.locator(".auth-wrapper .authorize.locked")).to_be_visible(timeout=20_000)
    assert page.evaluate("localStorage.length") == 0
    other = page.context.new_page()
    other.goto(f"{home}/crm/api/v1/docs")
    expect(other.locator(".auth-wrapper .authorize.unlocked")).to_be_visible(timeout=20_000)
    other.close()
    page.locator(".auth-wrapper .authorize").click()
    page.get_by_role("button", name="Remove authorization").click()
    page.locator(".auth-container .btn-done").click()
    page.goto(f"{home}/crm/api/v1/docs")
    expect(page.locator(".auth-wrapper .authorize.unlocked")).to_be_visible(timeout=20_000)


def test_swagger_links_to_the_guides_below_the_prefix(page, home):
    page.goto(f"{home}/crm/api/v1/docs")
    link = page.get_by_role("link", name="Guides", exact=True)
    with page.expect_popup(timeout=20_000) as opened:
        link.click()
    index = opened.value
    assert index.url == f"{home}/crm/api/v1/docs/guides/"
    index.get_by_role("link", name="Website forms", exact=True).click()
    index.wait_for_url(f"{home}/crm/api/v1/docs/guides/website-forms.md")
    expect(index.get_by_text("# Website forms")).to_be_visible()
    index.close()


def test_logging_out_leads_to_the_site(page, home):
    page.goto(f"{home}/crm/")
    page.get_by_role("button", name="Вийти").click()
    page.wait_for_url(f"{home}/")
    expect(page.get_by_role("heading", name="The shop")).to_be_visible(timeout=20_000)


# The guide's example, copied as it stands


def test_the_guides_example_shows_the_workspace(page, tmp_path):
    """Its commands make the tenant and serve the site; the site's login leads inside."""
    text = read("embedding")
    (tmp_path / "shop.py").write_text(blocks(text, "python")[0])
    port = find_free_port()
    create, address, serve, *_ = blocks(text)[0].splitlines()
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    here = {"cwd": tmp_path, "env": environ}

    def words(line: str) -> list[str]:
        line = line.replace(".venv/bin/flask", f"{sys.executable} -m flask")
        return shlex.split(line.removesuffix(" &").replace("5000", str(port)))

    made = subprocess.run(words(create), capture_output=True, text=True, timeout=60, **here)
    assert f"# {made.stdout}" == f"{address}\n", made.stderr
    (link,) = re.findall(r"http://localhost:5000(/crm/enter/\S+)", made.stderr)
    site = subprocess.Popen(words(serve), stderr=subprocess.DEVNULL, **here)
    try:
        wait_until_listening(port, site)
        with open_page(page.context.browser) as other:
            other.goto(f"http://127.0.0.1:{port}{link}")
            other.locator("main form button").first.click()
            expect(other.get_by_role("link", name="Олена")).to_be_visible()
        with open_page(page.context.browser) as owner:
            owner.goto(f"http://127.0.0.1:{port}/crm/")
            expect(owner.get_by_role("link", name="Олена")).to_be_visible()
            owner.goto(f"http://127.0.0.1:{port}/crm/settings/users")
            expect(owner.locator("main table tbody tr")).to_have_count(1)  # the one of the command
            owner.goto(f"http://127.0.0.1:{port}/crm/settings")
            expect(owner.locator("a[href$='/settings/webhooks']").first).to_be_visible()
            assert owner.locator("a[href$='/settings/plan']").count() == 0
            assert owner.goto(f"http://127.0.0.1:{port}/crm/settings/plan").status == 404
    finally:
        site.terminate()
        site.wait(30)
