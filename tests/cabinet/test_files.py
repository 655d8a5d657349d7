"""What a real browser loads: little for the first page, then pages alone."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.chromium import log_in, open_page

COLD_PAGE_BYTES = 90_000
# An icon that is not in the sprite, or that the policy forbids to load, has no size.
EMPTY_ICONS = """() => [...document.querySelectorAll("svg.bi use")]
  .filter(use => use.checkVisibility() && use.getBBox().width === 0)
  .map(use => use.getAttribute("href"))"""


@pytest.fixture
def page(crm, served: str, browser: Browser) -> Iterator[Page]:
    """Olena's page, in a browser with an empty cache."""
    with open_page(browser, base_url=served) as page:
        log_in(page, crm, served)
        yield page


def answered_bytes(request: Request) -> int:
    """What went over the network; nothing of what the browser had in its cache."""
    sizes = request.sizes()
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]


def test_the_first_page_is_light_and_later_ones_ask_for_no_file(page) -> None:
    requests: list[Request] = []
    page.on("requestfinished", lambda request: requests.append(request))
    page.goto("/", wait_until="networkidle")
    expect(page.locator(".menu-body nav svg.bi").first).to_be_visible()
    paths = [urlsplit(request.url).path for request in requests]
    assert {"/", "/cabinet/bootstrap.min.css", "/cabinet/icons.svg"} <= {*paths}
    assert len(paths) == len({*paths})
    assert 10_000 < sum(map(answered_bytes, requests)) <= COLD_PAGE_BYTES
    for path in ("/leads", "/deals"):
        requests.clear()
        page.goto(path, wait_until="networkidle")
        assert [urlsplit(one.url).path for one in requests if answered_bytes(one)] == [path]


def test_every_icon_is_drawn_in_the_colour_of_its_text(page) -> None:
    for path in ("/", "/deals", "/settings/pipelines/1"):
        page.goto(path)
        assert page.locator("svg.bi use").count() > 5
        page.wait_for_function(f"({EMPTY_ICONS})().length === 0")
    link = page.locator(".menu-body nav li a:not([aria-current])").first
    color = "each => getComputedStyle(each)"
    fill = link.locator("svg").evaluate(f"{color}.fill")
    assert fill == link.evaluate(f"{color}.color") != "rgb(0, 0, 0)"
