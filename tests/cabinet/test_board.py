"""The board of deals in a real browser: a card is dragged, and the server has the last word.

Late answers, other people, Undo, reasons of a loss.
"""

import threading
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from crm.resources.users import User
from crm.storage.session import transaction
from tests.chromium import NARROW, WIDE, Tab, log_in, serving
from tests.conftest import OLENA

AXE = Axe()
NEW, NEGOTIATION, WON, LOST = "1", "4", "5", "6"  # ids of the first pipeline's stages


class Gate:
    """Around the application: boards that were rendered wait for permits while it is closed."""

    def __init__(self, app: Callable):
        self.app = app
        self.reset()

    def reset(self) -> None:
        self.is_closed = False
        self.rendered, self.permits = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, environ: dict, start_response: Callable) -> list[bytes]:
        is_board = environ["PATH_INFO"] == "/deals" and environ["REQUEST_METHOD"] == "GET"
        answer = self.app(environ, start_response)
        body = [*answer]
        getattr(answer, "close", lambda: None)()
        if is_board and self.is_closed:
            self.rendered.release()
            assert self.permits.acquire(timeout=60)
        return body

    def open(self) -> None:
        self.is_closed = False
        self.permits.release(9)


@pytest.fixture(scope="module")
def module_gate(wired) -> Gate:
    return Gate(wired)


@pytest.fixture(scope="module")
def home(module_gate) -> Iterator[str]:
    with serving(module_gate) as result:
        yield result


@pytest.fixture
def gate(module_gate) -> Iterator[Gate]:
    module_gate.reset()
    yield module_gate
    module_gate.open()


@pytest.fixture
def board(crm, home, tab: Tab, api, request) -> Page:
    """Olena at her board with three deals at the first stage: A above B above C."""
    for title in ("Deal C", "Deal B", "Deal A"):
        api.create("/deals", title=title, amount=1200)
    with crm.tenants.session("acme"), transaction():
        User.find(OLENA).save_changes({"language": "en"})
    width, options = getattr(request, "param", (1700, {}))
    page = tab(width, **options)
    log_in(page, crm, home)
    page.goto(f"{home}/deals")
    return page


without_scripts = pytest.mark.parametrize(
    "board",
    [
        (NARROW, {"java_script_enabled": False}),
        pytest.param((WIDE, {"java_script_enabled": False}), marks=pytest.mark.deep),
    ],
    ids=["375", "1280"],
    indirect=True,
)


def column(page: Page, name: str) -> Locator:
    return page.locator(".column", has=page.get_by_role("heading", name=name))


def card(page: Page, title: str) -> Locator:
    return page.locator("[data-deal]", has_text=title)


def toast(page: Page) -> Locator:
    return page.get_by_role("status")


def press(page: Page, x: float, y: float) -> None:
    page.mouse.move(x, y)
    page.mouse.down()


def corner(what: Locator) -> tuple[float, float]:
    """A point of a card where no link is."""
    box = what.bounding_box()
    return box["x"] + box["width"] - 8, box["y"] + 8


def carry(page: Page, where: Locator) -> None:
    box = where.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=12)


def drag(page: Page, what: Locator, where: Locator) -> None:
    press(page, *corner(what))
    carry(page, where)
    page.mouse.up()


def is_in(page: Page, title: str, stage: str) -> None:
    """The server has it there: the only deal of that stage, and counted."""
    column(page, stage).get_by_role("heading", name=f"{stage} 1").wait_for()
    if stage not in ("Won", "Lost"):  # which count their deals only
        column(page, stage).get_by_role("link", name=title).wait_for()


def settled(page: Page) -> None:
    """Every move was answered and the board is as the server has it."""
    expect(page.locator("[data-deal][draggable=false]")).to_have_count(0)


def status(api, title: str) -> str:
    return next(deal["status"] for deal in api.read("/deals") if deal["title"] == title)


# Only the card that is held moves, and only to the column under the pointer


@pytest.mark.parametrize("is_pressed_before", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_late_answer_puts_no_other_card_under_the_pointer(board, gate, api, is_pressed_before):
    """Two cards are dropped on Won while answers are late; the third one is meant for Lost.

    The first answer shows the board as it was before the second move: B above C again.
    """
    gate.is_closed = True
    drag(board, card(board, "Deal A"), column(board, "Won"))
    assert gate.rendered.acquire(timeout=30)
    drag(board, card(board, "Deal B"), column(board, "Won"))
    board.wait_for_timeout(300)
    where = corner(card(board, "Deal C"))
    if is_pressed_before:
        press(board, *where)
    gate.permits.release()  # of the first answer
    assert gate.rendered.acquire(timeout=30)
    board.wait_for_timeout(300)
    if not is_pressed_before:
        press(board, *where)
    carry(board, column(board, "Lost"))
    board.mouse.up()
    gate.open()
    board.get_by_role("heading", name="Why was “Deal C” lost?").wait_for()
    board.get_by_label("Without a reason").check()
    board.get_by_role("button", name="Mark as lost").click()
    column(board, "Lost").get_by_role("heading", name="Lost 1").wait_for()
    toast(board).wait_for()
    assert [status(api, f"Deal {name}") for name in "ABC"] == ["won", "won", "lost"]


def test_a_card_waits_for_the_answer_before_it_is_dragged_on(board, gate, api):
    gate.is_closed = True
    drag(board, card(board, "Deal A"), column(board, "Proposal"))
    assert gate.rendered.acquire(timeout=30)
    drag(board, card(board, "Deal A"), column(board, "Won"))
    gate.open()
    settled(board)
    toast(board).wait_for()
    assert status(api, "Deal A") == "open"
    assert api.kinds().count("deal.stage_changed") == 1
    expect(board.locator("#board-refused")).to_be_hidden()


def test_a_card_dropped_between_or_outside_the_columns_stays(board, api):
    won, lost = column(board, "Won").bounding_box(), column(board, "Lost").bounding_box()
    between = (won["y"] + won["height"] + lost["y"]) / 2
    for x, y in ((won["x"] + 20, between), (1000, 30), (100, 500)):
        press(board, *corner(card(board, "Deal A")))
        board.mouse.move(won["x"] + 20, won["y"] + 100, steps=8)
        board.mouse.move(x, y, steps=4)
        board.mouse.up()
    assert "Deal A" in column(board, "New").inner_text()
    assert api.kinds() == ["deal.created"] * 3


def test_a_board_that_scrolls_under_the_pointer_moves_to_the_column_that_is_shown_there(board, api):
    board.set_viewport_size({"width": 1000, "height": 800})
    press(board, *corner(card(board, "Deal A")))
    carry(board, column(board, "Proposal"))
    board.locator("#board").evaluate("board => { board.scrollLeft = 228 }")
    board.mouse.move(*(corner(column(board, "Negotiation"))[0] - 80, 400), steps=3)
    name = board.locator(".column.over h2").inner_text()
    board.mouse.up()
    settled(board)
    column(board, name.split()[0]).get_by_role("link", name="Deal A").wait_for()
    assert name.startswith("Negotiation")
    toast(board).wait_for()
    assert api.read("/deals/3")["stage_id"] == NEGOTIATION


def test_what_somebody_else_moved_meanwhile_is_not_moved_unseen(board, api):
    api.patch("/deals/3", {"stage_id": NEGOTIATION})
    drag(board, card(board, "Deal A"), column(board, "Qualified"))
    alert = board.locator("#board-refused")
    alert.wait_for()
    assert "Someone else has changed this in the meantime. Nothing was saved" in alert.inner_text()
    column(board, "Negotiation").get_by_role("link", name="Deal A").wait_for()  # as it is now
    assert api.read("/deals/3")["stage_id"] == NEGOTIATION
    drag(board, card(board, "Deal A"), column(board, "Qualified"))
    toast(board).wait_for()
    column(board, "Qualified").get_by_role("link", name="Deal A").wait_for()
    assert api.read("/deals/3")["stage_id"] == "2"


# Won and lost: Undo, and the reason


def test_a_card_dropped_on_won_is_told_with_undo(board, api):
    place = column(board, "New").bounding_box()
    drag(board, card(board, "Deal A"), column(board, "Won"))
    toast(board).wait_for()
    is_in(board, "Deal A", "Won")
    assert card(board, "Deal A").count() == 0
    assert column(board, "New").bounding_box() == place  # the message moves nothing
    assert "“Deal A” won" in toast(board).inner_text()
    board.get_by_role("button", name="Undo").click()
    board.get_by_text("“Deal A” moved back to “New”").wait_for()
    column(board, "New").get_by_role("link", name="Deal A").wait_for()
    assert status(api, "Deal A") == "open"
    assert api.kinds()[-3:] == ["deal.stage_changed", "deal.won", "deal.stage_changed"]


def test_without_an_answer_the_card_stays_where_it_was(board, api):
    drag(board, card(board, "Deal A"), column(board, "Lost"))
    dialog = board.get_by_role("dialog")
    dialog.wait_for()
    board.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    column(board, "New").get_by_role("link", name="Deal A").wait_for()
    assert api.kinds() == ["deal.created"] * 3
    drag(board, card(board, "Deal A"), column(board, "Won"))  # it may be dragged again
    toast(board).wait_for()
    assert status(api, "Deal A") == "won"


@without_scripts
def test_without_scripts_a_page_asks_the_reason_and_undo_is_a_button(board, api):
    moving = card(board, "Deal A")
    moving.locator("summary").click()
    moving.get_by_role("button", name="Lost").click()
    board.get_by_role("heading", name="Why was “Deal A” lost?").wait_for()
    assert status(api, "Deal A") == "open"
    board.get_by_role("button", name="Mark as lost").click()  # nothing is chosen beforehand
    board.get_by_text("Choose a reason, or write one.").wait_for()
    board.get_by_label("Too expensive").check()
    board.get_by_role("button", name="Mark as lost").click()
    assert "“Deal A” marked as lost" in toast(board).inner_text()
    assert api.read("/deals/3")["lost_reason"] == "Too expensive"
    board.get_by_role("button", name="Undo").click()
    column(board, "New").get_by_role("link", name="Deal A").wait_for()
    assert status(api, "Deal A") == "open"


@pytest.mark.parametrize(
    "board",
    [(NARROW, {}), pytest.param((WIDE, {}), marks=pytest.mark.deep)],
    ids=["375", "1280"],
    indirect=True,
)
def test_the_card_of_a_deal_asks_and_undoes_too(board, api):
    api.patch("/pipelines/1", {"lost_reasons": ["No budget", "Too late"]})
    with board.expect_navigation():  # its script has run, too
        board.get_by_role("link", name="Deal A").click()
    board.get_by_role("button", name="Lost").click()
    dialog = board.get_by_role("dialog")
    dialog.wait_for()
    assert board.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert AXE.run(board).violations_count == 0, AXE.run(board).generate_report()
    dialog.get_by_label("Too late").check()
    dialog.get_by_role("button", name="Mark as lost").click()
    toast(board).wait_for()
    assert api.read("/deals/3")["lost_reason"] == "Too late"
    assert board.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert AXE.run(board).violations_count == 0, AXE.run(board).generate_report()
    board.get_by_role("button", name="Undo").click()
    board.get_by_text("moved back to “New”").wait_for()
    assert board.locator(".timeline > li").count() == 1  # the undone move is left out
    assert board.url.endswith("/deals/3")
    deal = api.read("/deals/3")
    assert (deal["status"], deal["lost_reason"]) == ("open", None)


def test_undo_changes_nothing_once_somebody_else_changed_the_deal(api, olena):
    deal = f"/deals/{api.create('/deals', title='Sold')}"
    olena.sends(f"{deal}/stage", {"stage_id": WON})
    sent = olena.form_fields(olena.sees("/deals"), f"{deal}/back")
    api.patch(deal, {"amount": 100})
    page = olena.post(f"{deal}/back", sent)
    assert page.status_code == 409 and "Хтось інший тим часом це змінив." in page.text
    assert api.read(deal)["status"] == "won"


def test_undo_gives_a_won_deal_its_day_back(crm, api, olena, clock):
    deal = f"/deals/{api.create('/deals', title='Sold', status='won')}"
    closed_at = api.read(deal)["closed_at"]
    clock.tick(86_400)
    olena.sends(f"{deal}/stage", {"stage_id": LOST, "lost_reason": "by mistake"})
    assert api.read(deal)["closed_at"] != closed_at
    page = olena.sees("/deals?pipeline_id=1")
    sent = olena.form_fields(page, f"{deal}/back")
    assert olena.sends(f"{deal}/back", sent) == "/deals?pipeline_id=1"
    data = api.read(deal)
    assert (data["status"], data["closed_at"]) == ("won", closed_at)
    assert (data["stage_id"], data["lost_reason"]) == (WON, None)
    assert api.kinds()[-2:] == ["deal.stage_changed", "deal.won"]


# Refusals, the keyboard and phones


def test_a_refused_move_puts_the_card_back_and_says_why(board, api):
    assert api.delete("/pipelines/1/stages/3").status_code == 204
    drag(board, card(board, "Deal A"), column(board, "Proposal"))
    board.locator("#board-refused").get_by_text("This record no longer exists.").wait_for()
    assert "Deal A" in column(board, "New").inner_text()
    assert column(board, "Proposal").count() == 0  # the board is as the server has it
    assert api.read("/deals/3")["stage_id"] == "1"


def test_without_an_answer_of_the_server_the_card_goes_back(board):
    board.evaluate("() => { window.fetch = async () => { throw new TypeError('offline') } }")
    drag(board, card(board, "Deal A"), column(board, "Proposal"))
    board.locator("#board-refused").get_by_text("The server is not responding").wait_for()
    assert "Deal A" in column(board, "New").inner_text()


def test_the_keyboard_moves_a_card_too(board, api):
    card(board, "Deal A").locator("summary").focus()
    board.keyboard.press("Enter")
    for _ in ("Qualified", "Proposal", "Negotiation"):
        board.keyboard.press("Tab")
    board.keyboard.press("Enter")
    is_in(board, "Deal A", "Negotiation")
    assert api.read("/deals/3")["stage_id"] == NEGOTIATION
    expect(card(board, "Deal A").locator("summary")).to_be_focused()


@pytest.mark.parametrize("board", [(NARROW, {})], ids=["375"], indirect=True)
def test_on_a_phone_the_board_scrolls_and_its_columns_are_wide_enough(board):
    assert 240 < column(board, "New").bounding_box()["width"] < NARROW
    assert board.evaluate("document.documentElement.scrollWidth") <= NARROW
    board.locator("#board").evaluate("board => { board.scrollLeft = board.scrollWidth }")
    box = column(board, "Lost").bounding_box()
    assert box["x"] + box["width"] <= NARROW
