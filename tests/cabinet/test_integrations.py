"""Settings for other programs: API keys, webhooks and their deliveries, forms for other sites."""

import html
import json
import re
import shlex
from urllib.parse import quote

import pytest
from standardwebhooks import Webhook as Standard

from crm.access import api_keys
from crm.outbox import deliveries
from crm.outbox.call import Outcome
from crm.outbox.subscriptions import Webhook
from crm.resources import webhooks
from crm.resources.leads.record import HONEYPOT
from crm.resources.webhooks import DELIVERY, WEBHOOK
from crm.storage.session import execute, now, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, Api
from tests.page_client import Person
from tests.waiting import wait_for
from tests.webhook_receiver import TIMEOUT_SECONDS

each = pytest.mark.parametrize
KEY = re.compile(r"crm_[0-9A-Za-z]{46}")
SECRET = re.compile(r"whsec_[0-9A-Za-z+/=]+")
HOOK = "https://erp.example.com/crm"
SHOP = "https://shop.example.ua"


def copied(page: str, id: str) -> str:
    """What the copy button of a page copies."""
    return html.unescape(re.search(rf'<pre id="{id}"[^>]*><code>(.*?)</code>', page, re.S)[1])


def last_key(crm):
    with crm.tenants.session("acme"):
        return api_keys.list_all()[-1]


# API keys


def make_key(olena, **sent):
    fields = {"name": "1C", "scopes": ["leads:read"], "expires_on": "", **sent}
    return olena.post("/settings/api-keys", fields)


def test_a_key_is_shown_once_with_a_line_that_works(crm, olena):
    page = make_key(olena, scopes=["leads:read", "leads:write"])
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store"
    secret = copied(page.text, "key")
    made = last_key(crm)
    assert (made.name, made.scopes, made.user_id) == ("1C", "leads:read,leads:write", OLENA)
    command, *parts = shlex.split(copied(page.text, "curl"))
    assert command == "curl" and parts[0] == "-H"
    assert parts[1] == f"Authorization: Bearer {secret}"
    assert parts[2].endswith("/api/v1/users/me")
    assert Api(crm, "acme", secret).get("/users/me").status_code == 200
    listed = olena.sees("/settings/api-keys")
    assert secret not in listed and made.hint in listed


@loop_over(
    ("preset", "scopes"),
    [
        ("assistant", {*api_keys.ASSISTANT_SCOPES}),
        ("read", {f"{noun}:read" for noun in api_keys.rights.RESOURCES}),
        ("full", {"*"}),
        ("other", set()),
    ],
)
def test_a_preset_fills_the_form_in(olena, preset, scopes):
    page = olena.sees(f"/settings/api-keys/new?preset={preset}")
    boxes = re.findall(r'name="scopes" value="([^"]+)"( checked)?', page)
    assert {scope for scope, checked in boxes if checked} == scopes
    assert {scope for scope, _ in boxes} == {*api_keys.rights.OFFERED_SCOPES}


def test_a_key_for_an_assistant_lasts_90_days_and_says_what_it_is(crm, olena):
    page = olena.sees("/settings/api-keys/new?preset=assistant")
    fields = olena.form_fields(page, "/settings/api-keys")
    assert 'name="expires_on" value="2026-05-31"' in page
    make_key(olena, preset=fields["preset"], expires_on="2026-05-31")
    made = last_key(crm)
    assert (made.preset, made.expires_at) == ("assistant", "2026-05-31T21:00:00Z")
    assert "Асистент</span>" in olena.sees("/settings/api-keys")
    make_key(olena, preset="price")
    assert last_key(crm).preset is None


@loop_over(
    ("sent", "place"),
    [
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["dragons:read"]}, "scopes"),
        ({"expires_on": "2026-03-01"}, "expires_on"),
        ({"expires_on": "soon"}, "expires_on"),
        ({"expires_on": "10000-01-01"}, "expires_on"),
    ],
)
def test_a_key_that_cannot_be_is_told_at_the_place(crm, olena, sent, place):
    page = make_key(olena, **sent)
    assert page.status_code == 422 and f'id="{place}-fault"' in page.text
    assert not KEY.search(page.text)
    for name, value in {"name": "1C", **sent}.items():
        assert name in ("scopes", place) or f'value="{value}"' in page.text
    if "scopes" not in sent:
        assert 'value="leads:read" checked' in page.text
    assert last_key(crm).name == "tests"


def test_a_key_ends_with_the_last_day_of_the_tenants_zone(crm, olena):
    make_key(olena, expires_on="2026-03-02")  # it is 11:00 in Kyiv
    assert last_key(crm).expires_at == "2026-03-02T22:00:00Z"
    make_key(olena, expires_on="9999-12-31")
    assert last_key(crm).expires_at == "9999-12-31T23:59:59Z"
    assert "31 груд. 9999" in olena.sees("/settings/api-keys")


# Webhooks


def make_hook(olena, **sent):
    fields = {"url": HOOK, "description": "ERP", "events": ["lead.created"], **sent}
    return olena.post("/settings/webhooks", fields)


def hook_of(crm, id=1):
    with crm.tenants.session("acme"):
        return WEBHOOK.one(id)


def deliveries_of(crm, id=1):
    with crm.tenants.session("acme"):
        return DELIVERY.every("webhook_id = ? ORDER BY id", id)


def test_a_webhook_is_made_and_its_secret_shown_once(crm, olena):
    page = make_hook(olena)
    assert page.status_code == 200
    secret = copied(page.text, "secret")
    assert SECRET.fullmatch(secret)
    made = hook_of(crm)
    assert (made["url"], made["description"], made["events"]) == (HOOK, "ERP", ["lead.created"])
    for path in ("/settings/webhooks", "/settings/webhooks/1"):
        page = olena.sees(path)
        assert HOOK in page and not SECRET.search(page)


@each(
    ("sent", "place"),
    [({"url": ""}, "url"), ({"url": "http://erp.example.com"}, "url"),
     ({"url": "https://10.0.0.1/"}, "url"), ({"events": []}, "events"),
     ({"events": ["x"]}, "events")],
)  # fmt: skip
def test_a_webhook_that_cannot_be_is_told_at_the_place(crm, olena, sent, place):
    make_hook(olena)
    for path in ("/settings/webhooks", "/settings/webhooks/1"):
        fields = {"url": HOOK, "description": "<ERP>", "events": ["deal.won"], **sent}
        page = olena.post(path, fields)
        assert page.status_code == 422 and f'id="{place}-fault"' in page.text
        assert 'value="&lt;ERP&gt;"' in page.text
        assert 'value="deal.won"' in page.text
    with crm.tenants.session("acme"):
        assert len(WEBHOOK.every("TRUE")) == 1
    assert hook_of(crm)["events"] == ["lead.created"]


def test_a_webhook_is_changed_and_switched_off(crm, olena):
    make_hook(olena)
    sent = {"url": f"{HOOK}/2", "description": "", "events": ["deal.won", "deal.lost"]}
    olena.sends("/settings/webhooks/1", {**sent, "active": "1"})
    changed = hook_of(crm)
    assert (changed["url"], changed["description"]) == (f"{HOOK}/2", None)
    assert (changed["events"], changed["state"]) == (["deal.won", "deal.lost"], "active")
    olena.sends("/settings/webhooks/1", sent)
    assert hook_of(crm)["state"] == "inactive"
    olena.confirms("/settings/webhooks/1/delete")
    olena.sees("/settings/webhooks/1", 404)


def test_a_new_secret_is_shown_once(crm, olena):
    first = copied(make_hook(olena).text, "secret")
    page = olena.post("/settings/webhooks/1/rotate", {"sure": "1"})
    second = copied(page.text, "secret")
    assert page.status_code == 200 and second != first
    with crm.tenants.session("acme"):
        assert Webhook.find(1).active_secrets() == (second, first)


def test_a_test_is_sent_to_the_receiver(sending, hook):
    olena = Person(sending, user_id=OLENA)
    secret = copied(make_hook(olena, url=hook.url).text, "secret")
    path = olena.sends("/settings/webhooks/1/test")
    (came,) = hook.wait_for(1)
    assert Standard(secret).verify(came.body, came.headers)["type"] == "webhook.test"
    assert path == "/settings/webhooks/1/deliveries/1"
    wait_for(lambda: "204" in olena.sees(path), TIMEOUT_SECONDS)
    assert json.loads(copied(olena.sees(path), "sent")) == json.loads(came.body)


def test_the_log_shows_deliveries_with_their_attempts_and_sends_them_again(crm, olena, api, clock):
    make_hook(olena)
    api.create("/leads", name="<script>alert(1)</script>", phone="0671234567")
    with crm.tenants.session("acme"):
        (claimed,), _ = deliveries.claim_due("tests", 5, 5)
        outcome = Outcome(12, 500, None, "<script>alert(2)</script>")
        deliveries.record_outcome(claimed, "2026-03-02T09:00:00Z", outcome)
    page = olena.sees("/settings/webhooks/1")
    assert "Новий лід" in page and "500" in page and "Працює з помилками" in page
    path = "/settings/webhooks/1/deliveries/1"
    page = olena.sees(path)
    assert "<script>alert" not in page and "&lt;script&gt;alert(2)" in page
    assert json.loads(copied(page, "sent"))["data"]["lead"]["phone"] == "+380671234567"
    assert path in olena.sees("/settings/webhooks/1?status=pending")
    assert path not in olena.sees("/settings/webhooks/1?status=failed")
    olena.sees("/settings/webhooks/1?status=odd", 422)
    with crm.tenants.session("acme"), transaction():
        execute("UPDATE delivery SET status = 'failed', due_at = NULL")
    assert olena.sends(f"{path}/resend") == path
    assert deliveries_of(crm)[0]["status"] == "pending"


def test_a_recovery_counts_first_and_then_sends(crm, olena, api):
    for number in range(3):
        api.create("/leads", name=f"L{number}", phone="0671234567")
    make_hook(olena)
    sent = {"since": "2026-03-02T10:00"}
    page = olena.post("/settings/webhooks/1/recover", sent)
    assert page.status_code == 200 and "Пропущено 3 доставки." in page.text
    assert 'name="since" value="2026-03-02T10:00"' in page.text
    assert deliveries_of(crm) == []
    olena.sends("/settings/webhooks/1/recover", sent | {"sure": "1"})
    assert [result["status"] for result in deliveries_of(crm)] == ["pending"] * 3
    later = olena.post("/settings/webhooks/1/recover", {"since": "2026-03-02T11:01"})
    assert "Пропущено 0 доставок." in later.text
    assert olena.post("/settings/webhooks/1/recover", {"since": "soon"}).status_code == 422


# Forms for other sites


def make_form(olena, **sent):
    fields = {"name": "Сайт", "origins": SHOP, "fields": ["phone", "email"], "thanks": "", **sent}
    return olena.post("/settings/forms", fields)


def test_a_form_is_made_with_its_own_key(crm, olena):
    page = make_form(olena, origins=f"{SHOP}, https://b.example", thanks="Дякуємо </script>")
    assert page.status_code == 200
    snippet = copied(page.text, "snippet")
    key = last_key(crm)
    assert (key.scopes, key.origins) == ("leads:create", f"{SHOP},https://b.example")
    secret = KEY.search(snippet)[0]
    assert re.search(r'fetch\("http://acme\.localhost:\d+/api/v1/leads"', snippet)
    assert "Дякуємо &lt;/script&gt;" in snippet
    assert f'name="{HONEYPOT}"' in snippet and snippet.count("</script>") == 1
    asked = set(re.findall(r'name="(\w+)"', snippet))
    assert asked == {"name", "phone", "email", HONEYPOT}
    site = Api(crm, "acme", secret)
    sent = {"name": "М", "phone": "0671234567", HONEYPOT: ""}
    assert site.post("/leads", sent, headers={"Origin": SHOP}).status_code == 201
    assert site.post("/leads", sent, headers={"Origin": "https://c.example"}).status_code == 403


def test_a_form_that_was_made_before_has_a_place_for_its_key(crm, olena, api):
    api.create("/fields", resource="leads", key="wood", label="Wood", type="text")
    made = make_form(olena, fields=["phone", "custom.wood"])
    secret = KEY.search(copied(made.text, "snippet"))[0]
    id = last_key(crm).id
    assert f"/settings/forms/{id}" in olena.sees("/settings/forms")
    page = olena.sees(f"/settings/forms/{id}")
    assert 'name="custom.wood"' in copied(page, "snippet")
    assert secret not in page and "Bearer YOUR_KEY" in page
    assert "Сайт" in page
    olena.confirms(f"/settings/api-keys/{id}/revoke")
    assert f"/settings/forms/{id}" not in olena.sees("/settings/forms")


def source_in(page):
    return json.loads(re.search(r'var lead = \{source: (".*?")', copied(page, "snippet"))[1])


def test_each_form_has_a_source_of_its_own(crm, olena, api):
    assert 'name="source" value="site-form' in olena.sees("/settings/forms")
    first, second = make_form(olena, name="Головна"), make_form(olena, name="Підвал")
    third = make_form(olena, name="Акція", source=" осіння акція ")
    sources = [source_in(page.text) for page in (first, second, third)]
    assert len({*sources}) == 3 and sources[2] == "осіння акція"
    # The form made before, by the cast's key, is the first.
    assert sources[:2] == ["site-form-2", "site-form-3"]
    for number, (page, source) in enumerate(zip((first, second, third), sources, strict=True)):
        site = Api(crm, "acme", KEY.search(copied(page.text, "snippet"))[0])
        sent = {"name": f"М{number}", "phone": "0671234567", "source": source}
        assert site.post("/leads", sent, headers={"Origin": SHOP}).status_code == 201
    for number, source in enumerate(sources):
        (lead,) = api.read(f"/leads?source={quote(source)}")
        assert lead["name"] == f"М{number}"
    page = olena.sees("/settings/forms")
    for source in sources:
        assert f'href="/leads?source={quote(source)}">{source}</a>' in page


def test_no_two_forms_have_one_source(olena):
    make_form(olena, source="a")
    for wrong in ("a", "site-form", "x" * 65, "a\0"):
        page = make_form(olena, source=wrong)
        assert page.status_code == 422 and 'id="source-fault"' in page.text


# How a webhook does


def health(olena):
    """(kind of badge, words) in the list, which its own page has, too."""
    listed = re.search(r'pill pill-(\w+)">(.*?)</span>', olena.sees("/settings/webhooks"))
    page = olena.sees("/settings/webhooks/1")
    own = re.search(r'<dt>Стан</dt><dd><span class="pill pill-(\w+)">(.*?)</span>', page)
    assert listed.groups() == own.groups()
    return listed.groups()


def test_a_webhook_is_green_only_while_nothing_failed(crm, olena, api, clock):
    make_hook(olena)
    assert health(olena) == ("secondary", "Готовий, ще нічого не надсилали")
    with crm.tenants.session("acme"):
        hook = Webhook.find(1)

        with transaction():
            hook.record_success(now())
        assert health(olena) == ("success", "Активний")
        clock.tick(60)
        with transaction():
            Webhook.find(1).record_failure(now(), 500)
        assert health(olena)[0] == "warning"
        # Turned off and on by hand: the API's state is active, and the last delivery failed.
        for active in (0, 1):
            with transaction():
                webhooks.update(1, {"active": active})
            if not active:
                assert health(olena) == ("danger", "Вимкнено")
        assert api.read("/webhooks/1")["state"] == "active"
        assert health(olena) == ("warning", "Остання доставка не вдалася")
        clock.tick(60)
        with transaction():
            Webhook.find(1).record_success(now())
        assert health(olena) == ("success", "Активний")
        with transaction():
            Webhook.find(1).record_failure(now(), 410)
        assert health(olena) == ("danger", "Вимкнено: одержувач відповів 410")
    page = olena.sees("/settings/webhooks/1")
    assert "Одержувач відповів 410 Gone, тому надсилання зупинено." in page
    assert "2 бер. 2026" in page


@loop_over(
    ("sent", "place"),
    [({"name": ""}, "name"), ({"origins": ""}, "origins"), ({"origins": "shop"}, "origins"),
     ({"fields": ["comment"]}, "fields"), ({"fields": []}, "fields")],
)  # fmt: skip
def test_a_form_that_cannot_be_is_told_at_the_place(crm, olena, sent, place):
    page = make_form(olena, thanks="<Дякую>", **sent)
    assert page.status_code == 422 and f'id="{place}-fault"' in page.text
    assert "&lt;Дякую&gt;" in page.text
    assert last_key(crm).name == "tests"
