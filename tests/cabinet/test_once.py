"""The same form of one page, sent twice, makes one record; a page loaded anew makes another."""

import http.client
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from crm import CRMApp
from crm.access import sessions
from crm.installation.tenants import Tenants
from crm.resources import users
from crm.storage.session import one_row
from tests.cabinet.test_proofs import give_password, later
from tests.concurrency import run_in_threads
from tests.conftest import Api, Clock
from tests.installations import config_for
from tests.page_client import Person
from tests.server_process import run_server
from tests.tables import read_rows

LEAD = {"name": "Двічі", "phone": "0671234567"}
# By table: the page of the form, its action, and what is typed. Here are the clients, leads and
# deals of the number 1.
FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lead": ("/leads/new", "/leads", LEAD),
    "client": ("/clients/new", "/clients", {"name": "Двічі", "type": "company"}),
    "product": ("/products/new", "/products", {"name": "Двічі", "price": "1", "currency": "UAH"}),
    "deal": ("/deals/new", "/deals", {"title": "Двічі"}),
    "task": ("/tasks/new", "/tasks", {"title": "Двічі", "priority": "normal"}),
    "note": ("/leads/1", "/leads/1/notes", {"text": "Двічі"}),
    "contact": ("/clients/1", "/clients/1/contacts", {"name": "Двічі"}),
    "deal_item": (
        *("/deals/1?items=edit", "/deals/1/items"),
        {"items-0-name": "Двічі", "items-0-price": "1", "items-0-discount_type": "percent"},
    ),
    "saved_view": ("/leads?status=new", "/views", {"name": "Двічі"}),
    "pipeline": ("/settings/pipelines", "/settings/pipelines", {"name": "Двічі"}),
    "stage": (
        *("/settings/pipelines/1", "/settings/pipelines/1/stages"),
        {"name": "Двічі", "type": "open"},
    ),
    "custom_field": (
        *("/settings/fields/new", "/settings/fields"),
        {"label": "Двічі", "type": "text", "resource": "deals"},
    ),
    '"user"': (
        *("/settings/users", "/settings/users"),
        {"name": "Двічі", "email": "twice@acme.example", "role": "manager"},
    ),
    "inbound_hook": (
        *("/settings/inbound-hooks", "/settings/inbound-hooks"),
        {"name": "Двічі", "target": "lead"},
    ),
}
# The answers to these have a secret.
SECRET_FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "webhook": (
        *("/settings/webhooks", "/settings/webhooks"),
        {"url": "https://erp.example.com/crm", "events": "lead.created"},
    ),
    "api_key": (
        *("/settings/api-keys/new", "/settings/api-keys"),
        {"name": "Двічі", "scopes": "leads:read"},
    ),
    "api_key, of a form": (
        *("/settings/forms", "/settings/forms"),
        {"name": "Двічі", "origins": "https://shop.example.ua", "source": "s", "fields": "phone"},
    ),
}


@pytest.fixture(autouse=True)
def records(api: Api, post: Any) -> None:
    api.create("/leads", name="Olha", phone="+380671230000")
    api.create("/clients", name="Olha")
    api.create("/deals", title="Olha", client_id="1")


def count(crm: CRMApp, table: str) -> int:
    with crm.tenants.session("acme"):
        return one_row(f"SELECT count(*) FROM {table.partition(',')[0]}")[0]


def typed(person: Person, table: str, **changed: Any) -> dict[str, Any]:
    """The form of a page that is loaded now, filled in."""
    page, action, fields = (FORMS | SECRET_FORMS)[table]
    return person.form_fields(person.sees(page), action) | fields | changed


@pytest.mark.parametrize("table", FORMS)
def test_a_form_sent_twice_makes_one_record(crm, olena, table):
    action, before = FORMS[table][1], count(crm, table)
    form = typed(olena, table)
    first, second = olena.sends(action, form), olena.sends(action, form)
    assert (first, count(crm, table)) == (second, before + 1)


@pytest.mark.parametrize("table", SECRET_FORMS)
def test_the_page_of_a_secret_is_shown_once(crm, olena, table):
    action, before = SECRET_FORMS[table][1], count(crm, table)
    form = typed(olena, table)
    assert olena.post(action, form).status_code == 200
    assert olena.sends(action, form) == action
    assert "показується лише раз" in olena.sees(action)
    assert count(crm, table) == before + 1


def test_two_pages_make_two_records(crm, olena):
    for form in (typed(olena, "task"), typed(olena, "task")):
        olena.sends("/tasks", form)
    assert count(crm, "task") == 2


def test_a_form_that_was_changed_after_going_back_makes_another_record(crm, olena):
    form = typed(olena, "lead")
    paths = [olena.sends("/leads", {**form, "name": name}) for name in ("A", "B", "A", "B")]
    assert paths == paths[:2] * 2 and count(crm, "lead") == 3


def test_a_refused_form_is_taken_when_it_is_corrected(crm, olena):
    refused = olena.post("/leads", typed(olena, "lead", phone="1"))
    assert refused.status_code == 422
    form = olena.form_fields(refused.text, "/leads") | LEAD
    first, second = olena.sends("/leads", form), olena.sends("/leads", form)
    assert (first, count(crm, "lead")) == (second, 2)


def test_the_message_of_the_first_answer_is_shown_once(olena):
    form = typed(olena, "lead")
    cookie = olena.cookie("crm_form").value
    olena.sends("/leads", form)
    path = olena.sends("/leads", form)
    assert olena.sees(path).count("Лід додано") == 1
    olena.client.set_cookie("crm_form", cookie, domain=olena.host)  # the browser had hung up
    olena.sends("/leads", form)
    assert olena.sees(path).count("Лід додано") == 1


def test_the_first_answer_is_that_of_its_user(crm, olena, manager):
    """Ids of pages are random; even the same one does not show another's answer."""
    form = typed(olena, "lead")
    page_id = form["csrf_token"].partition("~")[2]
    first = olena.sends("/leads", form)
    own = typed(manager, "lead")
    own["csrf_token"] = own["csrf_token"].partition("~")[0] + "~" + page_id
    assert manager.sends("/leads", own) != first


def test_a_conversion_sent_twice_is_one(crm, olena):
    form = olena.form_fields(olena.sees("/leads/1/convert"), "/leads/1/convert")
    paths = {olena.sends("/leads/1/convert", form) for _ in range(2)}
    assert (len(paths), count(crm, "deal")) == (1, 2)


def test_the_password_is_asked_for_before_anything_is_stored(crm, clock: Clock, cheap_hashes):
    give_password(crm)
    olena = later(crm, clock)
    form = typed(olena, "webhook")
    assert olena.post("/settings/webhooks", form).status_code == 403
    assert (count(crm, "webhook"), count(crm, "idempotency_response")) == (0, 0)
    proof = olena.form_fields(olena.page.text, "/settings/webhooks")
    proof["current"] = "right one, and long"
    assert olena.post("/settings/webhooks", proof).status_code == 200
    assert olena.sends("/settings/webhooks", proof) == "/settings/webhooks"
    assert count(crm, "webhook") == 1


def test_no_secret_is_stored(crm, olena):
    page = olena.post("/settings/webhooks", typed(olena, "webhook"))
    (secret,) = set(re.findall(r"whsec_[\w+/=]+", page.text))
    (stored,) = read_rows(crm.tenants, "acme", "SELECT * FROM idempotency_response")
    assert secret not in str(stored)


def test_it_lasts_for_24_hours(crm, olena, clock):
    form = typed(olena, "lead")
    first = olena.sends("/leads", form)
    clock.tick(24 * 3600 - 1)
    assert olena.sends("/leads", form) == first
    clock.tick(1)
    assert olena.sends("/leads", form) != first


@pytest.mark.process
def test_of_two_processes_one_makes_the_record(tmp_path, key):
    tenants = Tenants(config_for(tmp_path))
    with tenants.session("acme"):
        cookie = f"crm_session={sessions.open(users.owner_id(), 'tests')}"
    tenants.forget_idle()
    with run_server(tmp_path, workers=2) as port:

        def call(method: str, path: str, cookie: str, body: str = "") -> Any:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {"Host": f"acme.localhost:{port}", "Cookie": cookie}
            headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
            link.request(method, path, body or None, headers)
            answer = link.getresponse()
            answer.text = answer.read().decode()
            link.close()
            return answer

        page = call("GET", "/leads/new", cookie)
        forms = f"{cookie}; {page.getheader('Set-Cookie').partition(';')[0]}"
        for number in range(5):
            page = call("GET", "/leads/new", forms)
            token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)[1]
            body = urlencode({**LEAD, "name": f"Двічі {number}", "csrf_token": token})
            answers = run_in_threads(8, lambda _: call("POST", "/leads", forms, body))  # noqa: B023
            assert {answer.status for answer in answers} == {303}
            assert len({answer.getheader("Location") for answer in answers}) == 1
    with Tenants(config_for(tmp_path)).session("acme"):
        assert one_row("SELECT count(*) FROM lead") == (5,)
