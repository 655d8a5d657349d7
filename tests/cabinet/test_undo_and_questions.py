"""What cannot be taken back is asked about, everything else has Undo; lists in an order of one's
own; the form for a new lead. In a real browser, with and without scripts."""

import pytest
from playwright.sync_api import Locator, Page, expect

from crm.resources.pipelines.record import PIPELINE
from crm.resources.users import User
from crm.storage.session import transaction
from tests.chromium import NARROW, WIDE, Tab, log_in
from tests.conftest import OLENA
from tests.tables import Tables, read_tables

HOOK = "https://erp.example.com/crm"
KEY, HOOK_PATH = "/settings/api-keys", "/settings/webhooks/1"


WAYS = [(WIDE, True), (NARROW, False), (WIDE, False), (NARROW, True)]  # with and without scripts
DEEP = {2: pytest.mark.deep, 3: pytest.mark.deep}


@pytest.fixture(
    params=[pytest.param(way, marks=DEEP.get(number, ())) for number, way in enumerate(WAYS)]
)
def way(request) -> tuple[int, bool]:
    return request.param


@pytest.fixture
def scripts(way) -> bool:
    return way[1]


@pytest.fixture
def page(crm, served: str, tab: Tab, way) -> Page:
    """Olena, in English."""
    with crm.tenants.session("acme"), transaction():
        User.find(OLENA).save_changes({"language": "en"})
    page = tab(way[0], java_script_enabled=way[1], base_url=served)
    log_in(page, crm, served)
    return page


def fits(page: Page) -> bool:
    """Nothing is wider than the window."""
    return page.locator("html").evaluate("html => html.scrollWidth <= html.clientWidth")


def stages(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [stage["name"] for stage in PIPELINE.one(1)["stages"]]


def within(page: Page, what: Locator) -> bool:
    """It is on the screen without scrolling sideways."""
    box, width = what.bounding_box(), page.viewport_size["width"]
    return box["x"] >= 0 and box["x"] + box["width"] <= width


# Questions


def asked(page: Page, scripts: bool, question: str) -> Locator:
    """The question, as a dialog or as a page."""
    section = page.locator("dialog #ask" if scripts else "main > #ask")
    expect(section.get_by_role("heading", name=question)).to_be_visible()
    return section


def test_a_key_is_revoked_after_a_question(crm, page, scripts, taras):
    page.goto(KEY)
    row = page.get_by_role("row", name="Taras")
    row.get_by_role("button", name="Revoke").click()
    question = asked(page, scripts, "Revoke the key “tests”?")
    question.get_by_text("Cancel").click()
    expect(question).to_have_count(0)
    assert taras.get("/users/me").status_code == 200
    row.get_by_role("button", name="Revoke").click()
    asked(page, scripts, "Revoke the key").get_by_role("button", name="Revoke").click()
    page.get_by_text("Key revoked").wait_for()
    expect(row.get_by_role("button", name="Revoke")).to_have_count(0)
    assert taras.get("/users/me").status_code == 401


ASKED = {
    "/clients/1/contacts/1/delete": {},
    "/clients/1/notes/1/delete": {},
    "/deals/1/items/remove": {"item_id": "1"},
    "/settings/webhooks/1/delete": {},
    "/settings/webhooks/1/rotate": {},
    "/settings/pipelines/1/stages/2/delete": {},
    "/settings/pipelines/2/delete": {},
    "/settings/api-keys/2/revoke": {},
}


@pytest.mark.parametrize("path", ASKED)
def test_what_cannot_be_undone_changes_nothing_before_the_answer(crm, olena, api, path):
    api.create("/clients", name="Світанок", contacts=[{"name": "Ірина"}])
    api.create("/clients/1/notes", text="Просили знижку")
    api.create("/products", name="Стіл", price=10)
    api.create("/deals", title="Столи")
    api.create("/deals/1/items", product_id="1")
    api.create("/webhooks", url=HOOK, events=["deal.won"])
    api.create("/pipelines", name="Опт")

    def state() -> Tables:
        tables = read_tables(crm.tenants, "acme")
        return {name: result for name, result in tables.items() if name != "api_key"}

    before, events = state(), api.kinds()
    page = olena.post(path, ASKED[path])
    assert page.status_code == 200 and 'id="ask"' in page.text
    assert (state(), api.kinds()) == (before, events)
    answer = olena.post(path, {**ASKED[path], "sure": "1"})
    assert answer.status_code == 303 or "whsec_" in answer.text
    assert state() != before or "revoke" in path


# Undo


def test_undo_of_a_task_changes_nothing_once_somebody_changed_it(olena, api):
    api.create("/tasks", title="Подзвонити", assigned_to=str(OLENA))
    olena.sends("/tasks/1/complete")
    sent = olena.form_fields(olena.sees("/tasks"), "/tasks/1/reopen")
    api.patch("/tasks/1", {"result": "Домовилися"})
    page = olena.post("/tasks/1/reopen", sent)
    assert page.status_code == 409
    assert "Хтось інший тим часом це змінив." in page.text and "Домовилися" in page.text
    assert api.read("/tasks/1")["status"] == "done"


# Order


def test_the_buttons_for_the_order_are_on_the_screen_and_work(crm, page):
    page.goto("/settings/pipelines/1")
    assert fits(page)
    for name in ("Up: Proposal", "Down: New"):
        assert within(page, page.get_by_role("button", name=name))
    page.get_by_role("button", name="Up: Proposal").click()
    expect(page.locator(".ordered li").nth(1)).to_contain_text("Proposal")
    assert stages(crm)[:3] == ["New", "Proposal", "Qualified"]
    page.get_by_role("button", name="Down: New").click()
    expect(page.locator(".ordered li").first).to_contain_text("Proposal")
    assert stages(crm)[:3] == ["Proposal", "New", "Qualified"]


@pytest.mark.parametrize(
    "way", [(WIDE, True), pytest.param((NARROW, True), marks=pytest.mark.deep)], indirect=True
)
def test_a_stage_is_dragged_to_another_place(crm, page, api):
    page.goto("/settings/pipelines/1")
    for name, onto, order in (
        ("Negotiation", "New", ["Negotiation", "New", "Qualified", "Proposal", "Won", "Lost"]),
        ("Negotiation", "Proposal", ["New", "Qualified", "Proposal", "Negotiation", "Won", "Lost"]),
    ):
        page.locator("#stages").evaluate("head => head.scrollIntoView({behavior: 'instant'})")
        start = page.locator(".ordered li", has_text=name).locator(".grip").bounding_box()
        end = page.locator(".ordered li", has_text=onto).bounding_box()
        page.mouse.move(start["x"] + 4, start["y"] + 4)
        page.mouse.down()
        page.mouse.move(end["x"] + 60, end["y"] + end["height"] / 2, steps=8)
        with page.expect_navigation():
            page.mouse.up()
        at = order.index(name)
        expect(page.locator(".ordered li").nth(at)).to_contain_text(name)
        assert stages(crm) == order


# Why deals are lost


def test_the_reasons_are_kept_for_each_pipeline(olena, api):
    path = "/settings/pipelines/1"
    form = olena.form_as_it_is(path) | {"lost_reasons": "Too expensive, no budget\r\n\r\nToo late"}
    olena.sends(path, form)
    assert api.read("/pipelines/1")["lost_reasons"] == ["Too expensive, no budget", "Too late"]
    assert "Too expensive, no budget\nToo late" in olena.sees(path)
