"""What a real browser loads from the real server: little for the first page, then pages alone."""

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from crm import create_app
from crm.access import sessions
from tests.chromium import open_page
from tests.conftest import OLENA
from tests.installations import config_for, copy_installation
from tests.server_process import run_server

COLD_PAGE_BYTES = 90_000
REQUEST = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r$", re.M)
# An icon that is not in the sprite, or that the policy forbids to load, has no size.
EMPTY_ICONS = """() => [...document.querySelectorAll("svg.bi use")]
  .filter(use => use.checkVisibility() && use.getBBox().width === 0)
  .map(use => use.getAttribute("href"))"""


@dataclass
class Wire:
    """What went over it: requests as (method, target), and the bytes of answers."""

    port: int
    requests: list[tuple[str, str]] = field(default_factory=list)
    answered_bytes: int = 0

    def clear(self) -> None:
        self.requests.clear()
        self.answered_bytes = 0


@contextmanager
def listening_in(upstream: int) -> Iterator[Wire]:
    """A relay before the server on that port, which counts."""

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", upstream)) as server:
                answers = threading.Thread(target=self.answer, args=[server])
                answers.start()
                while data := self.request.recv(1 << 16):
                    matches = REQUEST.findall(data)  # a browser sends each head in one piece
                    wire.requests += [(method.decode(), path.decode()) for method, path in matches]
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)
                answers.join()

        def answer(self, server: socket.socket) -> None:
            while data := server.recv(1 << 16):
                wire.answered_bytes += len(data)
                self.request.sendall(data)
            self.request.shutdown(socket.SHUT_WR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        relay.daemon_threads = relay.block_on_close = True
        wire = Wire(relay.server_address[1])
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        yield wire
        relay.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def token(
    furnished: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A data folder, and the session of its owner there."""
    data = tmp_path_factory.mktemp("files") / "data"
    copy_installation(furnished[0], data)
    app = create_app(config_for(data), sends=False)
    with app.tenants.session("acme"):
        token = sessions.open(OLENA, "tests")
    app.tenants.forget_idle()
    return data, token


@pytest.fixture(scope="module")
def wire(token: tuple[Path, str]) -> Iterator[Wire]:
    with run_server(token[0]) as port, listening_in(port) as wire:
        yield wire


@contextmanager
def logged_in(browser: Browser, wire: Wire, token: str) -> Iterator[tuple[Page, str]]:
    """A page of a browser with an empty cache, and the address of its tenant."""
    home = f"http://acme.localhost:{wire.port}"
    with open_page(browser) as page:
        page.context.add_cookies([{"name": "crm_session", "value": token, "url": home}])
        wire.clear()
        yield page, home


def test_the_first_page_is_light_and_later_ones_ask_for_no_file(browser, wire, token) -> None:
    with logged_in(browser, wire, token[1]) as (page, home):
        page.goto(home, wait_until="networkidle")
        expect(page.locator(".menu-body nav svg.bi").first).to_be_visible()
        files = {path.partition("?")[0] for _, path in wire.requests}
        assert {"/", "/cabinet/bootstrap.min.css", "/cabinet/icons.svg"} <= files
        assert len(wire.requests) == len(files)
        assert 10_000 < wire.answered_bytes <= COLD_PAGE_BYTES
        for path in ("/leads", "/settings", "/deals", "/"):
            wire.clear()
            page.goto(f"{home}{path}", wait_until="networkidle")
            assert wire.requests == [("GET", path)]


def test_every_icon_is_drawn_in_the_colour_of_its_text(browser, wire, token) -> None:
    with logged_in(browser, wire, token[1]) as (page, home):
        for path in ("/", "/leads", "/deals", "/deals/new", "/tasks", "/products", "/settings",
                     "/settings/pipelines", "/settings/pipelines/1"):  # fmt: skip
            page.goto(f"{home}{path}", wait_until="networkidle")
            assert page.locator("svg.bi use").count() > 5
            assert page.evaluate(EMPTY_ICONS) == []
        link = page.locator(".menu-body nav li a:not([aria-current])").first
        color = "each => getComputedStyle(each)"
        fill = link.locator("svg").evaluate(f"{color}.fill")
        assert fill == link.evaluate(f"{color}.color") != "rgb(0, 0, 0)"
