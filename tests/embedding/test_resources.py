"""The CRM without HTTP: `crm.leads.create(…)` is `POST /leads`, with its rules and events."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from flask import current_app, g, request

from crm import CRM
from crm.api import problems
from crm.api.operations import PREFIX
from crm.embedding.resources import Resource, resources_of
from crm.errors import Conflict, Invalid, Malformed, NotFound
from crm.json import dumps
from crm.outbox import events
from crm.records.pagination import Page
from crm.storage.session import NoTenant
from crm.testing import crm_tenant  # noqa: F401  # a fixture
from tests.conftest import OLENA, TARAS, Api, set_clock
from tests.embedding.test_embedding import copied
from tests.installations import settings_for
from tests.outbox.test_callbacks import run
from tests.raw_wsgi import send_request
from tests.sites import plain

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_wiring")]

MARIIA = {"name": "Марія", "phone": "067 123 45 67"}


@pytest.fixture
def code(furnished, tmp_path, clock) -> Iterator[CRM]:
    """The CRM in code, with a copy of the cast's data of its own."""
    crm = CRM(**settings_for(copied(furnished, tmp_path / "code")), sends=False)
    set_clock(crm.app, clock)
    yield crm
    crm.app.tenants.forget_idle()


@pytest.fixture
def acme(code) -> Iterator[CRM]:
    with code.tenant("acme"):
        yield code


# It is the API

CALLS = [
    ("leads.create", (), MARIIA | {"amount": 12.5, "tags": ["опт"]}),
    ("leads.create", (), {"name": "Іван", "email": "i@a.example", "strange": "kept"}),
    ("leads.create", (), {"name": "Без адреси"}),
    ("leads.update", (1,), {"comment": "дзвонив", "status": "qualified"}),
    ("leads.update", (1,), {"status": "nonsense", "nothing": 1}),
    ("leads.convert", (1,), {"title": "Крісла"}),
    ("leads.convert", (1,), {}),
    ("leads.get", (1,), {}),
    ("leads.get", (1,), {"expand": ["possible_duplicates"]}),
    ("leads.list", (), {"q": "марія", "total": True}),
    ("leads.list", (), {"nonsense": 1}),
    ("leads.delete", (2,), {}),
    ("leads.changes.list", (1,), {}),
    ("leads.notes.create", (1,), {"text": "Передзвонити"}),
    ("leads.notes.list", (1,), {}),
    ("leads.notes.delete", (1, 1), {}),
    ("products.create", (), {"sku": "ST-1", "name": "Стіл", "price": "1250.50"}),
    ("deals.update", (1,), {"stage_id": "3"}),
    ("deals.items.create", (1,), {"sku": "ST-1", "quantity": 2}),
    ("deals.items.create", (1,), {"items": [{"name": "A", "price": 1}, {"name": "B", "price": 2}]}),
    ("deals.items.list", (1,), {}),
    ("deals.items.replace", (1,), {"items": [{"name": "C", "price": 3}]}),
    ("deals.history.list", (1,), {}),
    ("deals.update", (1,), {"status": "won"}),
    ("clients.create", (), {"name": "ТОВ", "contacts": [{"name": "Олена"}]}),
    ("clients.contacts.list", (2,), {}),
    ("clients.contacts.create", (2,), {"name": "Петро"}),
    ("clients.list", (), {"expand": "contacts"}),
    ("tasks.create", (), {"title": "Дзвінок", "type": "call"}),
    ("tasks.complete", (1,), {"result": "Домовилися"}),
    ("tasks.list", (), {"status": "done"}),
    ("pipelines.list", (), {}),
    ("pipelines.delete", (1,), {"move_to": "1"}),
    ("webhooks.create", (), {"url": "https://erp.example.com/crm"}),
    ("webhooks.recover", (1,), {"since": "2026-03-02T00:00:00Z", "dry_run": True}),
    ("events.list", (), {"after": 2, "limit": 2}),
]
HTTP = {
    "create": "POST", "list": "GET", "replace": "PUT", "get": "GET", "update": "PATCH",
    "delete": "DELETE",
}  # fmt: skip


def asked(api: Api, verb: str, ids: tuple[int, ...], fields: dict[str, Any]) -> Any:
    """The same by HTTP: what code gets, or (status, code) of an error."""
    *words, last = verb.split(".")
    method = HTTP.get(last, "POST")
    path = "".join(
        f"/{word}" + (f"/{ids[number]}" if number < len(ids) else "")
        for number, word in enumerate(words if last in HTTP else [*words, last])
    )
    options: dict[str, Any] = {"headers": {"Prefer": "return=representation"}}
    query = {"dry_run": "true"} if fields.get("dry_run") else {}
    if method in ("GET", "DELETE"):
        query = {name: str(v).lower() if v is True else v for name, v in fields.items()}
    else:
        options["json"] = {n: value for n, value in fields.items() if n != "dry_run"}
    answer = api.call(method, path, query_string=query, **options)
    if answer.status_code >= 400:
        return answer.status_code, answer.json["code"], answer.json.get("errors")
    body = answer.json
    if last == "create" and answer.status_code == 201:
        if "item_ids" in body:
            return [api.read(f"{path}/{id}") for id in body["item_ids"]]
        return body["data"] | ({"secret": body["secret"]} if "secret" in body else {})
    return body


def told(code: CRM, verb: str, ids: tuple[int, ...], fields: dict[str, Any]) -> Any:
    """What the verb gives, as JSON, or the error as the API tells it."""
    call: Any = code
    for word in verb.split("."):
        call = getattr(call, word)
    try:
        response = call(*ids, **fields)
    except Exception as error:
        faults = [
            {fault.kind: fault.where, "code": fault.code, "detail": fault.detail}
            for fault in getattr(error, "faults", [])
        ]
        return problems.status_of(error), error.code, faults or None
    if isinstance(response, Page):
        meta = {"next_cursor": response.next_cursor, **response.meta}
        response = {"data": response.records, "meta": meta}
    return json.loads(dumps(response))


def without_chance(value: Any) -> str:
    """Without random ids, and without the key, which code has none of."""
    text = json.dumps(value, ensure_ascii=False)
    for pattern in (r"whsec_[\w+/=]+", r"evt_\w+", r'"key": (null|\{.*?\})'):
        text = re.sub(pattern, "…", text)
    return text


def test_each_verb_does_what_the_api_does(code, crm, api):
    with code.tenant("acme", user=OLENA):
        for verb, ids, fields in CALLS:
            here, there = told(code, verb, ids, fields), asked(api, verb, ids, fields)
            assert without_chance(here) == without_chance(there), (verb, ids, fields)
        bodies, _ = events.list_bodies_after(0, list(events.KINDS), 1000)
    assert without_chance([json.loads(body) for body in bodies]) == without_chance(api.events())
    assert len(bodies) > 12


def test_every_operation_has_its_verb(code):
    """All but the two that are about the key itself, so a new resource is here by itself."""
    result = resources_of(code.app)

    def verbs(noun: Resource) -> int:
        return sum(verbs(part) if isinstance(part, Resource) else 1 for part in vars(noun).values())

    operations = [
        rule.rule
        for rule in code.app.url_map.iter_rules()
        if hasattr(code.app.view_functions[rule.endpoint], "operation")
    ]
    assert sum(map(verbs, result.values())) == len(operations) - 2
    assert f"{PREFIX}/users/me" in operations and not hasattr(code.users, "me")
    assert (
        code.leads.create.__doc__.splitlines()[0] == "Create a lead from a website form or by hand."
    )


def test_the_number_of_ids_is_checked(acme):
    with pytest.raises(TypeError, match=r"get\(\) takes id, got 0 ids"):
        acme.leads.get()
    with pytest.raises(TypeError, match=r"create\(\) takes no id, got 1 ids"):
        acme.leads.create("Марія")


# Values


def test_values_of_python_are_taken(acme):
    lead = acme.leads.create(**MARIIA, amount=Decimal("12.50"), tags=("a", "b"))
    assert (lead["amount"], lead["tags"]) == (Decimal("12.5"), ["a", "b"])
    due = datetime(2026, 3, 5, 12, 30, tzinfo=UTC)
    task = acme.tasks.create(title="Дзвінок", due_at=due, lead_id=int(lead["id"]))
    assert (task["due_at"], task["lead_id"]) == ("2026-03-05T12:30:00Z", lead["id"])
    deal = acme.deals.create(title="A", expected_close_date=date(2026, 4, 1))
    assert deal["expected_close_date"] == "2026-04-01"
    assert len(acme.tasks.list(due_before=datetime(2026, 3, 6, tzinfo=UTC)).records) == 1
    assert acme.leads.list(created_since=None, ids=[1, 2]).records == [lead]


@pytest.mark.parametrize("value", [{1, 2}, object(), 1 << 70, "\ud800"])
def test_what_has_no_form_in_json_is_refused(acme, value):
    with pytest.raises(Malformed, match="a value has no form in JSON"):
        acme.leads.create(**MARIIA, extra={"a": value})


PRICES = "sku,name,price\r\nST-1,Стіл,1250.50\r\n,Без артикула,5\r\n".encode()


def test_fields_of_ones_own_are_made_set_and_filtered_by(acme):
    field = {"resource": "leads", "filtered": True}
    acme.fields.create(label="Budget", type="number", **field)
    until = acme.fields.create(label="Until", type="date", **field)
    custom = {"budget": Decimal("12.5"), "until": date(2026, 12, 1)}
    lead = acme.leads.create(**MARIIA, custom=custom)
    assert lead["custom"] == {"budget": Decimal("12.5"), "until": "2026-12-01"}
    filters = {"custom.until_to": date(2026, 12, 31), "sort": "-custom.budget"}
    assert acme.leads.list(**filters).records == [acme.leads.get(lead["id"])]
    assert acme.leads.update(lead["id"], custom={"budget": None})["custom"] == {
        "until": "2026-12-01"
    }
    acme.fields.retire(until["id"])
    assert [one["retired_at"] is None for one in acme.fields.list().records] == [True, False]
    with pytest.raises(Invalid, match="budget"):
        acme.leads.update(lead["id"], custom={"buget": 1})


def test_a_price_list_goes_in_and_out(acme):
    counts = {"status": "ok", "created": 1, "updated": 0, "skipped": 1}
    assert acme.products.import_csv(file=PRICES, dry_run=True) == counts
    assert acme.products.list().records == []
    assert acme.products.import_csv(file=PRICES) == counts
    whole = acme.products.export_csv(active=True)
    assert whole.decode().splitlines()[1:] == ["ST-1,Стіл,1250.50,,,,true"]
    assert acme.products.import_csv(file=whole)["skipped"] == 1
    excel = acme.products.export_csv(dialect="excel")
    assert acme.products.import_csv(file=excel, dialect="excel")["skipped"] == 1
    assert "Без артикула" in acme.imports.errors_csv(1).decode()
    assert acme.imports.get(1)["errors"]
    with pytest.raises(TypeError, match="given as bytes"):
        acme.products.import_csv(file="prices.csv")
    with pytest.raises(Invalid):
        acme.products.import_csv(file=b"nonsense")


# The tenant, and in whose name


def test_without_a_tenant_nothing_is_read_or_written_and_an_unknown_one_is_told(code):
    for act in (code.leads.list, lambda: code.leads.create(**MARIIA)):
        with pytest.raises(NoTenant):
            act()
    for label in ("nobody", "ACME", "_front", "../acme"):
        with pytest.raises(NotFound, match="there is no tenant"), code.tenant(label):
            raise AssertionError(label)


def test_the_only_tenant_need_not_be_named(furnished, tmp_path, code):
    one = CRM(tenant="globex", **settings_for(copied(furnished, tmp_path / "one")), sends=False)
    with one.tenant():
        assert [user["name"] for user in one.users.list().records] == ["Ivan"]
    with pytest.raises(TypeError, match="say which tenant is meant"), code.tenant():
        raise AssertionError


@pytest.mark.parametrize("user", [TARAS, str(TARAS), "050 111 00 02"])
def test_changes_are_in_the_name_of_the_user(code, user):
    with code.tenant("acme", user=user):
        assert code.leads.create(**MARIIA)["created_by"] == str(TARAS)
        assert code.tasks.create(title="a")["assigned_to"] == str(TARAS)
        code.leads.update(1, comment="a")
        assert code.leads.changes.list(1).records[0]["user_id"] == str(TARAS)
        assert code.tasks.list(assigned_to="me").records
    with code.tenant("acme"):
        assert code.leads.create(**MARIIA)["created_by"] is None


def test_a_visit_inside_another_gives_the_name_back(code):
    with code.tenant("acme", user=OLENA):
        with code.tenant("acme", user=TARAS):
            pass
        with code.tenant("acme"):
            assert code.leads.create(**MARIIA)["created_by"] == str(OLENA)
        with pytest.raises(NotFound), code.tenant("acme", user="nobody@acme.example"):
            raise AssertionError
        with code.tenant("globex"):
            assert code.leads.create(**MARIIA)["created_by"] is None
        assert code.leads.create(**MARIIA)["created_by"] == str(OLENA)
        assert len(code.leads.list().records) == 2


def test_a_tenant_is_made_with_its_owner(code):
    code.create_tenant("nova", name="Нова", currency="EUR", owner={"name": "Ніна"})
    with code.tenant("nova", user=1):
        assert code.leads.create(**MARIIA)["currency"] == "EUR"
        assert [user["name"] for user in code.users.list().records] == ["Ніна"]
    with pytest.raises(Conflict, match="is taken"):
        code.create_tenant("nova")


def test_the_same_label_of_another_crm_is_another_tenant(acme, furnished, tmp_path):
    other = CRM(**settings_for(copied(furnished, tmp_path / "other")), sends=False)
    with other.tenant("acme"):
        other.leads.create(**MARIIA)
    assert acme.leads.list().records == []
    with (
        pytest.raises(NoTenant, match="a session of another tenant cannot begin"),
        acme.transaction(),
        other.tenant("acme"),
    ):
        raise AssertionError
    other.app.tenants.forget_idle()


# Transactions


def test_several_calls_are_one_transaction(acme):
    with pytest.raises(ZeroDivisionError), acme.transaction():
        acme.leads.create(**MARIIA)
        acme.deals.create(title="A")
        _ = 1 / 0
    assert acme.leads.list().records == [] == acme.events.list()["data"]
    with acme.transaction():
        lead = acme.leads.create(**MARIIA)
        acme.leads.convert(lead["id"])
    assert len(acme.events.list()["data"]) == 4


def test_a_verb_that_fails_halfway_leaves_nothing_to_who_goes_on(acme):
    """A conversion makes its client before it finds that the stage is another pipeline's."""
    with acme.transaction():
        lead = acme.leads.create(**MARIIA)
        with pytest.raises(Invalid):
            acme.leads.convert(lead["id"], stage_id="99")
        acme.leads.update(lead["id"], comment="went on")
    assert acme.clients.list().records == []
    assert [event["type"] for event in acme.events.list()["data"]] == ["lead.created"]
    assert acme.leads.get(1)["comment"] == "went on"


# Where it is used


def test_tests_of_a_program_have_a_new_tenant_whatever_the_environment_says(request, monkeypatch):
    monkeypatch.setenv("CRM_DATABASE", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv("CRM_TENANT", "acme")
    tenant = request.getfixturevalue("crm_tenant")
    assert tenant.leads.list().records == []
    lead = tenant.leads.create(**MARIIA)
    assert tenant.tasks.create(title="Call")["assigned_to"] == lead["created_by"] == "1"


def test_in_a_view_of_the_site_its_own_context_stays(tmp_path, furnished):
    site = plain(tmp_path)
    crm = CRM(site, url_prefix="/crm", tenant="acme", sends=False,
              **settings_for(copied(furnished, tmp_path / "d")))  # fmt: skip

    @site.post("/ask")
    def ask() -> dict[str, Any]:
        g.mine = "the site's"
        with crm.tenant("acme"):
            lead = crm.leads.create(name=request.form["name"], phone=request.form["phone"])
            crm.leads.convert(lead["id"])
        assert (g.mine, current_app.name, request.path) == ("the site's", "site", "/ask")
        assert "caller" not in g
        return {"id": lead["id"]}

    answer = site.test_client().post("/ask", data=MARIIA)
    assert answer.json == {"id": "1"}
    key = {"Authorization": f"Bearer {furnished[1]['olena']}"}
    assert send_request(site, path="/crm/api/v1/leads/1", headers=key).json["status"] == "converted"
    crm.app.tenants.forget_idle()


FORKING = """
import os
from crm import CRM
crm = CRM(data="d", tenant="acme", sends=False)
with crm.tenant():
    crm.leads.create(name="before", email="a@a.example")
come, go = os.pipe()
child = os.fork()
if not child:
    os.read(come, 1)
    with crm.tenant():
        crm.leads.create(name="by the child", email="b@a.example")
    os._exit(0)
crm.close()  # of its last connection: the log goes back into the file
os.write(go, b"1")
assert os.waitpid(child, 0)[1] == 0
with crm.tenant():
    print([lead["name"] for lead in reversed(crm.leads.list().records)])
"""


@pytest.mark.process
def test_what_is_written_after_a_fork_stays(furnished, tmp_path):
    copied(furnished, tmp_path / "d")
    ran = run(FORKING, tmp_path)
    assert (ran.stdout, ran.returncode) == ("['before', 'by the child']\n", 0), ran.stderr


# Files and papers


def test_files_of_leads_are_those_of_a_lead_and_not_of_a_website_form(acme) -> None:
    lead = acme.leads.create(name="Олена", phone="+380671234567")["id"]
    file = acme.leads.files.create(lead, file=("Ескіз.pdf", b"sketch"))
    assert [one["id"] for one in acme.leads.files.list(lead).records] == [file["id"]]


@pytest.mark.process
def test_files_and_papers_also_inside_a_transaction(acme) -> None:
    deal = acme.deals.create(title="Крісла", amount=100)["id"]
    with acme.transaction():
        file = acme.deals.files.create(deal, file=("Ескіз.pdf", b"sketch"))
        paper = acme.deals.papers.create(deal, kind="offer")
    assert (file["name"], file["size"]) == ("Ескіз.pdf", 6)
    assert acme.files.get(file["id"]) == b"sketch"
    assert [one["id"] for one in acme.deals.files.list(deal).records] == [file["id"]]
    assert acme.papers.pdf(paper["id"]).startswith(b"%PDF")
    assert acme.papers.get(paper["id"])["sha256"] is not None
    link = acme.papers.links.create(paper["id"])
    assert "/p/" in link["url"]
    assert b"1/2026,offer" in acme.papers.export_csv(kind="offer")
