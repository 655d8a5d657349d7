"""A real browser: Debian's Chromium, driven by Playwright, on loopback only."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from werkzeug.serving import make_server

from tests import external_programs

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
def browsing() -> Iterator[Browser]:
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
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{label}.localhost:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def open_page(browser: Browser, width: int = WIDE, **options: object) -> Iterator[Page]:
    """A page of a fresh browser profile; it must stay silent and ask this machine only."""
    with open_profile(browser, width, **options) as profile, open_tab(profile) as page:
        yield page


@contextmanager
def open_profile(
    browser: Browser, width: int = WIDE, **options: object
) -> Iterator[BrowserContext]:
    """A fresh browser profile: what several pages use is loaded once."""
    context = browser.new_context(
        **{"viewport": {"width": width, "height": 900}, "locale": "uk-UA"} | options
    )
    try:
        yield context
    finally:
        context.close()


@contextmanager
def open_tab(profile: BrowserContext) -> Iterator[Page]:
    """A new page of a profile; it must stay silent and ask this machine only."""
    page = profile.new_page()
    page.set_default_timeout(10_000)
    said: list[str] = []

    def hear(message: object) -> None:
        # A refused form answers 4xx, which Chromium notes as an error of the resource.
        if message.type == "error" and "status of 4" not in message.text:
            said.append(f"{page.url}: {message.text}")

    def see(request: object) -> None:
        host = urlsplit(request.url).hostname or ""
        if not (host == "127.0.0.1" or host == "localhost" or host.endswith(".localhost")):
            said.append(f"a request to {request.url}")

    page.on("console", hear)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", see)
    yield page
    assert said == []
    page.close()
