"""OAuth 2.1: a hosted assistant gets a key of its own by an owner's consent."""

import asyncio
import hashlib
import re
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from crm.access import api_keys
from crm.storage.session import rows
from tests.cabinet.test_pages import check
from tests.cases import loop_over
from tests.chromium import NARROW, WIDE, Tab, log_in
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, Api
from tests.page_client import Person

BACK = "https://assistant.example/back"
VERIFIER = "v" * 64
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
DAY = 86_400
ODD_ADDRESSES = ["https://[x]/", "https://a]b/", "https://assistant.example/назад"]


class Anonymous:
    """A program without a key, at one host."""

    def __init__(self, crm: Any, label: str = "acme"):
        self.client, self.headers = crm.test_client(), {"Host": f"{label}.localhost"}

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=self.headers)

    def register(self, **sent: Any) -> Any:
        sent = {"client_name": "Помічник", "redirect_uris": [BACK], **sent}
        return self.post("/oauth/register", json=sent)

    def post(self, path: str, **options: Any) -> Any:
        return self.client.post(path, headers=self.headers, **options)

    def token(self, **form: str) -> Any:
        return self.post("/oauth/token", data=form)


@pytest.fixture
def program(crm) -> Anonymous:
    return Anonymous(crm)


@pytest.fixture
def client_id(program) -> str:
    return program.register().json["client_id"]


def path_for(client_id: str, **other: str) -> str:
    sent = {"response_type": "code", "client_id": client_id, "redirect_uri": BACK, "state": "s"}
    sent |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", **other}
    return f"/oauth/authorize?{urlencode(sent)}"


def consent(person: Person, path: str) -> dict[str, str]:
    """What the client gets at its address after the person has agreed."""
    fields = person.form_fields(person.sees(path), "/oauth/authorize")
    answer = person.post("/oauth/authorize", fields)
    assert answer.status_code == 200, answer.text
    address = answer.headers["Refresh"].removeprefix("0; url=")
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def exchange(program: Anonymous, client_id: str, code: str, **other: str) -> Any:
    sent = {"code": code, "client_id": client_id, "redirect_uri": BACK, "code_verifier": VERIFIER}
    return program.token(grant_type="authorization_code", **{**sent, **other})


def renew(program: Anonymous, client_id: str, token: str) -> Any:
    return program.token(grant_type="refresh_token", client_id=client_id, refresh_token=token)


class Memory:
    """Where the official client keeps its tokens."""

    tokens: OAuthToken | None = None
    info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


class Loopback(httpx2.AsyncHTTPTransport):
    """Every host is this machine."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(host="127.0.0.1")
        return await super().handle_async_request(request)


def test_the_official_client_connects_by_itself(crm, served, olena, api):
    olena.home = served  # with its port
    answers: list[dict[str, str]] = []

    async def show_page(url: str) -> None:
        answers.append(consent(olena, url.removeprefix(served)))

    async def wait_for_answer() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**answers[-1])

    async def connect(memory: Memory) -> list[str]:
        about = OAuthClientMetadata(client_name="Помічник", redirect_uris=[BACK])
        url = f"{served}/api/v1/mcp"
        auth = OAuthClientProvider(url, about, memory, show_page, wait_for_answer)
        task = {"resource": "tasks", "fields": {"title": "!"}, "idempotency_key": "1"}
        async with (
            httpx2.AsyncClient(auth=auth, transport=Loopback()) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            result = await client.call_tool("create", task)
            assert not result.is_error, result
            return [tool.name for tool in (await client.list_tools()).tools]

    (tools,) = run_in_threads(1, lambda _: asyncio.run(connect(Memory())))
    assert "propose" in tools
    assert len(answers) == 1
    assert [task["title"] for task in api.read("/tasks")] == ["!"]
    with crm.tenants.session("acme"):
        key = api_keys.list_all()[-1]
        assert (key.name, key.preset, key.state()) == ("Помічник", "assistant", "live")
        assert {*key.scopes.split(",")} == {*api_keys.ASSISTANT_SCOPES}


def test_the_refusal_without_a_key_says_where_to_begin(program):
    answer = program.post("/api/v1/mcp", json={})
    assert answer.status_code == 401
    url = re.search(
        r'resource_metadata="http://acme\.localhost(/.+)"', answer.headers["WWW-Authenticate"]
    )
    resource = program.get(url[1]).json
    assert resource["resource"] == "http://acme.localhost/api/v1/mcp"
    assert program.get(f"{url[1]}/api/v1/mcp").json == resource
    (server,) = resource["authorization_servers"]
    metadata = program.get("/.well-known/oauth-authorization-server").json
    assert metadata["issuer"] == server and metadata["code_challenge_methods_supported"] == ["S256"]
    assert program.post("/api/v1/leads", json={}).headers["WWW-Authenticate"] == "Bearer"


def test_tokens_are_renewed_until_the_grant_ends(crm, olena, program, client_id, clock):
    answer = consent(olena, path_for(client_id))
    assert (answer["state"], answer["iss"]) == ("s", "http://acme.localhost")
    issued = exchange(program, client_id, answer["code"])
    assert issued.headers["Cache-Control"] == "no-store" and issued.json["token_type"] == "Bearer"
    first = issued.json
    assert works(crm, first)
    clock.tick(first["expires_in"])
    assert not works(crm, first)
    second = renew(program, client_id, first["refresh_token"]).json
    assert works(crm, second) and not works(crm, first)
    assert renew(program, "other", second["refresh_token"]).json["error"] == "invalid_grant"
    clock.tick(89 * DAY)
    third = renew(program, client_id, second["refresh_token"]).json
    assert works(crm, third)
    clock.tick(DAY)
    assert renew(program, client_id, third["refresh_token"]).json["error"] == "invalid_grant"


def test_revoking_the_key_ends_the_grant(crm, olena, program, client_id, clock):
    issued = exchange(program, client_id, consent(olena, path_for(client_id))["code"]).json
    clock.tick(DAY)  # the key is to be renewed, and can be revoked
    (id,) = re.findall(r"Помічник.*?/api-keys/(\d+)/revoke", olena.sees("/settings/api-keys"), re.S)
    olena.sends(f"/settings/api-keys/{id}/revoke", {"sure": "1"})
    assert renew(program, client_id, issued["refresh_token"]).json["error"] == "invalid_grant"


def test_a_code_is_exchanged_once_by_who_has_asked_for_it(olena, program, client_id, clock):
    code = consent(olena, path_for(client_id))["code"]
    for wrong in (
        {"code": "x"},
        {"code_verifier": "w" * 64},
        {"redirect_uri": f"{BACK}/x"},
        {"client_id": program.register(client_name="Інший").json["client_id"]},
    ):
        answer = exchange(program, **{"client_id": client_id, "code": code, **wrong})
        assert (answer.status_code, answer.json["error"]) == (400, "invalid_grant"), wrong
    assert exchange(program, client_id, code).status_code == 200
    late = consent(olena, path_for(client_id))["code"]
    clock.tick(60)
    assert exchange(program, client_id, late).json["error"] == "invalid_grant"
    assert program.token(grant_type="password").json["error"] == "unsupported_grant_type"


@pytest.mark.parametrize("used", ["code", "refresh_token"])
def test_a_code_or_token_used_again_ends_the_grant_and_alerts_the_owner(
    crm, olena, program, client_id, used
):
    code = consent(olena, path_for(client_id))["code"]
    first = exchange(program, client_id, code).json
    second = renew(program, client_id, first["refresh_token"]).json
    other = exchange(program, client_id, consent(olena, path_for(client_id))["code"]).json
    assert works(crm, second)
    again = {"code": exchange, "refresh_token": renew}[used]
    answer = again(program, client_id, {**first, "code": code}[used])
    assert answer.json["error"] == "invalid_grant"
    assert not works(crm, second)
    assert renew(program, client_id, second["refresh_token"]).json["error"] == "invalid_grant"
    assert works(crm, other)
    with crm.tenants.session("acme"):
        assert rows("SELECT user_id, kind FROM alert") == [(OLENA, "grant_ended")]
    assert "використано двічі: Помічник" in olena.sees("/alerts")


@loop_over(
    "uris",
    [
        None, [], BACK, [1], ["assistant.example"], ["http://assistant.example/back"],
        ["javascript:alert(1)"], [f"{BACK}#part"], ["https://me@assistant.example/"], ["https:///x"],
        ["https://assistant.example\\.thief.example/"],
        ["http://localhost.assistant.example/"], [f"{BACK}\nx"], [BACK] * 6, [f"{BACK}{'x' * 200}"],
        *([uri] for uri in ODD_ADDRESSES),
    ],
)  # fmt: skip
def test_a_client_names_addresses_that_a_browser_may_be_sent_to(program, uris):
    answer = program.register(redirect_uris=uris)
    assert (answer.status_code, answer.json["error"]) == (400, "invalid_redirect_uri")
    assert program.register(client_name="a\nb").status_code == 400


@loop_over(
    "wrong",
    [
        {"redirect_uri": "https://thief.example/"},
        {"client_id": "AAAA"},
        {"client_id": "é"},
        {"code_challenge": ""},
        {"code_challenge_method": "plain"},
    ],
)
def test_nobody_is_sent_to_an_address_that_was_not_registered(olena, client_id, wrong):
    page = olena.get(path_for(**{"client_id": client_id, **wrong}))
    assert page.status_code == 422 and "thief" not in page.text


def test_owners_alone_let_a_client_in(crm, manager, olena, client_id):
    path = path_for(client_id)
    assert manager.get(path).status_code == 403
    stranger = Person(crm)
    assert stranger.get(path).headers["Location"].startswith("/login?next=")
    page = olena.sees(path)
    assert "Помічник" in page and "assistant.example" in page
    assert f"{BACK}?error=access_denied" in page
    sent = {"client_id": client_id, "redirect_uri": BACK, "code_challenge": CHALLENGE}
    olena.client.post("/oauth/authorize", data=sent, base_url=olena.home)
    with crm.tenants.session("acme"):
        assert "Помічник" not in [key.name for key in api_keys.list_all()]


def test_a_browser_goes_back_to_the_program(crm, served: str, tab: Tab):
    """Without a script, and though its policy lets forms lead to this host only."""
    back = f"{served}/nothing"  # of this machine, as of a desktop program
    back = back.replace("acme.localhost", "127.0.0.1")
    client_id = Anonymous(crm).register(redirect_uris=[back]).json["client_id"]
    page = tab()
    log_in(page, crm, served)
    for width in (NARROW, WIDE):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{served}{path_for(client_id, redirect_uri=back)}")
        check(page, f"consent, {width}")
    page.route("http://127.0.0.1*/**", lambda route: route.fulfill(body="<title>!</title>"))
    page.get_by_role("button", name="Підключити").click()
    page.wait_for_url(f"{back}?code=*")


def works(crm: Any, issued: dict[str, Any]) -> bool:
    return Api(crm, "acme", issued["access_token"]).get("/users/me").status_code == 200
