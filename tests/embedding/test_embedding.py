"""The CRM in a Flask site: it answers as by itself, and the site as without it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client

from crm import CRM, create_app
from crm.access import sessions
from crm.config import ConfigError
from crm.installation.tenants import Tenants
from tests.cases import loop_over
from tests.conftest import OLENA, set_clock
from tests.installations import config_for, copy_installation, environ_for, settings_for
from tests.raw_wsgi import WsgiResponse, send_request
from tests.readme import blocks, run, section
from tests.server_process import find_free_port
from tests.sites import Site, hostile, plain

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_wiring")]

HOST = "shop.example.ua"
ROOT = Path(__file__).resolve().parents[2]
CSV = "sku,name,price\r\nST-1,Стіл,1250.50\r\n"
BOUNDARY = "----a-form"
FILE = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n'
    f"Content-Type: text/csv\r\n\r\n{CSV}\r\n--{BOUNDARY}--\r\n"
).encode()
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
LEAD = '{"name": "Марія Коваль", "phone": "067 123 45 67"}'.encode()
JSON = {"Content-Type": "application/json"}


def copied(furnished: tuple[Path, dict[str, str]], folder: Path) -> Path:
    return copy_installation(furnished[0], folder)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return hostile(tmp_path)


@pytest.fixture
def embedded(site, furnished, tmp_path, clock) -> Iterator[CRM]:
    """acme in the hostile site, below /crm."""
    data = copied(furnished, tmp_path / "embedded")
    crm = CRM(site, url_prefix="/crm", tenant="acme", **settings_for(data), sends=False)
    set_clock(crm.app, clock)
    yield crm
    crm.app.tenants.forget_idle()


@pytest.fixture
def alone(furnished, tmp_path, clock) -> Iterator[Any]:
    """The same by itself."""
    config = config_for(
        copied(furnished, tmp_path / "alone"), tenant="acme", public_url=f"http://{HOST}/crm"
    )
    app = create_app(config, clock, sends=False)
    yield app
    app.tenants.forget_idle()


# Apart from the prefix and what is random, the CRM answers as it does by itself

RANDOM = (
    (r'name="csrf_token" value="[^"]+"', 'name="csrf_token" value="…"'),
    (r"crm_form=[^;]+;", "crm_form=…;"),
    (r"crm_session=[^;]+;", "crm_session=…;"),
    (r"Expires=[^;]+;", "Expires=…;"),
    (r"\bevt_[0-9a-f]{24}\b", "evt_…"),
    (r"\bwhsec_[A-Za-z0-9+/=]+", "whsec_…"),
    (r"\bcrm_[A-Za-z0-9]{46}\b", "crm_…"),
    (r'"[0-9a-f]{16}(?:[0-9a-f]{8})?"', '"…"'),  # the ETag of a body with one, or a prefix
    (r"\d+ секунд[иу]? тому|щойно", "…"),
)


def shown(answer: WsgiResponse, prefix: str = "") -> tuple[int, list[tuple[str, str]], str | bytes]:
    """An answer without what is random, and without the prefix."""

    def tidy(text: str) -> str:
        if prefix:
            # Links for letters and other sites are whole addresses, the same in both.
            text = re.sub(rf"(?<!\w){prefix}(?=[/;\"'])", "", text)
            text = text.replace("Path=;", "Path=/;").replace('href=""', 'href="/"')
        for pattern, instead in RANDOM:
            text = re.sub(pattern, instead, text)
        return text

    headers = sorted((name, tidy(value)) for name, value in answer.headers)
    headers = [pair for pair in headers if pair[0] not in ("Content-Length", "Date")]
    try:
        return answer.status, headers, tidy(answer.body.decode())
    except UnicodeDecodeError:
        return answer.status, headers, answer.body


API = [
    ("POST", "/leads", JSON, LEAD),
    ("POST", "/leads", {**JSON, "Idempotency-Key": "k1"}, LEAD),
    ("POST", "/leads", {**JSON, "Idempotency-Key": "k1"}, LEAD),
    ("POST", "/leads", JSON, b"{"),
    ("GET", "/leads?limit=1", {}, b""),
    ("GET", "/leads/1", {}, b""),
    ("GET", "/leads/77", {}, b""),
    ("PATCH", "/leads/1", JSON, '{"comment": "дзвонив"}'.encode()),
    ("POST", "/leads/1/convert", {}, b""),
    ("POST", "/products/import", MULTIPART, FILE),
    ("GET", "/products/export", {}, b""),
    ("GET", "/imports/1", {}, b""),
    ("POST", "/webhooks", JSON, b'{"url": "https://erp.example.com/crm"}'),
    ("GET", "/events", {}, b""),
    ("GET", "/users/me", {}, b""),
    ("OPTIONS", "/leads", {}, b""),
    ("GET", "/nothing", {}, b""),
    ("GET", "/docs", {}, b""),
    ("GET", "/openapi.json", {}, b""),
]


def test_the_api_answers_as_by_itself(site, embedded, alone, furnished):
    for number, (method, path, headers, body) in enumerate(API):
        path, _, query = path.partition("?")
        headers = {
            "Authorization": f"Bearer {furnished[1]['olena']}",
            "X-Request-Id": f"request-{number}",
            **headers,
        }
        sent = {"headers": headers, "body": body, "host": HOST, "query": query}
        there = send_request(alone, method, f"/api/v1{path}", **sent)
        here = send_request(site, method, f"/crm/api/v1{path}", **sent)
        if path == "/openapi.json":  # `servers` are whole addresses, which differ
            own, other = here.json, there.json
            own.pop("servers"), other.pop("servers")
            assert own["paths"] == other["paths"] and own.keys() == other.keys()
            continue
        assert shown(here, "/crm") == shown(there), (method, path)
        assert here.status != 500
    assert site.heard == []


@pytest.mark.parametrize("key", ["", "crm_wrong", "ivan"])
def test_a_key_that_is_not_good_here_is_told_so_by_the_crm(site, embedded, alone, furnished, key):
    sent = {"Authorization": f"Bearer {furnished[1].get(key, key)}", "X-Request-Id": "a"}
    here = send_request(site, path="/crm/api/v1/leads", headers=sent, host=HOST)
    assert here.status == 401
    assert shown(here, "/crm") == shown(send_request(alone, headers=sent, host=HOST))


def pages_of(app: Flask) -> list[str]:
    return sorted(
        rule.rule
        for rule in app.url_map.iter_rules()
        if "GET" in rule.methods
        and "<" not in rule.rule
        and not rule.rule.startswith("/api/")
        and not rule.endpoint.startswith("oauth.")  # whole addresses, which differ
    )


def test_the_pages_answer_as_by_themselves(site, embedded, alone, furnished):
    results = {}
    for app, prefix in ((alone, ""), (embedded.app, "/crm")):
        with app.tenants.session("acme"):
            token = sessions.open(OLENA, "tests")
        browser = Client(alone if not prefix else site)
        browser.set_cookie("crm_session", token, domain=HOST, path=prefix or "/")
        results[prefix] = [
            walk(browser, prefix, path)
            for path in (*pages_of(alone), "/livez", "/cabinet/cabinet.css", "/cabinet/nothing")
        ]
    assert len(results[""]) > 30
    for here, there in zip(results["/crm"], results[""], strict=True):
        assert here == there
    assert {200, 303, 404, 422} >= {there[0] for there in results[""]}
    assert site.heard == []


def walk(browser: Client, prefix: str, path: str) -> tuple:
    headers = {"X-Request-Id": "a"}
    page = browser.get(f"{prefix}{path}", base_url=f"http://{HOST}", headers=headers, buffered=True)
    return shown(WsgiResponse(page.status_code, page.headers, page.data), prefix)


# The site answers as without the CRM

SITE = [
    ("GET", "/", {}, b""),
    ("GET", "/?refused=1", {}, b""),
    ("POST", "/", {}, b"a"),
    ("PUT", "/", {}, b""),
    ("GET", "/json", {}, b""),
    ("GET", "/nothing", {}, b""),
    ("GET", "/crmx", {}, b""),
    ("GET", "/CRM/", {}, b""),
    ("GET", "/api/v1/leads", {"Authorization": "Bearer crm_a"}, b""),
    ("GET", "/livez", {}, b""),
]


def test_the_site_answers_as_without_the_crm(site, embedded, tmp_path):
    before = hostile(tmp_path)
    for method, path, headers, body in SITE:
        path, _, query = path.partition("?")
        sent = {"headers": headers, "body": body, "host": HOST, "query": query}
        there, here = (
            send_request(before, method, path, **sent),
            send_request(site, method, path, **sent),
        )
        assert (here.status, [*here.headers], here.body) == (
            *(there.status, [*there.headers], there.body),
        ), (method, path)
        assert "X-Site" in here.headers
    for item in (before, site):
        with pytest.raises(RuntimeError, match="the site's own"):
            send_request(item, path="/boom", host=HOST)
    assert site.heard == before.heard
    assert {"before", "after", "teardown", "appcontext", "preprocess"} == set(site.heard)


def test_nothing_is_written_before_there_is_something_to_keep(tmp_path):
    site = plain(tmp_path)
    crm = CRM(site, url_prefix="/crm", tenant="acme", sends=False)
    assert send_request(site, path="/", host=HOST).body == b"the site"
    assert send_request(site, path="/crm/livez", host=HOST).status == 200
    assert send_request(site, path="/crm/api/v1/leads", host=HOST).status == 404
    assert list(tmp_path.rglob("*")) == []
    crm.create_tenant("acme", name="Acme")
    assert send_request(site, path="/crm/api/v1/leads", host=HOST).status == 401
    assert (tmp_path / "instance" / "crm" / "tenants" / "acme.db").is_file()


# Paths


def test_the_prefix_itself_leads_to_the_start_page(site, embedded):
    answer = send_request(site, path="/crm", host=HOST, query="a=1")
    assert (answer.status, answer.headers["Location"]) == (308, "crm/?a=1")
    assert send_request(site, path="/crm/", host=HOST).headers["Location"] == "/crm/login"


def test_a_site_that_is_mounted_itself_keeps_its_own_prefix(tmp_path, furnished):
    site = plain(tmp_path)
    CRM(site, url_prefix="/crm/", tenant="acme", **settings_for(copied(furnished, tmp_path / "d")),
        sends=False)  # fmt: skip
    whole = DispatcherMiddleware(Flask("other"), {"/shop": site})
    assert send_request(whole, path="/shop/crm/leads").headers["Location"] == (
        "/shop/crm/login?next=/leads"
    )
    assert send_request(whole, path="/shop/crm/api/v1/openapi.json").json["servers"] == [
        {"url": "/shop/crm/api/v1"}
    ]


# Which tenant


def choosing(tmp_path: Path, furnished: Any, tenant: Any) -> tuple[Flask, CRM]:
    site = plain(tmp_path)
    data = copied(furnished, tmp_path / "data")
    return site, CRM(site, url_prefix="/crm", tenant=tenant, **settings_for(data), sends=False)


def test_a_function_of_the_request_chooses_the_tenant(tmp_path, furnished):
    site, _ = choosing(tmp_path, furnished, lambda request: request.host.partition(".")[0])
    for label, who in (("acme", "olena"), ("globex", "ivan")):
        key = {"Authorization": f"Bearer {furnished[1][who]}"}
        host = f"{label}.shops.example.ua"
        answer = send_request(site, path="/crm/api/v1/users/me", headers=key, host=host)
        assert answer.json["name"].lower() == who
        assert (
            send_request(site, path="/crm/api/v1/users/me", headers=key, host="other.a").status
            == 404
        )


def test_the_function_gets_the_request_of_the_site_without_its_body(tmp_path, furnished):
    seen = []

    class Own(Flask.request_class):
        pass

    def choose(request: Any) -> str:
        seen.append((type(request), request.path, request.script_root, request.get_data()))
        return "acme"

    site, _ = choosing(tmp_path, furnished, choose)
    site.request_class = Own
    key = {"Authorization": f"Bearer {furnished[1]['olena']}", **JSON}
    assert send_request(site, "POST", "/crm/api/v1/leads", key, LEAD).status == 201
    assert seen == [(Own, "/crm/api/v1/leads", "", b"")]
    send_request(site, path="/crm/livez")
    send_request(site, path="/")
    assert len(seen) == 1  # for the operator's paths and the site's own it isn't asked


@pytest.mark.parametrize("told", [None, "", "nobody", "ACME", "_front", "../acme", "acme.db", 7])
def test_no_tenant_is_always_the_same_404(tmp_path, furnished, told):
    site, _ = choosing(tmp_path, furnished, lambda request: told)
    key = {"Authorization": f"Bearer {furnished[1]['olena']}", "X-Request-Id": "a"}
    answer = send_request(site, path="/crm/api/v1/leads", headers=key)
    assert answer.status == 404 and answer.json["detail"] == "there is nothing here"
    for path in ("/crm/", "/crm/leads", "/crm/signup"):
        page = send_request(site, path=path)
        assert page.status == 404 and "Acme" not in page.body.decode()
    assert not (tmp_path / "data" / "front.db").exists()


def test_no_header_of_a_client_chooses_the_tenant(site, embedded, furnished):
    ivan = {"Authorization": f"Bearer {furnished[1]['ivan']}"}
    for headers in (
        {"crm.tenant": "globex", "X-crm-tenant": "globex", "Crm-Tenant": "globex"},
        {"X-Forwarded-Host": "globex.localhost", "Forwarded": "host=globex.localhost"},
    ):
        for host in ("globex.localhost", HOST, "", "globex", "xn--a.b", None):
            answer = send_request(site, path="/crm/api/v1/leads", headers=ivan | headers, host=host)
            assert answer.status == 401


def test_a_function_that_fails_is_a_500_whose_log_tells_no_data(tmp_path, furnished, caplog):
    def choose(request: Any) -> str:
        raise KeyError("+380501112233")

    site, _ = choosing(tmp_path, furnished, choose)
    answer = send_request(site, path="/crm/api/v1/leads")
    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert b"<h1" in send_request(site, path="/crm/").body
    assert "tenant: KeyError in choose, test_embedding.py:" in caplog.text
    assert "+380501112233" not in caplog.text


# Hosts


@pytest.fixture
def by_host(site, furnished, tmp_path) -> Iterator[CRM]:
    data = copied(furnished, tmp_path / "embedded")
    crm = CRM(site, domain="crm.example.ua", **settings_for(data), sends=False)
    yield crm
    crm.app.tenants.forget_idle()


@pytest.mark.parametrize("host", ["acme.crm.example.ua", "ACME.CRM.example.UA:8080"])
def test_a_tenants_host_is_the_crms(site, by_host, furnished, host):
    key = {"Authorization": f"Bearer {furnished[1]['olena']}"}
    assert (
        send_request(site, path="/api/v1/users/me", headers=key, host=host).json["name"] == "Olena"
    )
    assert (
        send_request(site, path="/crm/leads", host=host).status == 404
    )  # its paths are the CRM's too
    assert send_request(site, path="/leads", host=host).headers["Location"] == "/login?next=/leads"
    assert site.heard == []


@pytest.mark.parametrize("host", [HOST, "example.ua", "xcrm.example.ua", "crm.example.ua.evil.ua"])
def test_every_other_host_is_the_sites(site, by_host, host):
    answer = send_request(site, path="/crmx", host=host)
    assert "X-Site" in answer.headers or answer.status == 404
    assert "X-Request-Id" not in answer.headers
    assert site.heard


# Several, and by hand


def test_two_crms_in_one_site_know_nothing_of_each_other(tmp_path, furnished):
    site = plain(tmp_path)
    for label, who in (("acme", "olena"), ("globex", "ivan")):
        folder = copied(furnished, tmp_path / label)
        CRM(site, url_prefix=f"/{label}", tenant=label, **settings_for(folder), sends=False)
        key = {"Authorization": f"Bearer {furnished[1][who]}"}
        assert send_request(site, path=f"/{label}/api/v1/users/me", headers=key).status == 200
    for label in ("acme", "globex"):
        page = send_request(site, path=f"/{label}/login")
        assert f"Path=/{label}" in page.headers["Set-Cookie"]
        other = {"acme": "ivan", "globex": "olena"}[label]
        key = {"Authorization": f"Bearer {furnished[1][other]}"}
        assert send_request(site, path=f"/{label}/api/v1/users/me", headers=key).status == 401
    assert send_request(site, path="/").body == b"the site"
    results = {
        name: CliRunner().invoke(site.cli, [name, "tenant", "list"]).stderr.strip()
        for name in ("crm", "crm-globex")
    }
    assert results == {
        "crm": f"data folder: {tmp_path / 'acme'}",
        "crm-globex": f"data folder: {tmp_path / 'globex'}",
    }


def test_a_tenant_mounted_by_hand_is_the_only_one(furnished, tmp_path):
    by_hand = CRM(tenant="acme", **settings_for(copied(furnished, tmp_path / "d")), sends=False)
    for name, status in (("olena", 200), ("ivan", 401)):
        key = {"Authorization": f"Bearer {furnished[1][name]}"}
        asked = {"path": "/api/v1/users/me", "host": "globex.localhost", "headers": key}
        assert send_request(by_hand.app, **asked).status == status
    assert send_request(by_hand.app, path="/", host="localhost").headers["Location"] == "/login"
    by_hand.close()


@pytest.mark.parametrize(
    "options", [{"tenant": lambda request: "acme"}, {"current_user": dict}, {"login_url": "/login"}]
)
def test_by_hand_nothing_is_taken_that_needs_a_site(tmp_path, options):
    by_hand = CRM(**settings_for(tmp_path), **options)
    with pytest.raises(ConfigError, match="they need CRM"):
        by_hand.app  # noqa: B018


def test_a_proxyfix_of_the_site_stands_around_both(tmp_path, furnished, monkeypatch):
    monkeypatch.setenv("CRM_TRUSTED_PROXIES", "2")
    site, result = choosing(tmp_path, furnished, "acme")
    assert result.config.trusted_proxies == 0
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": HOST}
    assert (
        "Secure"
        not in send_request(site, path="/crm/login", headers=forwarded).headers["Set-Cookie"]
    )
    site.wsgi_app = ProxyFix(site.wsgi_app, x_for=1, x_proto=1, x_host=1)
    cookie = send_request(site, path="/crm/login", headers=forwarded).headers["Set-Cookie"]
    assert cookie.startswith("__Secure-crm_form=") and "Secure; HttpOnly; Path=/crm;" in cookie


# Settings


@loop_over(
    ("wrong", "said"),
    [
        ({"url_prefix": "crm"}, "url_prefix='crm': it looks like /crm"),
        ({}, "url_prefix, domain: say where in the site the CRM is"),
        ({"domain": "a b"}, "base_domain='a b': it is a domain such as crm.example.ua"),
        ({"url_prefix": "/crm", "colour": "red"}, "colour: it is none of data, database, "),
        ({"url_prefix": "/crm", "mail": "secret@x"}, "mail: it looks like"),
        (
            {"domain": "crm.example.ua", "tenant": lambda request: "acme"},
            "tenant: a function is asked below a url_prefix alone",
        ),
        (
            {"domain": "crm.example.ua", "login_url": "/login"},
            "login_url: with a domain it names the site's host",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_said_at_once(tmp_path, wrong, said):
    with pytest.raises(ConfigError) as refused:
        CRM(plain(tmp_path), **wrong)
    assert str(refused.value).startswith(said)
    assert "secret" not in str(refused.value)


def test_the_data_folder_is_the_sites_instance_folder_unless_said(tmp_path, monkeypatch):
    def folder(**options: Any) -> Path:
        return CRM(plain(tmp_path), url_prefix="/crm", sends=False, **options).config.data

    assert folder() == tmp_path / "instance" / "crm"
    assert folder(data="here") == tmp_path / "instance" / "here"
    assert folder(data=tmp_path / "there") == tmp_path / "there"
    monkeypatch.setenv("CRM_DATA", str(tmp_path / "env"))
    assert folder() == tmp_path / "env"
    assert folder(data="here") == tmp_path / "instance" / "here"
    monkeypatch.chdir(tmp_path)
    assert CRM(data="here").config.data == tmp_path / "here"


def test_links_in_letters_follow_the_settings_never_the_request(tmp_path):
    def url(given: dict[str, Any] | None = None, **options: Any) -> str:
        site = plain(tmp_path)
        site.config.update(given or {})
        return CRM(site, **{"url_prefix": "/crm", "sends": False, **options}).config.url_of("acme")

    assert url() == "http://localhost:5000/crm"  # where `flask run` listens
    named = {"SERVER_NAME": HOST, "PREFERRED_URL_SCHEME": "https", "APPLICATION_ROOT": "/shop"}
    assert url(named) == f"https://{HOST}/shop/crm"
    assert url(named, public_url=f"https://{HOST}/crm") == f"https://{HOST}/crm"
    assert url(named, public_url="https://{label}.example.ua/crm") == "https://acme.example.ua/crm"
    assert url(named, url_prefix=None, domain="crm.example.ua") == (
        "http://acme.crm.example.ua:5000"
    )


MANY = """
import gc, os, sys, threading
from pathlib import Path
from flask import Flask
from crm import CRM
from crm.outbox import callbacks
callbacks.IDLE_THREAD_SECONDS = 0.05

def held():
    return len(os.listdir("/proc/self/fd"))

def one(number):
    site = Flask("site", instance_path=str(Path(f"i{number}").absolute()))
    crm = CRM(site, url_prefix="/crm", tenant="acme")
    crm.on("lead.created")(print)
    crm.create_tenant("acme", owner={"name": "Olena"})
    assert site.test_client().get("/crm/login").status_code == 200
    with crm.tenant():
        crm.leads.create(name="a", email="a@a.example")
    crm.close()

sys.stdout = open(os.devnull, "w")
one(0)
gc.collect()
before = held()
for number in range(1, 3):
    one(number)
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(5)
gc.collect()
print(threading.active_count(), held() - before, file=sys.stderr)
"""


@pytest.mark.deep
@pytest.mark.process
def test_many_that_are_closed_leave_no_thread_and_no_open_file(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", MANY],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"},
    )  # fmt: skip
    assert (ran.stderr, ran.returncode) == ("1 0\n", 0)


def test_the_extension_may_be_made_before_the_site(tmp_path, furnished):
    crm = CRM(url_prefix="/crm", tenant="acme", **settings_for(copied(furnished, tmp_path / "d")))
    heard = crm.on("lead.created")(lambda event: None)
    assert heard is not None
    site = plain(tmp_path)
    crm.init_app(site)
    assert site.extensions["crm"] is crm
    assert send_request(site, path="/crm/livez").status == 200
    with pytest.raises(RuntimeError, match="make another one"):
        crm.init_app(plain(tmp_path))


# Commands


@pytest.mark.files
def test_the_sites_command_line_has_the_crms_commands(tmp_path):
    site = plain(tmp_path)
    data = tmp_path / "instance" / "crm"
    url = f"https://{HOST}/crm"
    settings = settings_for(data)
    CRM(site, url_prefix="/crm", tenant="acme", public_url=url, **settings, sends=False)

    def crm(*words: str, env: dict[str, str] | None = None) -> Result:
        result = CliRunner().invoke(site.cli, ["crm", *words], env=env)
        assert result.exit_code == 0, result.output
        return result

    made = crm("tenant", "create", "acme", "--owner-name", "Олена")
    assert made.stdout == f"{url}\n"
    folder, entry, *_ = made.stderr.splitlines()
    assert folder == f"data folder: {data}"
    assert re.search(rf": {re.escape(url)}/enter/\S+$", entry)
    assert crm("user", "login-link", "acme", "1").stdout.startswith(f"{url}/enter/")
    (other := tmp_path / "other").mkdir()
    listed = crm("tenant", "list", "--json", "--data", str(other), env=environ_for(other))
    assert listed.stdout == "[]\n"
    (row,) = json.loads(crm("tenant", "list", "--json").stdout)
    assert (row["tenant"], row["plan"]) == ("acme", "business")
    commands = re.findall(r"^  (\w+)", crm("--help").stdout.partition("Commands:")[2], re.M)
    assert {"backup", "tenant", "user", "key", "migrate"} <= set(commands)
    assert not {"serve", "demo", "config", "systemd", "proxy", "openapi"} & set(commands)


WON = """
from shop import *
{lines}
assert crm.callbacks.wait(10)
assert page.records[0]["deal_id"] == made["deal_id"]
with crm.tenant("acme"):
    print([task["title"] for task in crm.tasks.list().records])
{own_fields}
assert page.records[0]["custom"] == {{"budget": 1200}}
"""


@pytest.mark.process
def test_the_guides_lines_work_as_they_stand(tmp_path):
    (shop,) = blocks(section("embedding", "Example"), "python")
    won, own_fields = blocks(section("embedding", "Calls from Python"), "python")
    (commands,) = blocks(section("embedding", "Example"))
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "won.py").write_text(WON.format(lines=won, own_fields=own_fields))
    lines = commands.replace(".venv/bin/flask", f"{sys.executable} -m flask")
    lines = lines.replace("5000", str(find_free_port()))
    lines = lines.replace(" &\n", " & SERVER=$!\ntrap 'kill $SERVER' EXIT\n")
    said = run(
        f"{lines}\n{sys.executable} won.py",
        tmp_path,
        PYTHONPATH=str(ROOT),
        CRM_DATA="",
        **environ_for(tmp_path / "instance" / "crm"),
    )
    assert '{"status":"ok"}{"lead":"1"}' in said
    assert said.endswith("['Подякувати: Столи']\n")
    assert Tenants(config_for(tmp_path / "instance" / "crm")).labels() == ["acme"]
