"""MCP: the tools of assistants, as the protocol has them and as the API's own rules bound them."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from crm import CRMApp
from crm.access import api_keys
from crm.api.mcp import IN_META, STATELESS, VERSIONS
from crm.api.mcp_tools import DATA, TOOLS, ToolRunner
from crm.resources.main_resources import MAIN_RESOURCES
from crm.storage.session import row
from tests.cases import loop_over
from tests.concurrency import run_in_threads
from tests.conftest import TARAS, Api, key_for
from tests.server_process import run_server

ASSISTANT = ",".join(api_keys.ASSISTANT_SCOPES)
PHONE = "+380671234567"


def send(api: Api, method: str, params: Any = None, **options: Any) -> Any:
    """A request of JSON-RPC, as clients of the protocol of 2025-11-25 send it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return api.post("/mcp", message, **options)


def call(api: Api, tool: str, **arguments: Any) -> tuple[bool, Any]:
    """Call a tool: whether it was refused, and what it returned."""
    answer = send(api, "tools/call", {"name": tool, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    result = answer.json["result"]
    (content,) = result["content"]
    body = json.loads(content["text"])
    if not result["isError"]:
        assert body["about"] == DATA
    return result["isError"], body if result["isError"] else body["result"]


def do(api: Api, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed."""
    is_error, result = call(api, tool, **arguments)
    assert not is_error, result
    return result


def refused(api: Api, tool: str, **arguments: Any) -> Any:
    """Call a tool that must be refused; the problem."""
    is_error, problem = call(api, tool, **arguments)
    assert is_error, problem
    return problem


@pytest.fixture
def assistant(crm: CRMApp) -> Api:
    """A key of Taras with the rights of the preset."""
    return Api(crm, "acme", key_for(crm, "acme", ASSISTANT, TARAS))


@pytest.fixture
def lead(api: Api) -> str:
    return api.create("/leads", name="Марія", phone=PHONE)


# The official client, with the server as it is run


@pytest.mark.process
def test_the_official_client_works_in_both_modes(crm, furnished):
    key, foreign = key_for(crm, "acme", ASSISTANT), furnished[1]["ivan"]
    crm.tenants.forget_idle()

    async def work(port: int, mode: str) -> None:
        headers = {"Host": "acme.localhost", "Authorization": f"Bearer {key}"}
        url = f"http://127.0.0.1:{port}/api/v1/mcp"
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode) as client:
                assert client.protocol_version == (STATELESS if mode == "auto" else VERSIONS[1])
                tools = (await client.list_tools()).tools
                assert [tool.name for tool in tools] == [*TOOLS]
                await use_tools(client, mode)
        headers["Authorization"] = f"Bearer {foreign}"
        async with httpx2.AsyncClient(headers=headers) as http:
            with pytest.raises(BaseException) as raised:
                async with Client(streamable_http_client(url, http_client=http), mode=mode):
                    pass
            assert raised.value is not None

    async def use_tools(client: Client, mode: str) -> None:
        async def use(tool: str, **arguments: Any) -> tuple[bool | None, Any]:
            result = await client.call_tool(tool, arguments)
            return result.is_error, json.loads(result.content[0].text)

        fields = {"name": f"Марія {mode}", "phone": PHONE}
        new = {"resource": "leads", "fields": fields, "idempotency_key": mode}
        created = (await use("create", **new))[1]["result"]
        assert (await use("create", **new))[1]["result"] == created
        which = {"resource": "leads", "id": created["lead_id"]}
        found = (await use("find", resource="leads", q=mode))[1]["result"]
        assert [lead["id"] for lead in found["data"]] == [which["id"]]
        change = {"version": 1, "fields": {"comment": "Дзвонити зранку"}}
        assert (await use("update", **which, **change))[1]["result"]["version"] == 2
        is_error, problem = await use("update", **which, **change)
        assert is_error and problem["code"] == "precondition_failed"
        assert (await use("get", **which))[1]["result"]["comment"] == "Дзвонити зранку"
        is_error, problem = await use("get", resource="leads", id="987654321")
        assert is_error and problem["status"] == 404
        assert (await use("report"))[1]["result"]["today"]["new leads"] >= 1

    with run_server(crm.tenants.config.data) as port:
        for mode in ("legacy", "auto"):
            run_in_threads(1, lambda _, mode=mode: asyncio.run(work(port, mode)))


# The protocol


def test_the_list_of_tools_is_short_and_says_what_is_data(assistant):
    answer = send(assistant, "tools/list")
    assert len(answer.data) <= 6_000
    tools = {tool["name"]: tool for tool in answer.json["result"]["tools"]}
    assert sorted(tools) == sorted(
        ["describe", "find", "get", "create", "update", "note", "report", "propose"]
    )
    for tool in tools.values():
        assert tool["annotations"]["destructiveHint"] is False
        assert (DATA in tool["description"]) is tool["annotations"].get("readOnlyHint", False)
    assert "idempotency_key" in tools["create"]["inputSchema"]["required"]
    assert "version" in tools["update"]["inputSchema"]["required"]


@loop_over(
    ("wanted", "served"),
    [
        *((version, version) for version in VERSIONS[1:]),
        *((wrong, VERSIONS[1]) for wrong in (STATELESS, "1999-01-01", None, [])),
    ],
)
def test_older_clients_begin_by_a_handshake(assistant, wanted, served):
    result = send(assistant, "initialize", {"protocolVersion": wanted}).json["result"]
    assert result["protocolVersion"] == served
    assert result["capabilities"] == {"tools": {}} and DATA in result["instructions"]
    assert send(assistant, "ping").json["result"] == {}
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = assistant.post("/mcp", message)
    assert (answer.status_code, answer.data) == (202, b"")


# The keys of results, by the published schemas. Those of older protocols have had no others so far,
# and clients may refuse more: the SDK for TypeScript does for `ping`.
HANDSHAKE_KEYS = {
    "initialize": {"protocolVersion", "capabilities", "serverInfo", "instructions"},
    "ping": set(),
    "tools/list": {"tools"},
    "tools/call": {"content", "isError"},
}
STATELESS_KEYS = {
    "server/discover": {"supportedVersions", "capabilities", "instructions", "_meta"}
    | {"resultType", "ttlMs", "cacheScope"},
    "tools/list": {"tools", "resultType", "ttlMs", "cacheScope"},
    "tools/call": {"content", "isError", "resultType"},
}
TOOL_KEYS = {"name", "description", "inputSchema", "annotations"}


@loop_over("version", [None, *VERSIONS])
def test_a_result_has_the_keys_of_its_protocol_and_no_others(assistant, version):
    call = {"name": "report", "arguments": {}}
    for method, keys in (STATELESS_KEYS if version == STATELESS else HANDSHAKE_KEYS).items():
        params: dict[str, Any] = call if method == "tools/call" else {}
        headers = {"MCP-Protocol-Version": version} if version else {}
        if version == STATELESS:
            params = params | {"_meta": {f"{IN_META}protocolVersion": version}}
            headers["Mcp-Method"] = method
            headers |= {"Mcp-Name": "report"} if method == "tools/call" else {}
        result = send(assistant, method, params, headers=headers).json["result"]
        assert set(result) == keys, method
        assert all(set(tool) == TOOL_KEYS for tool in result.get("tools", ()))


def test_a_stateless_request_says_the_same_in_its_headers(assistant):
    meta = {"_meta": {f"{IN_META}protocolVersion": STATELESS, f"{IN_META}clientCapabilities": {}}}
    right = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "report"}

    def status(headers: dict[str, str], method: str = "tools/call", **params: Any) -> Any:
        answer = send(assistant, method, {**meta, **params}, headers=headers)
        return answer.status_code, answer.json.get("error", {}).get("code")

    assert status(right, name="report") == (200, None)
    for wrong in (
        {"Mcp-Method": "tools/list"},
        {"Mcp-Name": "find"},
        {"MCP-Protocol-Version": "2026-07-29"},
    ):
        code = -32022 if "MCP-Protocol-Version" in wrong else -32020
        assert status(right | wrong, name="report") == (400, code)
    assert status({**right, "Mcp-Method": "nothing"}, "nothing", name="report") == (404, -32601)
    discovered = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "server/discover"}
    result = send(assistant, "server/discover", meta, headers=discovered).json["result"]
    assert result["supportedVersions"] == [*VERSIONS] and result["capabilities"] == {"tools": {}}


@loop_over(
    ("message", "code"),
    [
        ([], -32600),
        ({}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": ["ping"]}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "call"}}, -32602),
    ],
)
def test_what_is_not_of_the_protocol_is_an_error_of_json_rpc(assistant, message, code):
    answer = assistant.post("/mcp", message)
    assert answer.json["error"]["code"] == code
    assert answer.status_code == (400 if code == -32600 else 200)


def test_it_is_one_post_with_a_key_and_nothing_else(crm, assistant, ivan, form):
    for method in ("GET", "DELETE", "PUT", "PATCH"):
        answer = assistant.call(method, "/mcp")
        assert answer.status_code == 405 and "POST" in answer.headers["Allow"], method
    assert send(Api(crm, "acme", "crm_x"), "tools/list").status_code == 401
    assert send(Api(crm, "acme", ivan.key), "tools/list").status_code == 401
    assert send(form, "tools/list").json["code"] == "missing_scope"
    assert assistant.post("/mcp", data=b"{").status_code == 415
    answer = assistant.post("/mcp", data=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json["code"]) == (400, "malformed_body")


# The tools


def test_describe_has_what_a_change_needs(api, assistant):
    for resource in MAIN_RESOURCES:
        body = do(assistant, "describe", resource=resource)
        assert body["fields"] and body["filters"]["q"]
        assert [user["name"] for user in body["users"]["data"]] == ["Olena", "Taras"]
        (pipeline,) = body["pipelines"]["data"]
        assert [stage["name"] for stage in pipeline["stages"]]
    body = do(assistant, "describe", resource="clients")
    assert body["required"] == ["name"] and "contacts" in body["fields"]
    assert "name" in body["fields"]["contacts"]["items"]
    assert do(assistant, "describe", resource="deals")["fields"]["amount"]


def test_fields_of_ones_own_are_described_set_and_filtered_by(api, assistant):
    options = [{"key": "oak", "label": "Дуб"}]
    sent = {"resource": "leads", "key": "wood", "label": "Деревина", "filtered": True}
    api.create("/fields", **sent, type="choice", options=options)
    body = do(assistant, "describe", resource="leads")
    assert "custom.wood" in body["filters"] and "has_custom.wood" in body["filters"]
    assert body["fields"]["custom"]["properties"]["wood"] == {
        "title": "Деревина",
        "description": "One of a list. `oak` Дуб",
        "type": ["string", "null"],
        "enum": ["oak", None],
    }
    fields = {"name": "А", "phone": PHONE, "custom": {"wood": "oak"}}
    lead = do(assistant, "create", resource="leads", fields=fields, idempotency_key="1")["data"]
    assert lead["custom"] == {"wood": "oak"}
    changed = {"id": lead["id"], "version": lead["version"], "fields": {"custom": {"wood": None}}}
    assert do(assistant, "update", resource="leads", **changed)["custom"] == {}
    filters = {"custom.wood": "oak"}
    assert do(assistant, "find", resource="leads", filters=filters)["data"] == []


def test_find_pages_and_filters_as_the_list_does(api, assistant):
    ids = [api.create("/leads", name=f"Лід {n}", phone=PHONE) for n in range(12)]
    api.patch(f"/leads/{ids[0]}", {"status": "qualified"})
    first = do(assistant, "find", resource="leads")
    assert [lead["id"] for lead in first["data"]] == ids[:1:-1]
    cursor = first["meta"]["next_cursor"]
    rest = do(assistant, "find", resource="leads", cursor=cursor)["data"]
    assert [lead["id"] for lead in rest] == ids[1::-1]
    filters = {"status": ["qualified"], "sort": "name", "limit": 1}
    found = do(assistant, "find", resource="leads", filters=filters, limit=500)["data"]
    assert [lead["id"] for lead in found] == ids[:1]
    assert len(do(assistant, "find", resource="leads", limit=500)["data"]) == 12
    problem = refused(assistant, "find", resource="leads", filters={"colour": "red"})
    assert problem["errors"][0]["parameter"] == "colour"


def test_filters_are_as_long_as_those_of_an_address(api, assistant):
    assert do(assistant, "find", resource="leads", filters={"ids": ["1"] * 3000})["data"] == []
    problem = refused(assistant, "find", resource="leads", filters={"ids": ["1"] * 5000})
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        ("/filters", "too_large")
    ]


def test_create_makes_one_record_however_often_it_is_sent(api, assistant):
    sent = {"resource": "tasks", "fields": {"title": "Зателефонувати"}, "idempotency_key": "1"}
    first, second = do(assistant, "create", **sent), do(assistant, "create", **sent)
    assert first["task_id"] == second["task_id"] and first["data"]["title"] == "Зателефонувати"
    assert len(api.read("/tasks")) == 1
    sent["fields"] = {"title": "Інше"}
    assert refused(assistant, "create", **sent)["code"] == "idempotency_key_reused"
    assert refused(assistant, "create", resource="tasks", fields={})["errors"] == [
        {"pointer": "/idempotency_key", "code": "required", "detail": "this argument is required"}
    ]
    problem = refused(assistant, "create", resource="leads", fields={}, idempotency_key="2")
    assert problem["code"] == "validation_failed"


def test_a_stale_update_is_told_what_has_changed_since(api, taras, assistant, lead):
    read = do(assistant, "get", resource="leads", id=lead)
    taras.patch(f"/leads/{lead}", {"comment": "Передзвонити"})
    taras.patch(f"/leads/{lead}", {"status": "qualified"})
    which = {"resource": "leads", "id": lead, "fields": {"comment": "Не дзвонити"}}
    problem = refused(assistant, "update", version=read["version"], **which)
    assert (problem["code"], problem["status"], problem["version"]) == (
        "precondition_failed",
        412,
        3,
    )
    assert [change["after"] for change in problem["changes"]] == [
        {"status": "qualified"},
        {"comment": "Передзвонити"},
    ]
    assert api.read(f"/leads/{lead}")["comment"] == "Передзвонити"
    assert do(assistant, "update", version=3, **which)["comment"] == "Не дзвонити"


def test_the_history_names_the_key_and_the_tool(api, olena, assistant, lead):
    do(assistant, "update", resource="leads", id=lead, version=1, fields={"comment": "!"})
    assistant.patch(f"/leads/{lead}", {"comment": "?"})
    by_api, by_tool = api.read(f"/leads/{lead}/changes")[:2]
    assert (by_tool["tool"], by_tool["key"]["name"], by_tool["user_id"]) == ("update", "tests", "2")
    assert by_api["tool"] is None
    page = olena.sees(f"/leads/{lead}")
    assert page.count("Taras через ключ API «tests»") == 2
    assert page.count("Taras через ключ API «tests», інструмент update") == 1


def test_note_writes_once(api, assistant, lead):
    sent = {"resource": "leads", "id": lead, "text": "Зателефонує завтра", "idempotency_key": "n"}
    assert do(assistant, "note", **sent) == do(assistant, "note", **sent)
    (note,) = api.read(f"/leads/{lead}/notes")
    assert note["text"] == "Зателефонує завтра"


def test_report_has_the_figures_of_today(api, crm, assistant, lead):
    api.create("/tasks", title="Вчора", due_at="2026-03-01T09:00:00Z")
    api.create("/tasks", title="Завтра", due_at="2026-03-03T09:00:00Z")
    today = do(assistant, "report")["today"]
    assert today == {"new leads": 1, "open deals": 0, "open tasks": 2, "overdue tasks": 1}
    leads_only = Api(crm, "acme", key_for(crm, "acme", "leads:read"))
    assert do(leads_only, "report")["today"]["open deals"] is None
    assert refused(assistant, "report", name="salaries")["status"] == 404


def test_propose_waits_for_a_person(api, assistant, lead):
    sent = {"resource": "leads", "why": "Ніхто не відповів", "where": {"status": ["new"]}}
    answer = do(assistant, "propose", set={"assigned_to": str(TARAS)}, **sent)
    assert answer["count"] == 1 and api.read(f"/leads/{lead}")["assigned_to"] is None
    assert api.read(f"/proposals/{answer['proposal_id']}")["why"] == "Ніхто не відповів"
    problem = refused(assistant, "propose", set={"assigned_to": str(TARAS)}, apply=True, **sent)
    assert problem["scope"] == "agents:apply"


# What a tool cannot do


def test_the_rights_are_those_of_the_key(crm, api, lead):
    reader = Api(crm, "acme", key_for(crm, "acme", "leads:read"))
    change = {"resource": "leads", "id": lead, "version": 1, "fields": {"comment": "!"}}
    for tool, arguments, scope in (
        ("find", {"resource": "deals"}, "deals:read"),
        ("get", {"resource": "clients", "id": "1"}, "clients:read"),
        ("update", change, "leads:write"),
        ("create", {"resource": "leads", "fields": {}, "idempotency_key": "1"}, "leads:create"),
        (
            "note",
            {"resource": "leads", "id": lead, "text": "!", "idempotency_key": "1"},
            "leads:write",
        ),
        (
            "propose",
            {"resource": "leads", "ids": [lead], "action": "delete", "why": "!"},
            "leads:write",
        ),
    ):
        problem = refused(reader, tool, **arguments)
        assert (problem["code"], problem["scope"]) == ("missing_scope", scope), tool
    assert do(reader, "describe", resource="deals")["users"]["code"] == "missing_scope"
    assert api.read(f"/leads/{lead}")["version"] == 1


def test_nobody_at_globex_reaches_a_record_of_acme(api, ivan, lead):
    assert refused(ivan, "get", resource="leads", id=lead)["status"] == 404
    assert do(ivan, "find", resource="leads")["data"] == []
    change = {"id": lead, "version": 1, "fields": {"comment": "!"}}
    assert refused(ivan, "update", resource="leads", **change)["status"] == 404
    sent = {"id": lead, "text": "!", "idempotency_key": "1"}
    assert refused(ivan, "note", resource="leads", **sent)["status"] == 404
    assert do(ivan, "propose", resource="leads", ids=[lead], action="delete", why="!")["count"] == 0
    assert [user["name"] for user in do(ivan, "describe", resource="leads")["users"]["data"]] == [
        "Ivan"
    ]


@loop_over(
    ("tool", "arguments"),
    [
        ("get", {}),
        ("get", {"resource": "webhooks", "id": "1"}),
        ("get", {"resource": "leads", "id": True}),
        ("get", {"resource": "leads", "id": "1", "expand": "client"}),
        ("update", {"resource": "leads", "id": "1", "fields": {}}),
        ("update", {"resource": "leads", "id": "1", "version": 1, "fields": []}),
        ("find", {"resource": "leads", "limit": "all"}),
        ("find", {"resource": "leads", "limit": "9" * 19}),
        ("propose", {"resource": "leads", "apply": "yes", "ids": ["1"], "why": "!"}),
        ("note", {"resource": "tasks", "id": "1", "text": "!", "idempotency_key": "1"}),
        ("propose", {"resource": "leads", "action": "erase", "ids": ["1"], "why": "!"}),
    ],
)
def test_arguments_are_checked_by_their_schema(api, tool, arguments):
    problem = refused(api, tool, **arguments)
    assert problem["code"] == "validation_failed"
    assert all(len(fault["detail"]) < 100 for fault in problem["errors"])


def test_numbers_and_booleans_may_be_texts(api, assistant, lead):
    api.create("/leads", name="Тарас", phone="0507654321")
    assert len(do(assistant, "find", resource="leads", limit="1")["data"]) == 1
    change = {"id": lead, "version": "1", "fields": {"comment": "!"}}
    assert do(assistant, "update", resource="leads", **change)["version"] == 2
    sent = {"resource": "leads", "where": {}, "action": "add_tag", "tag": "vip", "why": "!"}
    assert do(assistant, "propose", apply="false", **sent)["count"] == 2


ALLOWED = {
    *(f"{method} /{plural}" for plural in MAIN_RESOURCES for method in ("GET", "POST")),
    *(f"{method} /{plural}/<id>" for plural in MAIN_RESOURCES for method in ("GET", "PATCH")),
    *(f"GET /{plural}/<id>/changes" for plural in MAIN_RESOURCES),
    *(f"POST /{plural}/<id>/notes" for plural in ("leads", "clients", "deals")),
    *("GET /users", "GET /pipelines", "POST /proposals"),
}


def spellings(rule: str) -> Iterator[dict[str, Any]]:
    """Arguments by which somebody might try to reach the path of an operation."""
    path = re.sub(r"<\w+>", "1", rule).strip("/")
    first, _, rest = path.partition("/")
    for resource, id in ((first, rest or "1"), ("leads", f"1/../../{path}"), (path, "1")):
        yield {
            "resource": resource,
            "id": id,
            "name": resource,
            "fields": {},
            "version": 0,
            "text": "!",
            "why": "!",
            "ids": ["1"],
            "set": {"comment": "!"},
            "q": path,
        }


def test_no_tool_reaches_an_operation_that_is_not_of_its_task(crm, api, monkeypatch):
    """For each operation of the API, by each tool, with a key that may do everything."""
    reached: set[str] = set()
    find = ToolRunner._find

    def note(runner: ToolRunner, method: str, path: str) -> Any:
        route = find(runner, method, path)
        reached.add(f"{method} {route[0].rule.removeprefix('/api/v1')}")
        return route

    monkeypatch.setattr(ToolRunner, "_find", note)
    api.create("/leads", name="Марія", phone=PHONE)
    api.create("/products", sku="CH-1", name="Крісло", price=1)
    api.create("/deals", client_id=api.create("/clients", name="ТОВ Ромашка"))
    api.create("/tasks", title="Зателефонувати")
    rules = sorted({operation.rule for operation in crm.api.operations.values()})
    assert "/webhooks/<id>" in rules and "/users" in rules and "/clients/<id>/erase" in rules
    guesses = {}  # by their texts: each once
    for rule, tool in itertools.product(rules, TOOLS):
        properties = TOOLS[tool]["inputSchema"]["properties"]
        for guess in spellings(rule):
            sent = {name: guess[name] for name in properties if name in guess}
            guesses[json.dumps([tool, sent])] = tool, sent, properties
    for number, (tool, sent, properties) in enumerate(guesses.values()):
        if "idempotency_key" in properties:
            sent["idempotency_key"] = str(number)
        send(api, "tools/call", {"name": tool, "arguments": sent})
        if number % 1000 == 999:
            crm.tenants.clock.tick(60)
    assert reached == ALLOWED
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM webhook") == (0,)
        assert row('SELECT count(*) FROM "user"') == (2,)
        assert row("SELECT count(*) FROM api_key WHERE revoked_at IS NULL") == (4,)
        assert row("SELECT count(*) FROM lead WHERE deleted_at IS NOT NULL") == (0,)
