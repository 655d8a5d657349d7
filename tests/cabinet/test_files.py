"""What a real browser loads from the real server: little for the first page, then pages alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from crm import create_app
from crm.access import sessions
from tests.chromium import open_page
from tests.conftest import OLENA
from tests.installations import config_for, copy_installation
from tests.server_process import run_server

COLD_PAGE_BYTES = 90_000
# An icon that is not in the sprite, or that the policy forbids to load, has no size.
EMPTY_ICONS = """() => [...document.querySelectorAll("svg.bi use")]
  .filter(use => use.checkVisibility() && use.getBBox().width === 0)
  .map(use => use.getAttribute("href"))"""


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
def port(token: tuple[Path, str]) -> Iterator[int]:
    with run_server(token[0]) as result:
        yield result


@contextmanager
def logged_in(browser: Browser, port: int, token: str) -> Iterator[tuple[Page, str]]:
    """A page of a browser with an empty cache, and the address of its tenant."""
    home = f"http://acme.localhost:{port}"
    with open_page(browser) as page:
        page.context.add_cookies([{"name": "crm_session", "value": token, "url": home}])
        yield page, home


def answered_bytes(request: Request) -> int:
    """What went over the network; nothing of what the browser had in its cache."""
    sizes = request.sizes()
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]


def test_the_first_page_is_light_and_later_ones_ask_for_no_file(browser, port, token) -> None:
    with logged_in(browser, port, token[1]) as (page, home):
        requests: list[Request] = []
        page.on("requestfinished", lambda request: requests.append(request))
        page.goto(home, wait_until="networkidle")
        expect(page.locator(".menu-body nav svg.bi").first).to_be_visible()
        paths = [urlsplit(request.url).path for request in requests]
        assert {"/", "/cabinet/bootstrap.min.css", "/cabinet/icons.svg"} <= {*paths}
        assert len(paths) == len({*paths})
        assert 10_000 < sum(map(answered_bytes, requests)) <= COLD_PAGE_BYTES
        for path in ("/leads", "/deals"):
            requests.clear()
            page.goto(f"{home}{path}", wait_until="networkidle")
            assert [urlsplit(one.url).path for one in requests if answered_bytes(one)] == [path]


def test_every_icon_is_drawn_in_the_colour_of_its_text(browser, port, token) -> None:
    with logged_in(browser, port, token[1]) as (page, home):
        for path in ("/", "/leads", "/deals", "/deals/new", "/tasks", "/products", "/settings",
                     "/settings/pipelines", "/settings/pipelines/1"):  # fmt: skip
            page.goto(f"{home}{path}")
            assert page.locator("svg.bi use").count() > 5
            page.wait_for_function(f"({EMPTY_ICONS})().length === 0")
        link = page.locator(".menu-body nav li a:not([aria-current])").first
        color = "each => getComputedStyle(each)"
        fill = link.locator("svg").evaluate(f"{color}.fill")
        assert fill == link.evaluate(f"{color}.color") != "rgb(0, 0, 0)"
