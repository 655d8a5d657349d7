"""The workspace as an installed app: its manifest, and what it shows without a network."""

from urllib.parse import urlsplit

from tests.chromium import log_in, open_page, serving
from tests.page_client import Person


def test_the_manifest_has_the_name_and_icons_that_are_there(crm, olena):
    assert '<link rel="manifest" href="/manifest.webmanifest"' in olena.sees("/")
    answer = olena.get("/manifest.webmanifest")
    assert answer.content_type == "application/manifest+json"
    manifest = answer.get_json(force=True)
    assert [manifest[name] for name in ("name", "start_url", "scope")] == ["Acme", "/", "/"]
    for icon in manifest["icons"]:
        assert olena.get(icon["src"]).status_code == 200
    assert Person(crm).get("/manifest.webmanifest").status_code == 302  # it names the company


def test_without_a_network_a_page_says_so_and_nothing_private_was_kept(crm, api, browser):
    api.create("/leads", name="Марія", phone="+380671234567")
    with serving(crm) as home, open_page(browser) as page:
        log_in(page, crm, home)
        page.goto(f"{home}/leads/1")
        # As the installed app does, which a test cannot be.
        page.evaluate(
            "async () => { await navigator.serviceWorker.register('/worker.js');"
            " await navigator.serviceWorker.ready; }"
        )
        page.goto(f"{home}/leads")
        page.wait_for_function("navigator.serviceWorker.controller")
        page.goto(f"{home}/leads/1")
        kept = page.evaluate(
            "async () => (await (await caches.open('offline')).keys()).map(one => one.url)"
        )
        assert {urlsplit(url).path for url in kept} == {
            "/offline", "/cabinet/bootstrap.min.css", "/cabinet/cabinet.css"
        }  # fmt: skip
        page.context.set_offline(True)
        page.goto(f"{home}/leads/1")
        assert page.locator("h1").inner_text() in ("Немає мережі", "No network")
        assert "Марія" not in page.content()
        page.context.set_offline(False)
        page.goto(f"{home}/leads/1")
        page.get_by_role("heading", name="Марія").wait_for()
