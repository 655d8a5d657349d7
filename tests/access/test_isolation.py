"""Nobody reaches another tenant's data: every operation of the OpenAPI document, by every kind of
key, with ids of its own tenant, of another one, and of nobody.

Globex is a copy of acme, so that both have the same ids; its texts carry MARKER, and it has records
with ids from FOREIGN on that acme lacks. Whoever asks at acme must never read MARKER, must not be
able to tell a foreign id from one that nobody has, and must leave globex's file as it was.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.access import api_keys, rights
from crm.config import PLANS
from crm.resources import AUDITED_VIEWS, BLUEPRINTS, tenant, users
from crm.resources.leads import record as leads
from crm.storage.dialect import quoted
from crm.storage.session import execute, execute_many, now, rows, transaction
from tests.api_document import DOCUMENT, OPERATIONS
from tests.cases import loop_over
from tests.conftest import Clock, key_for, serve_installation
from tests.full_tenant import START, Caller, fill_tenant
from tests.installations import config_for, copy_installation
from tests.other_resources import bodies_of_others
from tests.tables import Tables, read_records, read_rows, read_tables, start_ids_after

pytestmark = pytest.mark.slow

MARKER = "GLOBEX"
FOREIGN, NOBODY = 900_000, 987_654_321
UNLIMITED = dict.fromkeys(PLANS, 0)
TABLES = {  # the table of the first id in a path, by the path's first part
    rule.strip("/").partition("/")[0]: view.table
    for blueprint in BLUEPRINTS
    for rule, view in blueprint.views.items()
    if rule.count("/") == 2
} | {"files": "file"}
MARKED_COLUMNS = ("name", "comment", "title", "description", "text", "file_name", "client_name")
PARTS = {  # the table of a second id, and the column that names the record it belongs to
    "itemId": ("deal_item", "deal_id"),
    "contactId": ("contact", "client_id"),
    "stageId": ("stage", "pipeline_id"),
    "noteId": ("note", "record_id"),
    "fileId": ("file", "record_id"),
    "linkId": ("paper_link", "paper_id"),
}
# Fields of bodies that name other records, and the tables of those.
REFERENCES = {
    "client_id": "client", "contact_id": "contact", "lead_id": "lead", "deal_id": "deal",
    "pipeline_id": "pipeline", "stage_id": "stage", "product_id": "product",
    "assigned_to": "user", "manager": "user", "move_to": "stage",
}  # fmt: skip
REFUSED = ("of another tenant", "none")  # those that ended: test_rights.py
each_operation = pytest.mark.parametrize("name", OPERATIONS)


@pytest.fixture(scope="module")
def two_tenants(tmp_path_factory, no_typst) -> tuple[Path, float, str, Tables]:
    """A data folder with acme and globex, the moment at which they were finished, a key of globex,
    and all that globex has."""
    data, clock = tmp_path_factory.mktemp("isolation") / "data", Clock(START)
    crm = create_app(config_for(data, plans=UNLIMITED), clock, sends=False)
    fill_tenant(crm, clock)
    tenant.clone(crm.tenants, "acme", "globex", f"{MARKER} Ltd")
    key = key_for(crm, "globex", "*")
    crm.tenants.forget_idle()
    start_ids_after(crm.tenants, "globex", FOREIGN)
    add_foreign(Caller(crm, key, "globex"))
    with crm.tenants.session("globex"):
        users.create({"name": MARKER})
    mark(crm, "globex")
    before = tables_of(crm, "globex")
    crm.tenants.forget_idle()
    return data, clock.moment, key, before


def mark(app: CRMApp, label: str) -> None:
    """Put MARKER into the texts of a tenant's records."""
    columns = [
        (table, column)
        for table, records in read_records(app.tenants, label).items()
        if records and table != "tenant"
        for column in records[0]
        if column in MARKED_COLUMNS
    ]
    assert len(columns) > 20
    with app.tenants.session(label, sweeps_expired=False), transaction():
        mark_columns(columns)


def mark_columns(columns: list[tuple[str, str]]) -> None:
    for table, column in columns:
        execute(f"UPDATE {quoted(table)} SET {column} = '{MARKER} ' || coalesce({column}, '')")
    for table, column in (
        ("event", "data"), ("event", "previous"),
        ("audit_entry", "before"), ("audit_entry", "after"),
    ):  # fmt: skip
        texts = {text for (text,) in rows(f"SELECT {column} FROM {table}") if text}
        marked = [(text.replace('":"', f'":"{MARKER} '), text) for text in texts]
        execute_many(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", marked)


FILLED = (
    *("leads", "clients", "deals", "products", "tasks", "pipelines", "webhooks", "inbound-hooks"),
)


def add_foreign(globex: Caller) -> None:
    """Records of globex with ids that acme lacks, one of each kind."""
    client = globex.add("/clients", name=MARKER, contacts=[{"name": MARKER}])
    lead = globex.add("/leads", name=MARKER, phone="+380671234567")
    deal = globex.add("/deals", client_id=client, title=MARKER)
    product = globex.add("/products", sku=MARKER, name=MARKER, price=1)
    globex.add(f"/deals/{deal}/items", product_id=product)
    task = globex.add("/tasks", title=MARKER, lead_id=lead)
    files = {"leads": lead, "clients": client, "deals": deal, "products": product, "tasks": task}
    for plural, id in files.items():
        globex.add_file(f"/{plural}/{id}", f"{MARKER}.txt", MARKER.encode())
    paper = globex.add(f"/deals/{deal}/papers", kind="invoice")
    globex.add(f"/papers/{paper}/links")
    globex.add("/pipelines", name=MARKER)
    for path in (f"/leads/{lead}", f"/clients/{client}", f"/deals/{deal}"):
        globex.add(f"{path}/notes", text=MARKER)
    webhook = globex.add("/webhooks", url="https://erp.example.com/crm", events=["lead.created"])
    globex.do("POST", f"/webhooks/{webhook}/test")
    globex.add("/proposals", resource="leads", ids=[lead], set={"comment": MARKER}, why=MARKER)
    hook = globex.add("/inbound-hooks", name=MARKER, target="lead", mapping={"who": "name"})
    path = globex.do("GET", f"/inbound-hooks/{hook}")["url"].partition("/in/")[2]
    sent = {"headers": {"Host": globex.sent["Host"]}, "json": {"who": MARKER}}
    assert globex.client.post(f"/in/{path}", **sent).status_code == 200
    for plural, body in bodies_of_others(globex.client.application, FILLED).items():
        globex.add(f"/{plural}", **body)
    file = (io.BytesIO(f"sku,name,price\n{MARKER} 2,,\n".encode()), "list.csv")
    globex.do("POST", "/products/import", data={"file": file})


@pytest.fixture(scope="module")
def wired_copy(two_tenants) -> CRMApp:
    return create_app(config_for(two_tenants[0], plans=UNLIMITED), Clock(), sends=False)


@pytest.fixture
def crm_copy(wired_copy, two_tenants, tmp_path) -> Iterator[CRMApp]:
    """The app with both tenants, fresh for each operation."""
    copy_installation(two_tenants[0], tmp_path / "data")
    config = config_for(tmp_path / "data", plans=UNLIMITED)
    serve_installation(wired_copy, config, Clock(two_tenants[1]))
    yield wired_copy
    wired_copy.tenants.forget_idle()


def tables_of(app: CRMApp, label: str) -> Tables:
    """All that a tenant has but the time at which its keys were used."""
    tables = read_tables(app.tenants, label)
    for key in tables["api_key"]:
        del key["last_used_at"]
    return tables


def keys_for(app: CRMApp, needs: tuple[str, ...], globex: str) -> dict[str, str | None]:
    """A key of acme of every kind; `needs` are the scopes of the operation."""
    with app.tenants.session("acme"):

        def key(scopes: Any) -> str:
            return api_keys.create("tests", ",".join(scopes), 1)[1]

        others = {*rights.SCOPES} - {*needs, rights.ALL_SCOPES, rights.FORM_SCOPE}
        if rights.FORM_SCOPE in needs:
            others -= {"leads:write"}
        return {
            "everything": key(["*"]),
            "needed": key(needs or ["leads:read"]),
            "others": key(sorted(others)),
            "form": key(["leads:create"]),
            "of another tenant": globex,
            "none": None,
        }


def ids_of(app: CRMApp, name: str) -> dict[str, dict[str, str]]:
    """Ids for the path of an operation: own ones of acme, foreign ones of globex, nobody's."""
    path = name.partition(" ")[2]
    parameters = re.findall(r"{(\w+)}", path)
    results: dict[str, dict[str, str]] = {
        "nobody's": dict.fromkeys(parameters, str(NOBODY)),
        "own": {},
        "foreign": {},
    }
    if not parameters:
        return results
    table = TABLES[path.split("/")[1]]
    live = " AND deleted_at IS NULL" if path.split("/")[1] in AUDITED_VIEWS else ""
    for kind, label, least in (("own", "acme", 0), ("foreign", "globex", FOREIGN)):
        where = f"id > {least}{live}"
        if path.endswith("errors.csv"):
            where += " AND rejects IS NOT NULL"
        if len(parameters) > 1:
            part, column = PARTS[parameters[1]]
            of = f" AND noun = '{table}'" if part in ("note", "file") else ""
            of += " AND deleted_at IS NULL" if part == "file" else ""
            sql = (
                f"SELECT id, {column} FROM {part} WHERE id > {least}{of} AND {column} IN"
                f" (SELECT id FROM {table} WHERE {where}) LIMIT 1"
            )
            ((part_id, id),) = read_rows(app.tenants, label, sql)
            results[kind][parameters[1]] = str(part_id)
        else:
            sql = f"SELECT id FROM {table} WHERE {where} LIMIT 1"
            ((id,),) = read_rows(app.tenants, label, sql)
            if path.endswith("/restore"):
                column = "retired_at" if table == "custom_field" else "deleted_at"
                with app.tenants.session(label), transaction():
                    execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (now(), id))
        results[kind]["id"] = str(id)
    return results


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    """What a request of the operation sends: the document's example."""
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        return {"data": {"file": (io.BytesIO(b"sku,name,price\nA-1,A,1\n"), "a.csv")}}
    if "application/json" in content:
        return {"json": content["application/json"]["example"]}
    return {}


def comparable(answer: Any, ids: dict[str, str]) -> tuple[int, str]:
    """The status and the body without what names the request itself."""
    text = re.sub(r'"(request_id|instance)":"[^"]*"', "", answer.text)
    for id in ids.values():
        text = text.replace(id, "ID")
    return answer.status_code, text


@pytest.mark.slow
@each_operation
def test_no_key_reaches_another_tenant(crm_copy, two_tenants, name):
    method, _, path = name.partition(" ")
    operation = OPERATIONS[name]
    needs = tuple(re.findall(r"`([a-z*]+:?[a-z]*)`", operation.get("description", "")))
    needs = tuple(scope for scope in needs if scope in rights.SCOPES)
    keys = keys_for(crm_copy, needs, two_tenants[2])
    ids = ids_of(crm_copy, name)
    # To be restored, a record of globex was deleted.
    restored = path.endswith("/restore")
    before = tables_of(crm_copy, "globex") if restored else two_tenants[3]
    for kind, key in keys.items():
        results = {}
        for whose in ("nobody's", "foreign", "own"):
            caller = Caller(crm_copy, key or "", "acme")
            filled = path.format(**ids[whose]) if ids[whose] else path
            if "{" in path and not ids[whose]:
                continue
            headers = {} if key else {"Authorization": ""}
            answer = caller.ask(method, filled, headers=headers, **body_of(operation))
            assert MARKER not in answer.text, (kind, whose)
            assert answer.status_code < 500, answer.text
            results[whose] = comparable(answer, ids[whose])
        if kind == "everything":  # the ids are good ones: it is the tenant that refuses
            # That of forms takes none but a key of a form that takes files (test_forms.py).
            refused = (403,) if path == "/leads/files" else (409, 410, 422)
            assert results["own"][0] in (200, 201, 202, 204, *refused), results["own"]
        if "{" in path:
            assert results["foreign"] == results["nobody's"], kind
            assert results["foreign"][0] in (401, 403, 404), kind
        if kind in REFUSED:
            assert {status for status, _ in results.values()} == {401}, kind
    crm_copy.tenants.forget_idle()
    assert tables_of(crm_copy, "globex") == before


def references() -> Iterator[tuple[str, str]]:
    """Operations and the fields of their bodies that name other records."""
    for name, operation in OPERATIONS.items():
        content = operation.get("requestBody", {}).get("content", {})
        for schema in resolved(content.get("application/json", {}).get("schema", {})):
            for field in schema.get("properties", {}):
                if field in REFERENCES:
                    yield name, field


def resolved(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in schema:
        yield from resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for alternative in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from resolved(alternative)
    if "properties" in schema:
        yield schema


def own_path(app: CRMApp, name: str) -> str:
    path = name.partition(" ")[2]
    return path.format(**ids_of(app, name)["own"]) if "{" in path else path


@loop_over(("name", "field"), sorted(set(references())))
def test_a_foreign_id_in_a_body_is_as_unknown_as_nobodys(crm_copy, two_tenants, name, field):
    ((foreign,),) = read_rows(
        crm_copy.tenants, "globex", f"SELECT max(id) FROM {quoted(REFERENCES[field])}"
    )
    assert foreign > FOREIGN
    with crm_copy.tenants.session("acme"):
        key = api_keys.create("tests", "*", 1)[1]
        leads.choose_users_in_turn([])  # a lead without a user stays so
    method, path = name.partition(" ")[0], own_path(crm_copy, name)
    example = body_of(OPERATIONS[name])["json"]
    answers = []
    for id in (foreign, NOBODY):
        body = {**example, field: str(id)}
        answer = Caller(crm_copy, key).ask(method, path, body)
        assert MARKER not in answer.text
        if name == "POST /leads":  # a form loses no lead: what does not fit is kept in `extra` (D4)
            answer = Caller(crm_copy, key).ask("GET", f"/leads/{answer.json['lead_id']}")
            assert (answer.json[field], answer.json["extra"]) == (None, {field: str(id)})
        else:
            assert answer.status_code == 422
            answers.append(comparable(answer, {field: str(id)}))
    assert answers[:1] == answers[1:]
    assert tables_of(crm_copy, "globex") == two_tenants[3]


FILTERS = sorted(
    (name, parameter["name"])
    for name, operation in OPERATIONS.items()
    for parameter in operation.get("parameters", ())
    if parameter["in"] == "query" and parameter["name"] in {*REFERENCES, "ids"}
)


@loop_over(("name", "parameter"), FILTERS)
def test_a_foreign_id_in_a_filter_finds_nothing(crm_copy, name, parameter):
    key = key_for(crm_copy, "acme", "*")
    path, answers = own_path(crm_copy, name), []
    for id in (FOREIGN + 1, NOBODY):
        method = name.partition(" ")[0]
        answer = Caller(crm_copy, key).ask(method, f"{path}?{parameter}={id}")
        assert answer.status_code in ((200,) if method == "GET" else (409, 422))
        assert MARKER not in answer.text
        answers.append(comparable(answer, {parameter: str(id)}))
    assert answers[0] == answers[1]
