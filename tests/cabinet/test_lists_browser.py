"""Filters of lists, error pages and settings in a real browser, on a wide screen and a phone."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.cabinet.test_pages import check
from tests.chromium import NARROW, WIDE, Tab, log_in

BOTH = pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.deep)])


@pytest.fixture
def acme(crm, served: str, tab: Tab, width) -> Page:
    """The owner at acme; `goto` takes paths."""
    page = tab(width, base_url=served)
    log_in(page, crm, served)
    return page


@BOTH
def test_days_are_chosen_in_the_form_and_each_filter_is_taken_away(acme):
    acme.goto("/leads?has_source=true")
    acme.locator(".list-filters summary").click()
    acme.locator("#filter-created_since").fill("2026-02-01")
    acme.locator("#filter-created_until").fill("2026-02-28")
    acme.locator(".filters button").click()
    acme.wait_for_url("**created_since=2026-02-01**")
    check(acme, "/leads, filtered")
    for count in (3, 2, 1):
        expect(acme.locator(".filter-on")).to_have_count(count)
        with acme.expect_navigation():
            acme.locator(".filter-on").first.click()
    expect(acme.locator(".filter-on")).to_have_count(0)


@pytest.mark.parametrize("width", [WIDE])
def test_a_selection_is_counted_and_moves_nothing(acme, api):
    for name in ("А", "Б"):
        api.create("/leads", name=name, phone="+380671234567")
    acme.goto("/leads")
    place = acme.locator("tbody tr").last.bounding_box()
    acme.locator("[data-all]").check()
    count = acme.locator(".bulk-count")
    expect(count).to_be_in_viewport()
    assert count.evaluate("one => getComputedStyle(one, '::after').content").endswith("(selected)")
    assert acme.locator("tbody tr").last.bounding_box() == place


@pytest.mark.parametrize("width", [768, NARROW])
def test_search_is_a_tap_away_where_the_menu_has_no_room_for_it(acme):
    acme.goto("/leads")
    acme.get_by_role("link", name="Пошук").locator("visible=true").click()
    expect(acme.locator("#q")).to_be_focused()
    check(acme, "the search")


@BOTH
def test_an_error_page_is_in_place_beside_the_menu(acme, width):
    acme.goto("/leads?created_since=soon")
    check(acme, "an error page")
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
    page, port = tab(width), served.rpartition(":")[2]
    for host in ("acme.localhost", "nobody.localhost"):
        page.goto(f"http://{host}:{port}/nothing")
        check(page, host)
        box = page.locator("main").bounding_box()
        assert abs(box["x"] + box["width"] / 2 - width / 2) <= 10  # in the middle
        assert page.title().startswith("Сторінку не знайдено")


@BOTH
def test_an_invitation_that_is_not_sent_is_shown_to_be_copied(acme):
    acme.goto("/settings/users")
    acme.locator("#name").fill("Марія")
    acme.locator("#email").fill("m@acme.example")
    acme.locator("form[action='/settings/users'] button").click()
    link = acme.locator("#invitation")
    link.wait_for()
    check(acme, "the invitation")
    assert re.fullmatch(r"http://acme\.localhost:8000/invite/\S+", link.inner_text().strip())
    assert acme.locator("[data-copy=invitation]").is_visible()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_head_of_a_record_stays_with_its_name_and_the_call(acme, api):
    name = "Олександра Кравченко-Бондаренко"
    api.create("/leads", name=name, phone="+380671234567")
    for number in range(20):
        api.create("/leads/1/notes", text=f"Нотатка {number}")
    acme.goto("/leads/1")
    head, convert = acme.locator(".head"), acme.get_by_role("link", name="Створити угоду")
    height = convert.evaluate(
        "one => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)"
    )
    assert height < 2.5, "its text takes more than a line"
    acme.locator("#timeline li").last.scroll_into_view_if_needed()
    expect(acme.locator(".record h1")).not_to_be_in_viewport()
    expect(head.locator("a.call")).to_be_in_viewport()
    shown = head.locator(".head-here")
    expect(shown).to_be_in_viewport()
    assert shown.bounding_box()["width"] >= 100
