"""Lists, error pages, settings and the search in a real browser, on a wide screen and a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from crm import CRMApp, create_app, demo
from crm.access import sessions
from crm.installation.opening import open_tenants
from crm.outbox.subscriptions import Webhook
from crm.resources import tasks, users, webhooks
from crm.resources.clients.record import CLIENT
from crm.resources.tasks import TASK_IN
from crm.storage.session import now, transaction
from tests.cabinet.test_pages import check
from tests.chromium import NARROW, WIDE, Tab, serving
from tests.conftest import Clock
from tests.installations import config_for, copy_installation

BOTH = pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.deep)])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    tenants = open_tenants(config_for(folder), Clock())
    demo.prepare(tenants)
    with tenants.session("acme") as here, transaction():
        here.user_id = users.owner_id()
        for number in range(230):
            title = f"Завдання {number}"
            tasks.create(TASK_IN.parse({"title": title, "assigned_to": str(here.user_id)}))
        tasks.create(TASK_IN.parse({"title": "Скасоване завдання", "status": "cancelled"}))
        sent = {"url": "https://erp.example.com/crm", "events": ["lead.created"]}
        webhooks.create(webhooks.WEBHOOK_IN.parse(sent))
        Webhook.find(1).record_failure(now(), 500)
    tenants.forget_idle()
    return folder


@pytest.fixture(scope="module")
def served(filled, tmp_path_factory) -> Iterator[tuple[CRMApp, int]]:
    folder = copy_installation(filled, tmp_path_factory.mktemp("served") / "data")
    app = create_app(config_for(folder), Clock(), sends=False)
    with serving(app) as home:
        yield app, int(home.rpartition(":")[2])
    app.tenants.forget_idle()


@pytest.fixture
def acme(served, tab: Tab, width) -> Page:
    """The owner at acme; `goto` takes paths."""
    app, port = served
    with app.tenants.session("acme"):
        token = sessions.open(users.owner_id(), "tests")
    home = f"http://acme.localhost:{port}"
    page = tab(width, base_url=home)
    page.context.add_cookies([{"name": "crm_session", "value": token, "url": home}])
    return page


def number(text: str) -> int:
    return int(re.sub(r"\s", "", text))


@BOTH
def test_a_tile_opens_its_records_and_each_filter_is_taken_away(acme):
    acme.goto("/reports/sources")
    tile = acme.locator(".tile-link").first
    count = number(tile.locator(".tile-count").inner_text())
    assert count > 0
    tile.click()
    acme.wait_for_url("**/leads?*")
    assert number(acme.locator(".head-note").inner_text()) == count
    assert acme.locator("tbody tr").count() == min(count, 50)
    check(acme, "/leads, filtered")
    expect(acme.locator(".filter-on")).to_have_count(2)
    acme.locator(".filter-on").first.click()
    expect(acme.locator(".filter-on")).to_have_count(1)
    acme.locator(".filter-on").first.click()
    expect(acme.locator(".filter-on")).to_have_count(0)
    assert acme.url.endswith("/leads")


@BOTH
def test_a_bar_and_a_cell_of_its_table_open_the_same(acme):
    acme.goto("/reports/sources")
    check(acme, "/reports/sources")
    bar = acme.locator("svg.plot a").first
    count = number(bar.locator(".plot-count").text_content())
    bar.click()
    acme.wait_for_url("**/leads?source=*")
    assert number(acme.locator(".head-note").inner_text()) == count
    acme.go_back()
    acme.locator("td a").first.click()
    acme.wait_for_url("**/leads?source=*")
    assert number(acme.locator(".head-note").inner_text()) == count


@BOTH
def test_days_are_chosen_in_the_form_and_other_filters_stay(acme):
    acme.goto("/leads?has_source=true")
    acme.locator(".list-filters summary").click()
    acme.locator("#filter-created_since").fill("2026-02-01")
    acme.locator("#filter-created_until").fill("2026-02-28")
    acme.locator(".filters button").click()
    acme.wait_for_url("**created_since=2026-02-01**")
    assert acme.locator(".filter-on").count() == 3
    assert "has_source=true" in acme.url
    assert number(acme.locator(".head-note").inner_text()) > 0


@BOTH
def test_a_cancelled_task_is_found_and_tasks_go_on_beyond_200(acme):
    acme.goto("/tasks")
    check(acme, "/tasks")
    assert acme.locator(".list-tasks li").count() == 200
    acme.locator("a[rel=next]").click()
    acme.wait_for_url("**cursor=**")
    assert acme.locator(".list-tasks li").count() >= 30
    acme.goto("/tasks")
    acme.locator(".list-filters summary").click()
    acme.locator("#filter-status").select_option("cancelled")
    acme.locator(".filters button").click()
    acme.wait_for_url("**status=cancelled**")
    acme.get_by_role("link", name="Скасоване завдання").wait_for()
    check(acme, "/tasks?status=cancelled")


@BOTH
@pytest.mark.parametrize("path", ["/nothing", "/leads/99999", "/leads?created_since=soon"])
def test_an_error_page_is_in_place_beside_the_menu(acme, width, path):
    acme.goto(path)
    check(acme, path)
    heading = acme.locator("h1").bounding_box()
    menu = acme.locator(".menu-body" if width == WIDE else ".tabs").bounding_box()
    if width == WIDE:  # right of the menu, at the place of every page's heading
        assert heading["x"] >= menu["x"] + menu["width"]
        place = (heading["x"], heading["y"])
        acme.goto("/leads")
        usual = acme.locator("h1").bounding_box()
        assert abs(usual["x"] - place[0]) <= 1 and abs(usual["y"] - place[1]) <= 12
    else:
        assert menu["y"] + menu["height"] == acme.viewport_size["height"]
        assert heading["y"] + heading["height"] < menu["y"]
        assert heading["x"] < 40


@BOTH
def test_a_strangers_error_page_is_in_place(served, tab: Tab, width):
    page = tab(width)
    for host in ("acme.localhost", "localhost", "nobody.localhost"):
        page.goto(f"http://{host}:{served[1]}/nothing")
        check(page, host)
        box = page.locator("main").bounding_box()
        assert abs(box["x"] + box["width"] / 2 - width / 2) <= 10  # in the middle
        assert page.title().startswith("Сторінку не знайдено")


@BOTH
def test_the_bare_address_shows_the_base_hosts_page(served, tab: Tab, width):
    page = tab(width)
    page.goto(f"http://127.0.0.1:{served[1]}/")
    check(page, "the bare address")
    heading = page.locator("h1").inner_text()
    assert page.locator('a[href="http://localhost:8000/signup"]').is_visible()
    page.goto(f"http://localhost:{served[1]}/")
    assert page.locator("h1").inner_text() == heading


@BOTH
def test_an_invitation_that_is_not_sent_is_shown_to_be_copied(acme, served, width):
    acme.goto("/settings/users")
    acme.locator("#name").fill(f"Марія {width}")
    acme.locator("#email").fill(f"m{width}@acme.example")
    acme.locator("form[action='/settings/users'] button").click()
    link = acme.locator("#invitation")
    link.wait_for()
    check(acme, "the invitation")
    assert re.fullmatch(r"http://acme\.localhost:8000/invite/\S+", link.inner_text().strip())
    assert acme.locator("[data-copy=invitation]").is_visible()
    acme.goto("/settings/users")
    check(acme, "/settings/users")
    row = acme.locator("tr", has_text=f"Марія {width}")
    assert "Запрошено" in row.inner_text()


@BOTH
def test_a_webhook_whose_deliveries_fail_is_not_green(acme):
    for path in ("/settings/webhooks", "/settings/webhooks/1"):
        acme.goto(path)
        check(acme, path)
        badge = acme.locator("main .pill").first
        assert badge.inner_text() == "Працює з помилками"
        color = badge.evaluate("each => getComputedStyle(each).color")
        assert color == "rgb(138, 83, 0)"  # --warn


@BOTH
def test_each_form_has_its_source(acme, width):
    proposed = []
    for number in range(2):
        acme.goto("/settings/forms")
        check(acme, "/settings/forms")
        proposed.append(acme.locator("#source").input_value())
        acme.locator("#name").fill(f"Форма {number}")
        acme.locator("#origins").fill("https://shop.example.ua")
        acme.locator("form[action='/settings/forms'] button").click()
        acme.locator("#snippet").wait_for()
        assert f'source: "{proposed[-1]}"' in acme.locator("#snippet").inner_text()
    assert len({*proposed}) == 2
    acme.goto("/settings/forms")
    acme.get_by_role("link", name="Показати форму").last.click()
    acme.locator("#source").fill(f"банер-{width}")
    acme.locator("form:has(#source) button").click()
    acme.locator(".alert-success").wait_for()
    check(acme, "/settings/forms/…")
    assert acme.locator("#source").input_value() == f"банер-{width}"


@BOTH
def test_the_search_marks_what_matched(acme, served):
    app, _ = served
    with app.tenants.session("acme"):
        name = CLIENT.every("deleted_at IS NULL ORDER BY id LIMIT 1")[0]["name"]
    word = max(re.findall(r"\w+", name), key=len)
    acme.goto(f"/search?q={word[:5]}")
    check(acme, "/search")
    assert acme.locator("mark").first.inner_text().lower() == word[:5].lower()
