"""What outlasts a session takes a proof: the password, or a login of the last minutes (D12).

A thief who finds a session open, days after the login, must not make keys, choose where webhooks
send to, or change how anybody logs in.
"""

import html
import re

import pytest

from crm import CRMApp
from crm.access import api_keys, oauth_grants, sessions
from crm.cabinet.settings import identity
from crm.cabinet.settings.identity import FRESH_LOGIN_SECONDS
from crm.resources import users
from crm.storage.session import rows, transaction
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, TARAS, Clock
from tests.page_client import Person, Recorder, hidden
from tests.passwords import set_password

parametrize = pytest.mark.parametrize
PASSWORD = "right one, and long"
TWO_DAYS = 2 * 86_400
TARAS_FIELDS = {"name": "Taras", "email": "", "phone": "+380501110002", "role": "manager"}
OLENA_FIELDS = {"name": "Olena", "phone": "+380671112233", "role": "owner"}
HOOK = {"url": "https://mine.example.com/crm", "events": ["lead.created", "deal.won"]}
FORM = {"name": "Форма", "origins": "https://shop.example.ua", "source": "s", "fields": "phone"}
KEY = {"name": "ERP", "scopes": ["leads:read", "deals:read"], "expires_on": "2030-01-01"}

BACK = "https://assistant.example/back"
CONSENT = {"redirect_uri": BACK, "code_challenge": "x" * 43, "state": "s"}  # cast() adds the client

# By name: the form's path and fields.
CHANGES = {
    "key": ("/settings/api-keys", KEY),
    "form_key": ("/settings/forms", FORM),
    "assistant": ("/oauth/authorize", CONSENT),
    "webhook": ("/settings/webhooks", HOOK),
    "webhook_address": ("/settings/webhooks/1", {**HOOK, "active": "1"}),
    "calendar": ("/settings/profile/calendar", {}),
    "inbound_hook": ("/settings/inbound-hooks", {"name": "Mine", "target": "lead"}),
    "email_of_another": ("/settings/users/2", {**TARAS_FIELDS, "email": "thief@evil.example"}),
    "phone_of_another": ("/settings/users/2", {**TARAS_FIELDS, "phone": "+380671112233"}),
    "role_of_another": ("/settings/users/2", {**TARAS_FIELDS, "role": "owner"}),
    "own_phone": ("/settings/users/1", OLENA_FIELDS),
    "own_email": ("/settings/profile/email", {"email": "o@new.example"}),
    "new_user": ("/settings/users", {"name": "Thief", "email": "t@evil.example", "role": "owner"}),
    "login_link": ("/settings/users/2/invite", {}),
    "access_again": ("/settings/users/3/activate", {}),
}
ALWAYS_BY_PASSWORD = ("own_phone", "own_email")  # whenever there is one
each_change = parametrize("change", CHANGES)
# All take their proof by one context manager: two that differ stand for them.
two_changes = parametrize("change", ["key", "own_phone"])


@pytest.fixture(autouse=True)
def cast(crm: CRMApp, api, cheap_hashes: None, post: Recorder) -> None:
    """A webhook, a user who was deactivated, and a program that asks to be let in."""
    api.create("/webhooks", url="https://erp.example.com/crm")
    with crm.tenants.session("acme"), transaction():
        CONSENT["client_id"] = oauth_grants.register_client(crm.secret_key, "Помічник", [BACK])
        users.update(users.create({"name": "Богдан", "phone": "+380501110009"}).id, {"active": 0})


def give_password(crm: CRMApp, user_id: int = OLENA) -> None:
    with crm.tenants.session("acme"):
        set_password(user_id, PASSWORD)


def state(crm: CRMApp) -> list[object]:
    """All that the changes change."""
    tables = ("api_key", "webhook", "inbound_hook", '"user"', "one_time_link")
    with crm.tenants.session("acme"):
        return [rows(f"SELECT * FROM {table} ORDER BY id") for table in tables]


def later(crm: CRMApp, clock: Clock, seconds: float = TWO_DAYS) -> Person:
    """Olena's browser, some time after her login."""
    olena = Person(crm, user_id=OLENA)
    clock.tick(seconds)
    olena.sees("/settings/profile")
    return olena


def kept_fields(page: str) -> dict[str, list[str]]:
    """The fields that a page sends again, besides the token."""
    form = re.search(
        r'<form method="post" action="/(?:settings|oauth)/[^"]*" class="" novalidate>.*?</form>',
        page,
        re.S,
    )
    results: dict[str, list[str]] = {}
    for name, value in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form[0]):
        if name != "csrf_token":
            results.setdefault(html.unescape(name), []).append(html.unescape(value))
    return results


def as_sent(fields: dict) -> dict[str, list[str]]:
    return {name: value if isinstance(value, list) else [value] for name, value in fields.items()}


@each_change
def test_an_old_session_alone_changes_nothing_and_what_was_typed_is_kept(crm, clock, post, change):
    path, sent = CHANGES[change]
    for has_password in (False, True):
        if has_password:
            give_password(crm)
        olena, before = later(crm, clock), state(crm)
        page = olena.post(path, sent)
        assert page.status_code == 403, page.text
        assert state(crm) == before
        assert not post.letters and not post.texts
        for secret in ("crm_", "whsec_", "/invite/", "/i/"):
            assert secret not in page.text
    assert 'name="current"' in page.text
    fields = kept_fields(page.text)
    assert fields == as_sent(sent)
    wrong = olena.post(path, {**fields, "current": "a wrong one"})
    assert wrong.status_code == 422 and 'id="current-fault"' in wrong.text
    assert kept_fields(wrong.text) == fields and "a wrong one" not in wrong.text
    assert state(crm) == before
    assert olena.post(path, {**fields, "current": PASSWORD}).status_code in (200, 303)
    assert state(crm) != before


@parametrize("change", ["key", "assistant"])
def test_without_a_password_a_login_leads_back_to_what_was_typed(crm, clock, post, change):
    path, sent = CHANGES[change]
    olena, before = later(crm, clock), state(crm)
    page = olena.post(path, sent)
    assert 'name="current"' not in page.text and 'action="/login"' in page.text
    again = {"phone": hidden(page.text, "phone"), "next": hidden(page.text, "next")}
    assert olena.sends("/login", again) == "/login/code"
    assert olena.sends("/login/code", {"code": post.code()}) == "/settings/continue"
    page = olena.sees("/settings/continue")
    fields = kept_fields(page)
    assert fields == as_sent(sent) and f'action="{path}"' in page
    assert state(crm) == before
    assert olena.post(path, fields).status_code in (200, 303)
    assert state(crm) != before
    assert olena.get("/settings/continue").location == "/settings"  # once


@parametrize("change", sorted(CHANGES.keys() - ALWAYS_BY_PASSWORD))
def test_a_login_of_the_last_minutes_is_enough(crm, clock, change):
    path, sent = CHANGES[change]
    give_password(crm)
    olena, before = later(crm, clock, FRESH_LOGIN_SECONDS - 1), state(crm)
    assert olena.post(path, sent).status_code in (200, 303)
    assert state(crm) != before


@parametrize("change", sorted(ALWAYS_BY_PASSWORD))
def test_the_own_login_takes_the_password_whatever_the_session(crm, change):
    give_password(crm)
    olena, before = Person(crm, user_id=OLENA), state(crm)
    path, sent = CHANGES[change]
    assert olena.post(path, sent).status_code == 403
    assert state(crm) == before
    olena.sends(path, {**sent, "current": PASSWORD})


@parametrize(
    ("path", "sent"),
    [
        ("/settings/users/2", {**TARAS_FIELDS, "name": "Тарас"}),
        ("/settings/users/2", {**TARAS_FIELDS, "name": "Т", "phone": "050 111 00 02"}),  # the same
        ("/settings/users/2/deactivate", {}),
        ("/settings/webhooks/1", {"url": "https://erp.example.com/crm", "events": ["deal.won"]}),
    ],
)
def test_what_gives_no_access_takes_no_proof(crm, clock, path, sent):
    give_password(crm)
    olena, before = later(crm, clock), state(crm)
    olena.sends(path, sent)
    assert state(crm) != before


def test_tries_are_limited_like_those_of_the_profile(crm, clock):
    give_password(crm)
    olena = later(crm, clock)
    sent = {**KEY, "current": "a wrong one"}
    seen = [olena.post("/settings/api-keys", sent).status_code for _ in range(11)]
    assert seen == [422] * 10 + [429]
    assert f'value="{KEY["name"]}"' in olena.page.text  # the form itself, as it was typed
    right = {**KEY, "current": PASSWORD}
    assert olena.post("/settings/api-keys", right).status_code == 429


def end_sessions() -> None:
    sessions.end_others(OLENA)


def change_password() -> None:
    set_password(OLENA, "another one, and long")


@two_changes
@parametrize("change_meanwhile", [end_sessions, change_password])
def test_a_proof_that_has_ended_meanwhile_changes_nothing(
    crm, clock, monkeypatch, change, change_meanwhile
):
    """The password is right, and the owner ends the session, or changes the password in another
    window of the same session, before the change is written."""
    path, sent = CHANGES[change]
    give_password(crm)
    olena = later(crm, clock)
    real, before = identity.prove, []

    def change_elsewhere(_: int) -> None:
        with crm.tenants.session("acme"):
            change_meanwhile()

    def prove():
        proof = real()
        run_in_threads(1, change_elsewhere)
        before.extend(state(crm))
        return proof

    monkeypatch.setattr(identity, "prove", prove)
    page = olena.post(path, {**sent, "current": PASSWORD})
    assert page.status_code == 409
    assert state(crm) == before


def test_the_kept_form_is_only_for_its_user(crm, clock, post):
    olena = later(crm, clock)
    olena.post("/settings/api-keys", KEY)
    olena.sends("/login", {"phone": "+380501110002"})
    assert olena.sends("/login/code", {"code": post.code()}) == "/"
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"role": "owner"})
    assert olena.get("/settings/continue").location == "/settings"


def test_a_form_too_large_for_the_cookie_is_refused_all_the_same(crm, clock, post):
    olena = later(crm, clock)
    long = {**HOOK, "description": "".join(chr(0x400 + n * 7919 % 255) for n in range(2000))[:250]}
    long["url"] += "?" + "".join(f"{n * 2654435761 % 2**32:x}" for n in range(200))
    assert olena.post("/settings/webhooks", long).status_code == 403
    assert len(str(olena.cookie("crm_form").value)) < 4000
    olena.sends("/login", {"phone": "+380501110001"})
    assert olena.sends("/login/code", {"code": post.code()}) == "/"


def test_log_out_everywhere_lists_the_keys_made_lately(crm, clock):
    with crm.tenants.session("acme"):
        api_keys.create("Торішній", "leads:read", OLENA)
    clock.tick(31 * 86_400)
    with crm.tenants.session("acme"):
        api_keys.create("Чужий", "leads:read", TARAS)
        revoked, _ = api_keys.create("Відкликаний", "leads:read", OLENA)
        api_keys.find(revoked).revoke()
    olena, thief = Person(crm, user_id=OLENA), Person(crm, user_id=OLENA)
    thief.post("/settings/api-keys", {"name": "Мій", "scopes": "*"})
    assert olena.sends("/settings/profile/sessions/end-others") == "/settings/profile"
    page = olena.sees("/settings/profile")
    assert "перевірте нижче" in page
    for name, is_listed in {
        "Мій": True, "Торішній": False, "Чужий": False, "Відкликаний": False,
    }.items():  # fmt: skip
        assert (f">{name}<" in page) is is_listed, name
    revoke = re.search(r'action="(/settings/api-keys/\d+/revoke)"', page)[1]
    olena.confirms(revoke)
    assert ">Мій<" not in olena.sees("/settings/profile")
    olena.sends("/settings/profile/sessions/end-others")
    assert "перевірте нижче" not in olena.sees("/settings/profile")


def test_every_page_that_makes_access_is_listed_here(crm: CRMApp):
    """A new page of the settings that posts is either a case of this file or named here."""
    harmless = {
        "add_pipeline", "change_pipeline", "delete_pipeline", "make_default", "move_pipeline",
        "add_stage", "change_stage", "delete_stage", "move_stage", "change_company", "change_logo",
        "change_profile", "change_password", "end_session", "end_other_sessions", "revoke_key",
        "deactivate_user", "hand_over", "rotate_secret", "test_webhook", "delete_webhook",
        "recover_webhook", "resend_delivery", "change_hook", "delete_hook", "replay_call",
        "delete_call", "add_field", "change_field", "preview_field", "move_field", "retire_field",
        "restore_field", "delete_field", "fill_field",
        "choose_alerts", "choose_turns", "change_papers", "disconnect_telegram", "end_calendar",
        "connect_telegram",  # test_telegram.py
    }  # fmt: skip
    posting = {
        rule.endpoint.partition(".")[2]: rule.rule
        for rule in crm.url_map.iter_rules()
        if rule.endpoint.startswith("settings_pages.") and "POST" in rule.methods
    }
    proven = {re.sub(r"\d+", "<id>", path) for path, _ in CHANGES.values()}
    assert {rule for name, rule in posting.items() if name not in harmless} == proven
