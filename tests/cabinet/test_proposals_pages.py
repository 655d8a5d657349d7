"""Proposals in the workspace: the bell, what a proposal would do, and the decision."""

import re

import pytest

from crm.alerts import alerts
from tests.cabinet.test_pages import LOW_CONTROLS, check
from tests.chromium import NARROW, WIDE, Tab, log_in
from tests.conftest import OLENA, TARAS, Api, key_for

WHY = "Ніхто не відповів <b>тиждень</b>"


@pytest.fixture
def leads(api) -> list[str]:
    return [api.create("/leads", name=name, phone="+380671234567") for name in ("А", "Б", "В")]


@pytest.fixture
def proposal(crm, leads) -> str:
    """What the key of an assistant of Taras proposes: all new leads to Taras."""
    assistant = Api(crm, "acme", key_for(crm, "acme", "leads:read,leads:write", TARAS))
    with crm.tenants.session("acme"):
        for user_id in (OLENA, TARAS):
            alerts.mark_seen(user_id)  # those of the new leads
    sent = {"where": {"status": ["new"]}, "set": {"assigned_to": str(TARAS)}, "why": WHY}
    return assistant.post("/proposals", {"resource": "leads", **sent}).json["proposal_id"]


def bell(page: str) -> str | None:
    """The count of the bell; None if there is no bell."""
    link = re.search(
        r'<a class="menu-link" id="bell" href="/(?:proposals|alerts)".*?</a>', page, re.S
    )
    count = link and re.search(r'class="menu-count[^>]*>([^<]+)<', link[0])
    return None if link is None else count[1] if count else ""


def test_every_page_has_the_bell_with_what_waits(olena, manager, viewer, proposal):
    for person in (olena, manager):
        for path in ("/", "/leads", "/deals", "/settings/profile", "/proposals"):
            assert bell(person.sees(path)) == "1", path
    assert bell(viewer.sees("/")) == ""  # of alerts, but not of proposals
    link = 'href="/proposals"'  # also while the bell leads to alerts
    assert link in olena.sees("/alerts") and link not in viewer.sees("/alerts")
    olena.sends(f"/proposals/{proposal}/decline")
    assert bell(olena.sees("/")) == ""


def test_a_proposal_shows_who_asked_why_and_what_it_would_do(olena, proposal, leads, api):
    api.post(f"/leads/{leads[2]}/convert", {"title": "Стіл"})
    listed = olena.sees("/proposals")
    assert f'href="/proposals/{proposal}"' in listed and "Відповідальний: Taras" in listed
    page = olena.sees(f"/proposals/{proposal}")
    assert "Ліди: Відповідальний: Taras" in page and "Ніхто не відповів &lt;b&gt;" in page
    assert "ключ «tests»" in page and "Taras" in page and "Стан: Новий" in page
    assert 'href="/leads?view=list&amp;status=new"' in page
    assert "Змінити 2 записи?" in page and "було 3, стало 2" in page
    for id, is_shown in zip(leads, (True, True, False), strict=True):
        assert (f'href="/leads/{id}"' in page) is is_shown


def test_accepting_changes_the_records_and_can_be_undone(olena, api, proposal, leads):
    fields = olena.form_fields(
        olena.sees(f"/proposals/{proposal}"), f"/proposals/{proposal}/accept"
    )
    assert fields["expect"] == "3"
    assert olena.sends(f"/proposals/{proposal}/accept", fields) == "/proposals"
    page = olena.sees("/proposals")
    assert "Змінено 3 записи" in page and "Прийнято" in page
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] == str(TARAS)
    (undo,) = re.findall(r'action="(/leads/batches/\d+/undo)"', page)
    assert undo.removesuffix("/undo") in olena.sees(f"/proposals/{proposal}")
    olena.sends(undo)
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] is None


def test_what_changed_since_is_asked_about_again(olena, api, proposal):
    api.create("/leads", name="Г", phone="+380671234568")
    page = olena.post(f"/proposals/{proposal}/accept", {"expect": "3"})
    assert page.status_code == 409
    assert "Кількість записів змінилася" in page.text and "було 3, стало 4" in page.text
    fields = olena.form_fields(page.text, f"/proposals/{proposal}/accept")
    assert fields["expect"] == "4"
    olena.sends(f"/proposals/{proposal}/accept", fields)
    assert {lead["assigned_to"] for lead in api.read("/leads")} == {str(TARAS)}


def test_what_cannot_be_done_any_more_is_told_and_can_be_declined(olena, api, leads):
    stage = api.create("/pipelines/1/stages", name="Зайва", type="open")
    sent = {"where": {"stage_id": stage}, "set": {"comment": "x"}, "why": WHY}
    id = api.post("/proposals", {"resource": "deals", **sent}).json["proposal_id"]
    page = olena.sees(f"/proposals/{id}")
    assert "Змінити 0 записів?" in page
    assert olena.sends(f"/proposals/{id}/decline") == "/proposals"
    page = olena.sees(f"/proposals/{id}")
    assert "Відхилено" in page and "/accept" not in page
    assert olena.post(f"/proposals/{id}/accept", {"expect": "0"}).status_code == 409


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"action": "delete"}, "Видалити"),
        ({"action": "remove_tag", "tag": "vip"}, "Прибрати тег «vip»"),
        ({"set": {"assigned_to": None, "status": "qualified"}}, "Без відповідального; Стан:"),
        ({"set": {"comment": None}}, "Коментар: —"),
    ],
)
def test_the_change_is_told_in_words(olena, api, leads, change, words):
    sent = {"resource": "leads", "ids": leads, "why": WHY, **change}
    assert api.post("/proposals", sent).status_code == 201
    assert words in olena.sees("/proposals/1")


def test_a_proposal_is_accepted_in_a_browser(crm, api, served: str, tab: Tab, proposal, leads):
    page = tab(NARROW)
    log_in(page, crm, served)
    for path in ("/proposals", f"/proposals/{proposal}"):
        page.goto(f"{served}{path}")
        check(page, path)
        assert page.evaluate(LOW_CONTROLS) == []
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(f"{served}/leads")
    bell = page.get_by_role("link", name="Сповіщення")
    assert bell.locator(".menu-count").text_content() == "1"
    bell.click()
    page.locator("main tbody a").click()
    page.get_by_role("button", name="Прийняти").click()
    page.wait_for_url(f"{served}/proposals")
    assert bell.locator(".menu-count:visible").count() == 0
    assert {lead["assigned_to"] for lead in api.read("/leads")} == {str(TARAS)}
    with page.expect_navigation():
        page.get_by_role("button", name="Скасувати дію").click()
    assert {lead["assigned_to"] for lead in api.read("/leads")} == {None}
