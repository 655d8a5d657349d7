"""A real browser: Debian's Chromium, driven by Playwright, on loopback only."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from werkzeug.serving import make_server

from crm import CRMApp
from crm.access import sessions
from tests import external_programs
from tests.concurrency import serve_in_thread
from tests.waiting import TIMEOUT_SECONDS

if TYPE_CHECKING:  # runs without a test of pages do without it
    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
WIDE, NARROW = 1280, 375


def chromium() -> str:
    """The path of the browser; without one the test is skipped, in CI it fails."""
    return external_programs.found("chromium", "chromium", "chromium-browser")


@contextmanager
def browsing() -> Iterator["Browser"]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT_SECONDS * 1000)  # as of all else; its own is 5 seconds
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def serving(app: Callable, label: str = "acme") -> Iterator[str]:
    """The address of a tenant, served by threads of this process."""
    logging.getLogger("werkzeug").setLevel("ERROR")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    with serve_in_thread(server):
        yield f"http://{label}.localhost:{server.port}"


def log_in(page: "Page", crm: CRMApp, home: str, user_id: int = 1) -> None:
    """Give the browser a session of a user of acme."""
    with crm.tenants.session("acme"):
        token = sessions.open(user_id, "tests")
    page.context.add_cookies([{"name": "crm_session", "value": token, "url": home}])


@contextmanager
def open_page(browser: "Browser", width: int = WIDE, **options: Any) -> Iterator["Page"]:
    """A page of a fresh browser profile; it must stay silent and ask this machine only."""
    with open_profile(browser, width, **options) as profile:
        page = profile.new_page()
        with silent(page):
            yield page


@contextmanager
def open_profile(
    browser: "Browser", width: int = WIDE, **options: Any
) -> Iterator["BrowserContext"]:
    """A fresh browser profile, with an empty cache."""
    context = browser.new_context(
        **{"viewport": {"width": width, "height": 900}, "locale": "uk-UA"} | options
    )
    try:
        yield context
    finally:
        context.close()


@contextmanager
def silent(page: "Page") -> Iterator[None]:
    """Fail if the page writes to the console until the block ends, or asks another machine."""
    said: list[str] = []

    def hear(message: Any) -> None:
        # A refused form answers 4xx, which Chromium notes as an error of the resource.
        if message.type == "error" and "status of 4" not in message.text:
            said.append(f"{page.url}: {message.text}")

    def see(request: Any) -> None:
        host = urlsplit(request.url).hostname or ""
        if not (host == "127.0.0.1" or host == "localhost" or host.endswith(".localhost")):
            said.append(f"a request to {request.url}")

    def note(error: Any) -> None:
        said.append(str(error))

    listeners: dict[Any, Callable] = {"console": hear, "pageerror": note, "request": see}
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        yield
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert said == []


# What the tests of a process share: to start a browser, or to load and compile the files of a page
# for the first time, takes longer than most of them.

Tab = Callable[..., "Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The browser of all tests."""
    with browsing() as result:
        yield result


@pytest.fixture(scope="session")
def served(wired: CRMApp) -> Iterator[str]:
    """The address of acme in the app of the fixture `crm`."""
    with serving(wired) as result:
        yield result


@pytest.fixture(scope="session")
def tabs(browser: "Browser") -> Iterator[Tab]:
    """tabs(width, **options) gives the page of a profile of its own, always the same one."""
    made: dict[tuple, Page] = {}
    with ExitStack() as stack:

        def get_page(width: int, **options: Any) -> "Page":
            key = (width, *sorted(options.items()))
            if key not in made:
                profile = stack.enter_context(open_profile(browser, width, **options))
                made[key] = profile.new_page()
            return made[key]

        yield get_page


@pytest.fixture
def tab(tabs: Tab) -> Iterator[Tab]:
    """tab(width, **options) gives a page that knows nothing of other tests but files in its cache.

    It must stay silent and ask this machine only.
    """
    with ExitStack() as stack:

        def get_page(width: int = WIDE, **options: Any) -> "Page":
            page = tabs(width, **options)
            page.set_viewport_size({"width": width, "height": 900})
            stack.callback(_forget, page)
            stack.enter_context(silent(page))
            return page

        yield get_page


def _forget(page: "Page") -> None:
    page.evaluate("try { sessionStorage.clear() } catch {}")
    page.goto("about:blank")
    page.context.clear_cookies()
