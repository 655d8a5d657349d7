"""Search and commands by the keyboard, in a real browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.chromium import Tab, log_in

MAX_TAB_STOPS = 12


@pytest.fixture
def page(crm, api, served: str, tab: Tab) -> Page:
    """Olena at her leads, the newest of which is Марія."""
    for name in ("Ганна", "Богдан", "Марія"):
        api.create("/leads", name=name, phone="+380671234567")
    page = tab()
    log_in(page, crm, served)
    page.goto(f"{served}/leads")
    return page


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.textContent.trim()")


def test_records_are_found_while_typing(page):
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog", name="Пошук і команди")
    expect(dialog).to_be_visible()
    expect(page.locator(".rail-only")).to_be_hidden()  # the field stands above it
    assert Axe().run(page).violations_count == 0
    page.keyboard.type("богд")
    dialog.get_by_role("button", name="Богдан Ліди · Новий · 067 123 45 67").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/leads/2")
    page.keyboard.press("Control+k")
    expect(dialog.get_by_role("button").first).to_contain_text("БогданЛіди")  # seen recently
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_commands_lead_to_pages_and_change_the_status(page, api):
    page.keyboard.press("/")
    page.keyboard.type("звіт")
    page.keyboard.press("Enter")
    page.wait_for_url("**/reports")
    page.keyboard.press("/")
    page.keyboard.type("новий лід")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/leads/new")
    page.goto(page.url.replace("new", "1"))
    page.keyboard.press("Control+k")
    page.keyboard.type("підходить")
    page.keyboard.press("Enter")
    expect(page.locator(".stage[aria-current]")).to_have_text("Підходить")
    assert api.read("/leads/1")["status"] == "qualified"


def test_keys_move_in_a_list_and_open_edit_and_add(page):
    names = ("Марія", "Богдан", "Ганна", "Ганна", "Богдан")
    for key, name in zip("jjjjk", names, strict=True):
        page.keyboard.press(key)
        assert focused(page) == name
    page.keyboard.press("Enter")
    page.wait_for_url("**/leads/2")
    page.keyboard.press("e")
    page.wait_for_url("**/leads/2/edit")
    name = page.locator("main form [name=name]")
    name.press("n")  # a letter in a field
    assert "n" in name.input_value()
    page.goto(page.url.replace("/2/edit", ""))
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.wait_for_url("**/leads/3/edit")
    page.goto(page.url.replace("/3/edit", ""))
    page.keyboard.press("n")
    page.wait_for_url("**/leads/new")
    page.goto(page.url.replace("/new", ""))
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Клавіші")
    expect(keys).to_be_visible()
    assert Axe().run(page).violations_count == 0
    keys.get_by_role("button", name="Закрити").click()
    expect(keys).to_be_hidden()


def test_the_next_step_is_planned_and_asked_for_again_by_few_keys(page, api):
    page.goto(f"{page.url}/1")
    for key in ("t", "Tab", "Enter"):
        page.keyboard.press(key)
    step = page.locator("#next-step .step")
    expect(step).to_contain_text("Передзвонити")
    (task,) = api.read("/tasks")
    assert (task["type"], task["due_at"]) == ("call", "2026-03-03T21:59:59Z")  # tomorrow
    step.get_by_role("button", name="Виконати").click()
    expect(page.locator("#next-step .next-form")).to_be_visible()
    page.locator(".composer label[for=compose-task]").click()
    composer = page.locator(".composer-task")
    composer.get_by_label("Тип").select_option("meeting")
    assert composer.get_by_label("Назва").input_value() == "Зустрітися"
    composer.get_by_label("Час").select_option("14:30")
    composer.get_by_role("button", name="Через тиждень").click()
    expect(step).to_contain_text("Зустрітися")
    assert api.read("/tasks")[0]["due_at"] == "2026-03-09T12:30:00Z"


def test_few_tab_stops_lead_to_the_first_record(page):
    for _ in range(2):
        page.keyboard.press("Tab")
    assert focused(page) == "Перейти до записів"
    page.keyboard.press("Enter")
    stops = 3
    while focused(page) != "Марія" and stops <= MAX_TAB_STOPS:
        page.keyboard.press("Tab")
        stops += 1
    assert stops <= MAX_TAB_STOPS


def test_nobody_sees_what_another_user_of_the_tab_has_visited(page):
    page.goto(f"{page.url}/1")
    assert "Ганна" in page.evaluate("sessionStorage.getItem('crm-visited')")
    page.get_by_role("button", name="Вийти").click()
    page.wait_for_url("**/login")
    assert page.evaluate("sessionStorage.getItem('crm-visited')") is None
