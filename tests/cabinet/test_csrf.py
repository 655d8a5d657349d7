"""Hidden tokens of forms: each is good at one tenant and in one session alone."""

from collections.abc import Callable

import pytest

from crm import CRMApp
from crm.access import sessions
from crm.installation.tenants import Tenants
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS
from tests.installations import config_for
from tests.page_client import Person

each = pytest.mark.parametrize


def token_of(person: Person) -> tuple[str, str]:
    """The token of a page's forms, and the cookie that goes with it."""
    person.sees("/tasks" if person.cookie("crm_session") else "/login" if person.label else "/")
    return person._token, person.cookie("crm_form").value


def sent_with(person: Person, token: str, cookie: str) -> int:
    """A form with a token from elsewhere, whose cookie was planted in this browser."""
    person.client.set_cookie("crm_form", cookie, domain=person.host)
    sent = {"language": "en", "csrf_token": token}
    return person.open("POST", "/language", data=sent).status_code


# Makers of browsers: nobody has logged in at the first three.
EVERYBODY: list[Callable[[CRMApp], Person]] = [
    lambda crm: Person(crm),
    lambda crm: Person(crm, "globex"),
    lambda crm: Person(crm, ""),
    lambda crm: Person(crm, user_id=OLENA),
    lambda crm: Person(crm, user_id=TARAS),
    lambda crm: Person(crm, "globex", 1),
]


@loop_over("reader", EVERYBODY)
@loop_over("maker", EVERYBODY)
def test_a_token_is_refused_where_it_was_not_made(crm, maker, reader):
    """Only two browsers nobody has logged in with share a token, if they share its cookie."""
    token, cookie = token_of(maker(crm))
    same = maker is reader and maker in EVERYBODY[:3]
    assert sent_with(reader(crm), token, cookie) == (303 if same else 400)


def test_a_token_from_before_a_login_is_refused_after_it(crm):
    person = Person(crm)
    token, cookie = token_of(person)
    with crm.tenants.session("acme"):
        person.client.set_cookie("crm_session", sessions.open(OLENA, ""), domain=person.host)
    assert sent_with(person, token, cookie) == 400
    person.sees("/tasks")
    person.sends("/language", {"language": "en"})


def test_a_token_from_before_a_logout_is_refused_after_it(crm, olena):
    person = olena
    token, cookie = token_of(person)
    person.sends("/logout")
    assert sent_with(person, token, cookie) == 400
    again = Person(crm, user_id=OLENA)
    again.sees("/tasks")
    assert sent_with(again, token, cookie) == 400  # nor is it good in the next session


@each("headers", [{"Referer": ""}, {"Referer": "https://globex.localhost/"}])
def test_by_https_the_form_must_have_stood_here(crm, headers):
    crm.tenants = Tenants(
        config_for(crm.tenants.config.data, public_url="https://{label}.localhost"),
        crm.tenants.clock,
    )
    person = Person(crm, scheme="https")
    person.sees("/login")
    sent = {"language": "en"}
    assert person.post("/language", sent, headers=headers).status_code == 400
    person.sends("/language", sent)
