"""Every operation of the URL map × every kind of key (spec: Authentication; D12, D14)."""

import re
from pathlib import Path
from typing import Any

import pytest

from crm import CRMApp, create_app
from crm.access import api_keys, rights
from crm.config import Config
from crm.resources import users
from crm.storage.session import transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Api, key_for
from tests.raw_wsgi import WsgiResponse, send_request

PREFIX = "/api/v1"
MCP = f"{PREFIX}/mcp"  # another protocol: tests/api/test_mcp.py
PUBLIC = {
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/docs",
    f"{PREFIX}/docs/",
    f"{PREFIX}/docs/<name>",
    f"{PREFIX}/docs/guides/",
    f"{PREFIX}/docs/guides/<path:name>",
}
UNDO = "POST /batches/<id>/undo"  # needs the right to write what was changed
CANCEL = "POST /imports/<id>/cancel"
IMPORTS = {"GET /imports/<id>", "GET /imports/<id>/errors.csv", CANCEL}
BATCHES = {"GET /batches", "GET /batches/<id>", "GET /batches/<id>/kept.csv"}
FORM_FILES = "POST /leads/files"  # test_forms.py
PROPOSE = "POST /proposals"  # needs the rights to read and write what is to be changed
PROPOSALS = {"GET /proposals", "GET /proposals/<id>", PROPOSE}
# Any valid key may ask who it is; of the events each key gets those of the nouns it may read, and
# of the imports, the batches, the proposals and the trash those of them. An export link needs the
# right to its resource.
NEEDS_NONE = {
    "GET /users/me",
    "GET /events",
    "GET /trash",
    "GET /files/<id>",  # asks for that of the file's record
    "GET /duplicates",
    "POST /export-links",
    *IMPORTS,
    *BATCHES,
    *PROPOSALS,
    UNDO,
}

MAP = create_app(Config(data=Path("unused")), sends=False)
OPERATIONS = {
    f"{method} {rule.rule.removeprefix(PREFIX)}": getattr(
        MAP.view_functions[rule.endpoint], "operation", None
    )
    for rule in MAP.url_map.iter_rules()
    if rule.rule.startswith(PREFIX)
    and rule.rule not in {*PUBLIC, MCP}  # pages: test_cabinet_roles.py
    for method in sorted(rule.methods - {"HEAD", "OPTIONS"})
}
NEEDY = [name for name in OPERATIONS if name not in NEEDS_NONE]
BODIES = {
    "POST /clients/<id>/merge": b'{"from_id": "1"}',
    "POST /leads/<id>/merge": b'{"from_id": "1"}',
    "POST /clients/<id>/contacts": b'{"name": "!"}',
    "POST /deals/<id>/items": b'{"name": "!", "price": 1}',
    "PUT /deals/<id>/items": b'{"items": []}',
    "POST /pipelines/<id>/stages": b'{"name": "!"}',
    "POST /leads/<id>/notes": b'{"text": "!"}',
    "POST /clients/<id>/notes": b'{"text": "!"}',
    "POST /deals/<id>/notes": b'{"text": "!"}',
    "POST /export-links": b'{"resource": "leads"}',
    "POST /webhooks/<id>/recover": b'{"since": "2026-01-01T00:00:00Z"}',
}
each_operation = loop_over("name", OPERATIONS)


@pytest.fixture(scope="module")
def owner(module_app, furnished) -> Api:
    """Olena's key, which may do everything at acme."""
    return Api(module_app, "acme", furnished[1]["olena"])


def ask(
    app: CRMApp, name: str, authorization: str | None, ids: Any = None, **more: Any
) -> WsgiResponse:
    """One request of an operation, by default with ids that nobody has."""
    method, _, rule = name.partition(" ")
    path = re.sub(r"<(\w+)>", lambda found: ids[found[1]] if ids else "999", rule)
    headers = {} if authorization is None else {"Authorization": authorization}
    body = BODIES.get(name, b"{}") if method in ("POST", "PUT", "PATCH") else b""
    if body:
        headers["Content-Type"] = "application/json"
    return send_request(app, method, PREFIX + path, headers, body, **more)


def key_with(app: CRMApp, *scopes: str, **more: Any) -> str:
    return f"Bearer {key_for(app, 'acme', ','.join(scopes), **more)}"


# The map


def test_no_view_is_without_an_operation():
    assert [name for name, operation in OPERATIONS.items() if operation is None] == []


def test_public_is_only_what_is_listed_here():
    public = {
        rule.rule
        for rule in MAP.url_map.iter_rules()
        if getattr(MAP.view_functions[rule.endpoint], "public", False)
    }
    assert public == PUBLIC


def test_everything_else_needs_scopes_that_there_are():
    assert {name for name, operation in OPERATIONS.items() if not operation.needs} == NEEDS_NONE
    needed = {scope for operation in OPERATIONS.values() for scope in operation.needs}
    assert needed <= {*rights.SCOPES}


def test_reading_needs_a_right_to_read_and_changing_one_to_change():
    for name in NEEDY:
        wanted = {"read"} if name.startswith("GET ") else {"write", "create"}
        assert {scope.partition(":")[2] for scope in OPERATIONS[name].needs} <= wanted, name


@pytest.mark.parametrize(
    "path",
    [
        *("/openapi.json", "/docs", "/docs/", "/docs/start.js"),
        *("/docs/guides", "/docs/guides/", "/docs/guides/api.md"),
    ],
)
@pytest.mark.parametrize("authorization", [None, "Bearer crm_bad"])
def test_public_paths_need_no_key_mind_none_and_are_not_counted(module_app, path, authorization):
    answer = ask(module_app, f"GET {path}", authorization)
    assert answer.status == 200
    assert "X-RateLimit-Limit" not in answer.headers


# Keys that are no good


@pytest.fixture(scope="module")
def bad_keys(module_app, furnished) -> dict[str, str | None]:
    """What may stand in `Authorization` without being a good key."""
    with module_app.tenants.session("acme"):
        id, revoked = api_keys.create("tests", "*", OLENA)
        api_keys.find(id).revoke()
        left = users.create({"name": "Богдан"})
        deactivated = api_keys.create("tests", "*", left.id)[1]
        with transaction():
            users.update(left.id, {"active": 0})
    return {
        "none": None,  # further ways to write none: test_api_keys.py
        "unknown": f"Bearer {api_keys.generate_key()}",
        "revoked": f"Bearer {revoked}",
        "expired": key_with(module_app, "*", expires_at=AT_ONCE),
        "of a deactivated user": f"Bearer {deactivated}",
        "another tenant's": f"Bearer {furnished[1]['ivan']}",
    }


AT_ONCE = "2026-03-02T09:00:00Z"  # the clock's own moment


@each_operation
def test_without_a_good_key_it_is_401_always_with_the_same_body(module_app, bad_keys, name):
    address = f"10.0.0.{list(OPERATIONS).index(name)}"  # each address has 30 bad tries a minute
    bodies = set()
    for kind, authorization in bad_keys.items():
        answer = ask(module_app, name, authorization, REMOTE_ADDR=address)
        assert answer.status == 401, kind
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert "X-RateLimit-Limit" not in answer.headers
        body = answer.json
        assert body.pop("request_id") == answer.headers["X-Request-Id"]
        assert body["code"] == "invalid_key"
        bodies.add(str(body))
    assert len(bodies) == 1


# Keys with other rights


@loop_over("name", NEEDY)
def test_every_scope_but_the_needed_one_is_403_and_names_it(module_app, name):
    for scope in OPERATIONS[name].needs:
        including = {scope, rights.ALL_SCOPES} | (
            {"leads:write"} if scope == rights.FORM_SCOPE else set()
        )
        answer = ask(module_app, name, key_with(module_app, *{*rights.SCOPES} - including))
        assert answer.status == 403
        assert (answer.json["code"], answer.json["scope"]) == ("missing_scope", scope)
        assert scope in answer.json["detail"]
        assert int(answer.headers["X-RateLimit-Remaining"]) >= 0


@each_operation
def test_the_needed_scopes_alone_are_enough(module_app, name):
    needed = OPERATIONS[name].needs or ["leads:read", "leads:write"]
    answer = ask(module_app, name, key_with(module_app, *needed))
    refused = {FORM_FILES: 403}  # the key must be that of a form that takes files
    assert answer.status in (200, 201, 404, 415, 422, refused.get(name)), answer.body


@loop_over("name", sorted({*OPERATIONS} - {"POST /leads", "GET /users/me", PROPOSE, FORM_FILES}))
def test_a_forms_key_may_create_leads_and_nothing_else(module_app, furnished, name):
    answer = ask(module_app, name, f"Bearer {furnished[1]['form']}")
    assert (answer.status, answer.json["code"]) == (403, "missing_scope")


def test_a_key_ends_with_its_user_for_good(crm, taras):
    for active, status in ((1, 200), (0, 401), (1, 401)):
        with crm.tenants.session("acme"), transaction():
            users.update(TARAS, {"active": active})
        assert taras.get("/users/me").status_code == status


def test_a_keys_rights_are_its_scopes_whatever_the_role(crm, taras):
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"role": "viewer"})
    taras.create("/tasks", title="Зателефонувати")
