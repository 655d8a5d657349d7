"""The board of deals in a real browser: a card is dragged, and the server has the last word."""

import pytest
from playwright.sync_api import Locator, Page

from crm.access import sessions
from tests.chromium import NARROW, Tab
from tests.conftest import OLENA


@pytest.fixture
def board(crm, served: str, tab: Tab, api, request) -> Page:
    """Olena at her board, with two deals at the first stage."""
    api.create("/deals", title="Крісла", amount=1200)
    api.create("/deals", title="Столи", amount=800.5)
    with crm.tenants.session("acme"):
        token = sessions.open(OLENA, "tests")
    page = tab(getattr(request, "param", 1600))
    page.context.add_cookies([{"name": "crm_session", "value": token, "url": served}])
    page.goto(f"{served}/deals")
    return page


def column(page: Page, name: str) -> Locator:
    return page.locator(".column", has=page.get_by_role("heading", name=name))


def card(page: Page, title: str) -> Locator:
    return page.locator("[data-deal]", has_text=title)


def drag(page: Page, what: Locator, where: Locator) -> None:
    """As a hand does it: press, move step by step, let go."""
    start, end = what.bounding_box(), where.bounding_box()
    page.mouse.move(start["x"] + start["width"] - 8, start["y"] + 8)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=12)
    page.mouse.up()


def is_in(page: Page, title: str, stage: str) -> None:
    """The server has it there: the only deal of that stage, and counted."""
    column(page, stage).get_by_role("heading", name=f"{stage} 1").wait_for()
    if stage not in ("Won", "Lost"):  # which count their deals only
        column(page, stage).get_by_role("link", name=title).wait_for()


def test_a_card_dropped_on_another_stage_is_moved(board, api):
    drag(board, card(board, "Крісла"), column(board, "Proposal"))
    is_in(board, "Крісла", "Proposal")
    assert api.read("/deals/1")["stage_id"] == "3"
    assert api.kinds()[-1] == "deal.stage_changed"
    # Counts and sums are those of the server, without a reload.
    assert "1\u00a0200" in column(board, "Proposal").locator(".sums").inner_text()
    assert "New 1" in column(board, "New").inner_text()
    assert board.get_by_role("alert").filter(visible=True).count() == 0


def test_a_card_dropped_on_won_is_won_and_leaves_the_board(board, api):
    drag(board, card(board, "Столи"), column(board, "Won"))
    is_in(board, "Столи", "Won")
    assert api.read("/deals/2")["status"] == "won"
    assert api.kinds()[-2:] == ["deal.stage_changed", "deal.won"]
    assert card(board, "Столи").count() == 0
    column(board, "Won").get_by_role("link", name="Won").click()
    board.get_by_role("link", name="Столи").wait_for()


def test_a_refused_move_puts_the_card_back_and_says_why(board, api):
    assert api.delete("/pipelines/1/stages/3").status_code == 204
    drag(board, card(board, "Крісла"), column(board, "Proposal"))
    alert = board.locator("#board-refused")
    alert.wait_for()
    assert "Цього запису вже немає" in alert.inner_text()
    assert "Крісла" in column(board, "New").inner_text()
    assert column(board, "Proposal").count() == 0  # the board is as the server has it
    assert api.read("/deals/1")["stage_id"] == "1"


def test_without_an_answer_the_card_goes_back(board):
    board.evaluate("() => { window.fetch = async () => { throw new TypeError('offline') } }")
    drag(board, card(board, "Крісла"), column(board, "Proposal"))
    alert = board.locator("#board-refused")
    alert.wait_for()
    assert "Сервер не відповідає" in alert.inner_text()
    assert "Крісла" in column(board, "New").inner_text()


def test_a_card_dropped_where_it_was_asks_nothing(board):
    asked = []
    board.on("request", lambda request: asked.append(request.method))
    drag(board, card(board, "Крісла"), column(board, "New"))
    drag(board, card(board, "Столи"), column(board, "Won"))
    is_in(board, "Столи", "Won")
    assert asked.count("POST") == 1


def test_the_keyboard_moves_a_card_too(board, api):
    moving = card(board, "Крісла")
    moving.locator("summary").focus()
    board.keyboard.press("Enter")
    for _ in ("Qualified", "Proposal", "Negotiation"):
        board.keyboard.press("Tab")
    board.keyboard.press("Enter")
    is_in(board, "Крісла", "Negotiation")
    assert api.read("/deals/1")["stage_id"] == "4"


@pytest.mark.parametrize("board", [NARROW], indirect=True)
def test_on_a_phone_the_board_scrolls_and_its_columns_are_wide_enough(board):
    box = column(board, "New").bounding_box()
    assert 240 < box["width"] < NARROW
    assert board.evaluate("document.documentElement.scrollWidth") <= NARROW
    board.locator("#board").evaluate("board => { board.scrollLeft = board.scrollWidth }")
    box = column(board, "Lost").bounding_box()
    assert box["x"] + box["width"] <= NARROW
