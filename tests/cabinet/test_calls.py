"""Calls: from a number to the phone or a messenger, and back to the note of what was said."""

import re

import pytest

from tests.cases import loop_over
from tests.chromium import NARROW, log_in

NUMBER = "+380671234567"
CHATS = {
    "viber://chat?number=%2B380671234567",
    "https://t.me/+380671234567",
    "https://wa.me/380671234567",
}
NOTE = "/{}?compose=call#composer"


@pytest.fixture
def people(api):
    """A lead, a client, a deal and a task, all with the same number: (page, where it is noted)."""
    api.create("/leads", name="Марія", phone=NUMBER)
    client = api.create("/clients", name="Ромашка", phone=NUMBER)
    deal = api.create("/deals", title="Стіл", client_id=client)
    api.create("/tasks", title="Узгодити", deal_id=deal, due_at="2026-03-02T15:00:00Z")
    return {
        "leads/1": "leads/1",
        "clients/1": "clients/1",
        "deals/1": "deals/1",
        "tasks/1": "clients/1",
    }


def links(page):
    return {*re.findall(r'<a [^>]*?href="([^"]*)"', page)}


def test_a_record_offers_the_ways_to_a_number_and_the_note_of_a_call(people, olena):
    for path, noted_at in people.items():
        page = olena.sees(f"/{path}")
        assert {f"tel:{NUMBER}", NOTE.format(noted_at), *CHATS} <= links(page), path
        assert f'data-note="{NOTE.format(noted_at)}"' in page


def test_lists_lead_from_a_call_to_the_note_at_its_record(people, olena):
    for path, noted_at in {
        "/": ("leads/1", "clients/1"),
        "/leads": ("leads/1",),
        "/clients": ("clients/1",),
        "/deals?view=list": ("deals/1",),
        "/tasks": ("clients/1",),
    }.items():
        page = olena.sees(path)
        for record in noted_at:
            assert f'data-note="{NOTE.format(record)}"' in page, path
        assert not CHATS & links(page)  # in lists a tap calls


@loop_over("query, chosen", [("?compose=call", "call"), ("", "note"), ("?compose=x", "note")])
def test_a_record_comes_with_the_form_that_the_address_names(people, olena, query, chosen):
    page = olena.sees(f"/leads/1{query}")
    assert re.findall(r'id="compose-(\w+)"[^>]* checked>', page) == [chosen]


def test_a_call_keeps_its_result_and_how_long_it_took(people, olena, api):
    for sent, seconds in (("", None), ("600", 600)):
        page = olena.sees("/deals/1")
        assert f'<option value="{sent}">' in page
        call = {"deal_id": "1", "back": "/deals/1", "type": "call", "status": "done"}
        said = {"title": "Дзвінок", "priority": "normal", "result": "Домовилися"}
        assert olena.sends("/tasks", call | said | {"duration_seconds": sent}) == "/deals/1"
        task = api.read("/tasks?sort=-id&limit=1")[0]
        assert (task["type"], task["status"], task["deal_id"]) == ("call", "done", "1")
        assert (task["result"], task["duration_seconds"]) == ("Домовилися", seconds)
    shown = olena.sees("/deals/1").partition('id="timeline"')[2]
    assert "Домовилися" in shown and "виконано" in shown
    assert "10 хв" in olena.sees("/tasks/3")


def test_back_from_a_call_its_note_is_offered(crm, people, olena, tab, served):
    page = tab(NARROW)  # where the buttons of all rows are shown
    log_in(page, crm, served)
    dial = """addEventListener("click", event => {
      if (event.target.closest("a[href^='tel:']")) event.preventDefault() })"""
    come_back = "dispatchEvent(new Event('focus'))"

    # From a list to the page of the record, whose form is ready.
    page.goto(f"{served}/leads")
    page.evaluate(come_back)
    assert page.url == f"{served}/leads"  # nobody was called
    page.evaluate(dial)
    page.locator("a.call").click()
    page.evaluate(come_back)
    page.wait_for_url(f"{served}/leads/1?compose=call#composer")
    form = page.locator(".composer-call")
    assert form.locator("textarea").is_visible()

    # On the page of the record nothing else is lost.
    page.goto(f"{served}/leads/1")
    page.evaluate(dial)
    assert not form.locator("textarea").is_visible()
    page.locator(".composer-note textarea").fill("Незбережене")
    page.locator("a.call-wide").click()
    page.evaluate(come_back)
    assert form.locator("textarea").evaluate("field => field === document.activeElement")
    assert page.locator(".composer-note textarea").input_value() == "Незбережене"
    page.keyboard.type("Хоче стіл")
    form.locator("select").select_option("300")
    form.locator("button").click()
    page.locator("#timeline").get_by_text("Хоче стіл").wait_for()
    assert "5 хв" in olena.sees("/tasks/2")
