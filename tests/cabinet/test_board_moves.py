"""Moves on the board while answers are late: only the card that is held moves, and only there."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from chromium import browsing, visiting
from conftest import OLENA
from playwright.sync_api import Browser, Locator, Page
from werkzeug.serving import make_server

from crm.access import sessions


class Gate:
    """Around the application: rendered boards wait for permits while `is_closed`."""

    def __init__(self, app: Callable):
        self.app = app
        self.is_closed = False
        self.rendered, self.permits = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, environ: dict, start_response: Callable) -> list[bytes]:
        is_board = environ["PATH_INFO"] == "/deals" and environ["REQUEST_METHOD"] == "GET"
        answer = self.app(environ, start_response)
        body = [*answer]
        getattr(answer, "close", lambda: None)()
        if is_board and self.is_closed:
            self.rendered.release()
            assert self.permits.acquire(timeout=30)
        return body

    def open(self) -> None:
        self.is_closed = False
        self.permits.release(9)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture
def gate(crm) -> Gate:
    return Gate(crm)


@pytest.fixture
def board(crm, gate, browser, api) -> Iterator[Page]:
    """Olena at her board with three deals at the first stage, C below B below A."""
    for title in ("Deal C", "Deal B", "Deal A"):
        api.create("/deals", title=title)
    logging.getLogger("werkzeug").setLevel("ERROR")
    server = make_server("127.0.0.1", 0, gate, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    home = f"http://acme.localhost:{server.port}"
    with crm.tenants.visit("acme"):
        token = sessions.open(OLENA, "tests")
    with visiting(browser, 1700) as page:
        page.context.add_cookies([{"name": "crm_session", "value": token, "url": home}])
        page.goto(f"{home}/deals")
        yield page
    gate.open()
    server.shutdown()
    thread.join()
    server.server_close()


def column(page: Page, name: str) -> Locator:
    return page.locator(".column", has=page.get_by_role("heading", name=name))


def card(page: Page, title: str) -> Locator:
    return page.locator("[data-deal]", has_text=title)


def press(page: Page, what: Locator) -> None:
    box = what.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 8)
    page.mouse.down()


def carry(page: Page, where: Locator) -> None:
    box = where.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=12)
    page.mouse.up()


def drag(page: Page, what: Locator, where: Locator) -> None:
    press(page, what)
    carry(page, where)


def statuses(api) -> dict[str, str]:
    return {deal["title"]: deal["status"] for deal in api.read("/deals")}


@pytest.mark.parametrize("is_pressed_before", [True, False])
def test_a_late_answer_does_not_put_another_card_under_the_pointer(
    board, gate, api, is_pressed_before
):
    """Two cards are dropped on Won while answers are late; the third is meant for Lost."""
    gate.is_closed = True
    drag(board, card(board, "Deal A"), column(board, "Won"))
    assert gate.rendered.acquire(timeout=10)
    drag(board, card(board, "Deal B"), column(board, "Won"))
    board.wait_for_timeout(300)
    box = card(board, "Deal C").bounding_box()
    board.mouse.move(box["x"] + box["width"] - 8, box["y"] + 8)
    if is_pressed_before:
        board.mouse.down()
    gate.permits.release()  # the board as it was before B was moved
    assert gate.rendered.acquire(timeout=10)
    board.wait_for_timeout(300)
    board.mouse.down()
    carry(board, column(board, "Lost"))
    gate.open()
    board.wait_for_timeout(500)
    print(statuses(api))
    assert statuses(api)["Deal B"] == "won"
