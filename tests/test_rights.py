"""Every operation of the URL map × every kind of key (spec: Authentication; D12, D14)."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import OLENA, TARAS, Api, key_for

from crm import create_app
from crm.access import api_keys, rights
from crm.config import Config
from crm.resources.users import User
from crm.tenancy.database import transaction

PREFIX = "/api/v1"
PUBLIC = {
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/docs",
    f"{PREFIX}/docs/",
    f"{PREFIX}/docs/start.js",
    f"{PREFIX}/docs/<name>",
}
# Whatever the scopes, they are asked for what each body or parameter needs, which their own tests
# cover; here the operation itself needs none.
NEEDS_NONE = {"GET /users/me", "GET /events"}

APP = create_app(Config(data=Path("unused")))
VIEWS = {
    f"{method} {rule.rule.removeprefix(PREFIX)}": APP.view_functions[rule.endpoint]
    for rule in APP.url_map.iter_rules()
    if rule.rule not in PUBLIC
    for method in sorted(rule.methods - {"HEAD", "OPTIONS"})
}
OPERATIONS = {name: getattr(view, "operation", None) for name, view in VIEWS.items()}
each_operation = pytest.mark.parametrize("name", OPERATIONS)
NOBODYS_IDS = "999"


def ask(api: Api, name: str, key: str | None = None, **headers: str) -> Any:
    """One request of an operation, with ids that nobody has and an empty body."""
    method, _, rule = name.partition(" ")
    api.client.environ_base["REMOTE_ADDR"] = "127.0.0.1"
    sent = {"Authorization": f"Bearer {api.key if key is None else key}"} | headers
    sent = {name: value for name, value in sent.items() if value is not None}
    body = {} if method in ("POST", "PUT", "PATCH") and rule != "/products/import" else None
    return api.call(method, re.sub(r"<\w+>", NOBODYS_IDS, rule), headers=sent, json=body)


def needs(name: str) -> tuple[str, ...]:
    return OPERATIONS[name].needs


# The map


def test_the_map_holds_every_operation_of_the_specification_and_more():
    assert len(OPERATIONS) >= 32


def test_no_view_under_the_prefix_is_without_an_operation():
    assert [name for name, operation in OPERATIONS.items() if operation is None] == []


def test_public_is_only_what_is_listed_here():
    public = {
        rule.rule
        for rule in APP.url_map.iter_rules()
        if getattr(APP.view_functions[rule.endpoint], "public", False)
    }
    assert public == PUBLIC


def test_everything_else_needs_known_scopes():
    without = {name for name in OPERATIONS if not needs(name)}
    assert without == NEEDS_NONE
    assert {scope for name in OPERATIONS for scope in needs(name)} <= rights.SCOPES


def test_reading_needs_a_right_to_read_and_changing_one_to_change():
    for name in set(OPERATIONS) - NEEDS_NONE:
        wanted = {"read"} if name.startswith("GET ") else {"write", "create"}
        assert {scope.partition(":")[2] for scope in needs(name)} <= wanted, name


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/", "/docs/start.js"])
@pytest.mark.parametrize("key", [None, "crm_bad"])
def test_public_paths_need_no_key_and_mind_none(api, path, key):
    headers = {"Authorization": key and f"Bearer {key}"}
    answer = api.client.get(
        PREFIX + path, headers={"Host": "acme.localhost"} | (headers if key else {})
    )
    assert answer.status_code == 200
    assert "X-RateLimit-Limit" not in answer.headers


# Keys that are no keys


@pytest.fixture
def bad_keys(crm, api, furnished) -> dict[str, dict[str, str | None]]:
    """The headers of each kind of request without a good key."""
    revoked = key_for(crm, "acme", "*")
    expired = key_for(crm, "acme", "*", expires_at="2026-03-02T09:00:00Z")
    deactivated = key_for(crm, "acme", "*", TARAS)
    with crm.tenants.visit("acme"):
        next(key for key in api_keys.every() if key.id == 5).revoke()
        with transaction():
            User.find(TARAS).change({"active": 0})
    good = api.key
    typo = good[:-1] + ("0" if good[-1] != "0" else "1")
    values = {
        "none": None,
        "empty": "",
        "another scheme": f"Basic {good}",
        "no scheme": good,
        "malformed": "Bearer crm_x",
        "a typo": f"Bearer {typo}",
        "not ASCII": "Bearer ключ",
        "unknown": f"Bearer {api_keys.new_key()}",
        "revoked": f"Bearer {revoked}",
        "expired": f"Bearer {expired}",
        "of a deactivated user": f"Bearer {deactivated}",
        "another tenant's": f"Bearer {furnished[1]['ivan']}",
    }
    return {kind: {"Authorization": value} for kind, value in values.items()}


@each_operation
def test_a_request_without_a_good_key_is_401_always_with_the_same_body(api, bad_keys, name):
    bodies = set()
    for number, (kind, headers) in enumerate(bad_keys.items()):
        if headers["Authorization"] is None:
            api.key, headers = "", {"Authorization": ""}
        answer = ask(api, name, **headers)
        assert answer.status_code == 401, (kind, answer.text)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.mimetype == "application/problem+json"
        assert "X-RateLimit-Limit" not in answer.headers
        body = dict(answer.json)
        body.pop("request_id")
        bodies.add(tuple(body.items()))
        assert number < 30  # bad keys from one address are limited beyond that
    ((*_, code),) = bodies
    assert code == ("code", "invalid_key")


# Keys with other rights


def keys_lacking(crm: Any, scope: str) -> str:
    """A key with every scope but that one, and those that include it."""
    held = rights.SCOPES - {scope, rights.EVERYTHING}
    if scope == rights.FORM:
        held -= {"leads:write"}
    return key_for(crm, "acme", ",".join(sorted(held)))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NEEDS_NONE])
def test_every_scope_but_the_needed_one_is_403_and_names_it(crm, api, name):
    for scope in needs(name):
        answer = ask(api, name, keys_lacking(crm, scope))
        assert answer.status_code == 403, answer.text
        assert (answer.json["code"], answer.json["scope"]) == ("missing_scope", scope)
        assert scope in answer.json["detail"]
        assert "X-RateLimit-Limit" in answer.headers


@each_operation
def test_the_needed_scopes_alone_are_enough(crm, api, name):
    scopes = ",".join(needs(name)) or "leads:read"
    answer = ask(api, name, key_for(crm, "acme", scopes))
    assert answer.status_code not in (401, 403), answer.text
    assert answer.status_code < 500
    assert answer.mimetype in ("application/json", "application/problem+json", "text/csv")


@each_operation
def test_all_scopes_are_enough(api, name):
    assert ask(api, name).status_code in (200, 404, 422, 415)


@pytest.mark.parametrize(
    "name", [name for name in OPERATIONS if name not in NEEDS_NONE | {"POST /leads"}]
)
def test_a_forms_key_may_create_leads_and_nothing_else(form, name):
    answer = ask(form, name)
    assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")


def test_a_forms_key_sees_no_events(form):
    assert ask(form, "GET /events").status_code == 403


def test_writing_does_not_imply_reading(crm, api):
    for noun in rights.RESOURCES:
        key = key_for(crm, "acme", f"{noun}:write")
        for name in (name for name in OPERATIONS if needs(name) == (f"{noun}:read",)):
            assert ask(api, name, key).json["code"] == "missing_scope"


def test_a_viewers_key_has_the_rights_of_its_scopes(crm, api):
    with crm.tenants.visit("acme"), transaction():
        User.find(TARAS).change({"role": "viewer"})
    key = key_for(crm, "acme", "leads:create,leads:write", TARAS)
    assert api.post("/leads", {"name": "М", "email": "m@example.com"}, headers=bearer(key)).json[
        "lead_id"
    ]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_key_ends_with_its_user_and_comes_back_with_them(crm, api, taras):
    assert taras.get("/users/me").json["id"] == str(TARAS)
    for active, status in ((0, 401), (1, 200)):
        with crm.tenants.visit("acme"), transaction():
            User.find(TARAS).change({"active": active})
        assert taras.get("/users/me").status_code == status
    assert api.get("/users/me").json["id"] == str(OLENA)


# Another tenant's records


@pytest.fixture
def acmes_ids(api) -> dict[str, str]:
    """The ids of one record of each noun at acme; none of them is there at globex."""
    for _ in range(3):  # so that ids differ from globex's own
        api.create("/pipelines", name="Опт")
    client = api.create("/clients", name="ТОВ Ромашка", contacts=[{"name": "Олена"}])
    deal = api.create("/deals", client_id=client)
    product = api.create("/products", sku="CH-1", name="Крісло", price=1)
    pipeline = api.create("/pipelines", name="Роздріб")
    sent = {"file": (_file(b"sku,name,price\nCH-2,,\n"), "list.csv")}
    answer = api.call("POST", "/products/import", data=sent)
    found = {
        "leads": api.create("/leads", name="Марія", email="maria@example.com"),
        "clients": client,
        "contactId": api.read(f"/clients/{client}")["contacts"][0]["id"],
        "deals": deal,
        "itemId": api.create(f"/deals/{deal}/items", product_id=product),
        "products": product,
        "tasks": api.create("/tasks", title="Зателефонувати"),
        "pipelines": pipeline,
        "stageId": api.read(f"/pipelines/{pipeline}/stages")[0]["id"],
        "imports": answer.headers["Location"].rpartition("/")[2],
    }
    for plural in ("leads", "clients", "deals"):
        found[f"{plural}/noteId"] = api.create(f"/{plural}/{found[plural]}/notes", text="!")
    return found


def _file(data: bytes) -> Any:
    import io

    return io.BytesIO(data)


WITH_IDS = [name for name in OPERATIONS if "<" in name]


def path_of(name: str, ids: dict[str, str]) -> str:
    rule = name.partition(" ")[2]
    plural = rule.split("/")[1]
    own = {"id": ids[plural], "noteId": ids.get(f"{plural}/noteId", "")}
    return re.sub(r"<(\w+)>", lambda found: {**ids, **own}[found[1]], rule)


@pytest.mark.parametrize("name", WITH_IDS)
def test_another_tenants_ids_are_404(api, ivan, acmes_ids, name):
    method = name.partition(" ")[0]
    path = path_of(name, acmes_ids)
    body = VALID.get(name, {}) if method in ("POST", "PUT", "PATCH") else None
    answer = ivan.call(method, path, json=body)
    assert (answer.status_code, answer.json["code"]) == (404, "not_found"), answer.text
    if method == "GET":
        assert api.get(path).status_code == 200


VALID = {
    "POST /clients/<id>/contacts": {"name": "Олена"},
    "POST /deals/<id>/items": {"name": "Доставка", "price": 1},
    "PUT /deals/<id>/items": {"items": []},
    "POST /pipelines/<id>/stages": {"name": "Запит"},
    "POST /leads/<id>/notes": {"text": "!"},
    "POST /clients/<id>/notes": {"text": "!"},
    "POST /deals/<id>/notes": {"text": "!"},
}


def test_another_tenants_ids_in_a_body_are_unknown(ivan, acmes_ids):
    bodies = [
        ("/deals", {"client_id": acmes_ids["clients"]}),
        ("/deals", {"pipeline_id": acmes_ids["pipelines"]}),
        ("/deals", {"stage_id": acmes_ids["stageId"]}),
        ("/deals", {"lead_id": acmes_ids["leads"]}),
        ("/tasks", {"title": "!", "deal_id": acmes_ids["deals"]}),
        ("/tasks", {"title": "!", "lead_id": acmes_ids["leads"]}),
    ]
    for path, body in bodies:
        answer = ivan.post(path, body)
        assert (answer.status_code, answer.json["errors"][0]["code"]) == (422, "unknown_id")


def test_another_tenants_ids_in_a_filter_match_nothing(ivan, acmes_ids):
    own = ivan.create("/deals", title="Власна")
    assert [deal["id"] for deal in ivan.read("/deals")] == [own]
    assert ivan.read(f"/deals?stage_id={acmes_ids['stageId']}") == []
    assert ivan.read(f"/deals?client_id={acmes_ids['clients']}") == []
    assert ivan.read(f"/leads?ids={acmes_ids['leads']}") == []
