"""The bell, the page of alerts and the profile's table in a real browser, in both languages."""

import pytest

from tests.cabinet.test_pages import check
from tests.chromium import NARROW, WIDE, log_in
from tests.conftest import TARAS

LEAD = {"name": "Марія", "phone": "0501234567", "assigned_to": str(TARAS)}


@pytest.fixture
def open_as_taras(crm, served, tab):
    def get_page(width=WIDE, **options):
        page = tab(width, base_url=served, **options)
        log_in(page, crm, served, TARAS)
        return page

    return get_page


def test_a_new_lead_reaches_an_open_page_and_ends_with_its_page(crm, api, open_as_taras):
    page = open_as_taras()
    asked = []
    page.on("response", lambda answer: asked.append(answer.status) if "/bell" in answer.url else 0)
    page.clock.install()
    page.goto("/leads")
    with page.expect_response("**/bell"):
        page.clock.fast_forward(10_000)
    bell, title = page.locator("#bell [data-bell]"), page.title()
    assert bell.is_hidden()
    api.create("/leads", **LEAD)
    with page.expect_response("**/bell"):
        page.clock.fast_forward(10_000)
    bell.get_by_text("1").wait_for()
    assert page.title() == f"(1) {title}"
    with page.expect_response("**/bell"):
        page.clock.fast_forward(10_000)
    assert asked == [200, 200, 304]
    message = page.locator("#messages").get_by_role("link", name="Новий лід: Марія")
    assert message.get_attribute("href").startswith("/alerts/")
    page.goto("/leads/1")  # not by the alert
    assert page.locator("#bell [data-bell]").is_hidden()
    page.goto("/alerts")
    page.get_by_label("Звук нових сповіщень").check()
    page.reload()
    assert page.get_by_label("Звук нових сповіщень").is_checked()


@pytest.mark.parametrize(
    ("width", "locale", "words"),
    [
        pytest.param(
            *(WIDE, "uk-UA", ("Нагадування: Дзвінок", "Новий лід: Email")), marks=pytest.mark.deep
        ),
        (NARROW, "en-US", ("Reminder", "New lead")),
    ],
)
def test_alerts_and_their_choices_are_accessible_and_kept(
    crm, api, clock, open_as_taras, width, locale, words
):
    api.create("/tasks", title="Дзвінок", remind_at="2026-03-02T09:30:00Z", assigned_to=str(TARAS))
    api.create("/leads", **{**LEAD, "name": "Email"})
    clock.tick(3600)
    page = open_as_taras(width, locale=locale)
    page.goto("/alerts")
    for text in words:
        page.get_by_role("link", name=text).wait_for()
    check(page, f"/alerts, {locale}, {width}")
    page.goto("/settings/profile")
    check(page, f"/settings/profile, {locale}, {width}")
    page.locator('input[name="assigned"][value="bell"]').uncheck()
    page.locator('form[action="/settings/profile/alerts"] button').click()
    page.wait_for_url("**/settings/profile#alerts")
    assert not page.locator('input[name="assigned"][value="bell"]').is_checked()
    assert page.locator('input[name="lead_new"][value="bell"]').is_checked()
