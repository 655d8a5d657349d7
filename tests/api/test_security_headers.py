"""Headers that keep browsers from guessing and from plain http, and prefixes that are believed."""

import http.client
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from crm import CRM, CRMApp
from tests.cases import loop_over
from tests.conftest import Clock, key_for
from tests.embedding.test_embedding import copied
from tests.installations import config_for, settings_for
from tests.raw_wsgi import WsgiResponse, send_request
from tests.server_process import TIMEOUT_SECONDS, run_server
from tests.sites import plain

pytestmark = pytest.mark.usefixtures("shared_wiring")

each = pytest.mark.parametrize
HSTS = "max-age=31536000"  # a year, of this host alone
FROM_PROXY = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_X_FORWARDED_FOR": "198.51.100.1"}


@pytest.fixture
def behind(furnished: Any, tmp_path: Any, clock: Any, new_app: Any) -> CRMApp:
    """The same data behind one trusted proxy."""
    config = config_for(copied(furnished, tmp_path / "behind"), trusted_proxies=1)
    return new_app(config, clock, sends=False)


def every_kind(crm: CRMApp) -> list[WsgiResponse]:
    """An answer of each kind: pages, API, files, redirects, refusals, health."""
    key = {"Authorization": f"Bearer {key_for(crm, 'acme', '*')}"}
    json = {**key, "Content-Type": "application/json"}
    body = b'{"name": "a", "phone": "+380671234567"}'
    created = send_request(crm, "POST", "/api/v1/leads", json, body)
    path = created.headers["Location"]
    record = send_request(crm, path=path, headers=key)
    etag = {**key, "If-None-Match": record.headers["ETag"]}
    page = send_request(crm, path="/login")
    (file, query) = re.findall(r'"(/cabinet/bootstrap.min.css)\?(v=\w+)"', page.body.decode())[0]
    answers = [
        (201, created),
        (200, record),
        (304, send_request(crm, path=path, headers=etag)),
        (200, send_request(crm, "HEAD", path, key)),
        (200, send_request(crm, headers=key)),
        (204, send_request(crm, "DELETE", path, key)),
        (404, send_request(crm, path=path, headers=key)),
        (401, send_request(crm)),
        (405, send_request(crm, "PUT", headers=key)),
        (400, send_request(crm, "POST", "/api/v1/leads", json, b"{")),
        (415, send_request(crm, "POST", "/api/v1/leads", key, b"{}")),
        (200, send_request(crm, "OPTIONS", headers=key)),
        (204, send_request(crm, "OPTIONS", headers={"Access-Control-Request-Method": "POST"})),
        (200, send_request(crm, path="/api/v1/leads/export", headers=key)),
        (200, send_request(crm, path="/api/v1/openapi.json")),
        (200, send_request(crm, path="/api/v1/docs")),
        (200, page),
        (302, send_request(crm, path="/leads")),
        (404, send_request(crm, path="/nowhere")),
        (400, send_request(crm, "POST", "/login", body=b"phone=1")),
        (200, send_request(crm, path=file, query=query)),
        (404, send_request(crm, path="/cabinet/nothing.css")),
        (404, send_request(crm, host="nobody.localhost")),
        (404, send_request(crm, host="a b")),
        (200, send_request(crm, path="/", host="localhost")),
        (200, send_request(crm, path="/livez")),
        (200, send_request(crm, path="/readyz")),
        (404, send_request(crm, path="/tls-ask", query="domain=nobody.localhost")),
    ]
    assert [status for status, _ in answers] == [answer.status for _, answer in answers]
    return [answer for _, answer in answers]


def test_every_answer_has_an_id_one_length_and_a_type_to_be_believed(crm: CRMApp) -> None:
    """A browser must not guess the type; a proxy refuses an answer with two lengths."""
    answers = every_kind(crm)
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        names = [name.lower() for name, _ in answer.headers]
        assert len(names) == len(set(names)), names
        length = answer.headers.get("Content-Length")
        if answer.status in (204, 304):
            assert length is None
        elif answer.body:
            assert int(length) == len(answer.body)
        else:
            assert length is not None
    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert len(ids) == len(answers) and all(len(id) >= 16 for id in ids)


def test_plain_http_promises_no_https(crm: CRMApp, behind: CRMApp) -> None:
    for answer in every_kind(crm):
        assert "Strict-Transport-Security" not in answer.headers
    assert "Strict-Transport-Security" not in send_request(crm, path="/login", **FROM_PROXY).headers
    plain = FROM_PROXY | {"HTTP_X_FORWARDED_PROTO": "http"}
    assert "Strict-Transport-Security" not in send_request(behind, path="/login", **plain).headers


def test_behind_tls_every_answer_asks_for_https(crm: CRMApp, behind: CRMApp) -> None:
    def secure(environ: dict, start_response: Any) -> Any:
        return behind(environ | FROM_PROXY, start_response)

    secure.tenants = behind.tenants
    for answer in every_kind(secure):
        assert answer.headers.getlist("Strict-Transport-Security") == [HSTS]
    by_itself = send_request(crm, path="/livez", **{"wsgi.url_scheme": "https"})
    assert by_itself.headers["Strict-Transport-Security"] == HSTS


def test_an_embedded_one_speaks_for_itself_alone(furnished: Any, tmp_path: Any) -> None:
    site = plain(tmp_path)
    data = copied(furnished, tmp_path / "embedded")
    crm = CRM(
        site,
        url_prefix="/crm",
        domain="crm.shop.ua",
        tenant="acme",
        **settings_for(data),
        sends=False,
    )
    secure = {"wsgi.url_scheme": "https", "host": "shop.ua"}
    for path in ("/", "/nowhere"):
        answer = send_request(site, path=path, **secure)
        assert "X-Content-Type-Options" not in answer.headers
        assert "Strict-Transport-Security" not in answer.headers
    for path in ("/crm", "/crm/", "/crm/login", "/crm/livez", "/crm/api/v1/leads"):
        answer = send_request(site, path=path, **secure)
        assert answer.headers.getlist("X-Content-Type-Options") == ["nosniff"], path
        assert "Strict-Transport-Security" not in answer.headers, path  # the host is the site's
    own = send_request(site, path="/login", **secure | {"host": "acme.crm.shop.ua"})
    assert own.headers["Strict-Transport-Security"] == HSTS
    crm.close()


# Where the app is mounted

NOT_PLAIN = [
    "//evil.example", "/\\evil.example", "/a/../b", "/.", "evil.example/a", "https://evil.example",
    "/a?b", "/a\r\nX: 1", '/"><script>alert(1)</script>', "/a%2f", "/ї", "/a:b",
]  # fmt: skip
PAGES = ("/login", "/leads", "/nowhere", "/api/v1/docs")


def shown(answer: WsgiResponse) -> str:
    return f"{answer.headers}{answer.body.decode()}"


@loop_over("path", PAGES)
def test_a_prefix_that_is_no_plain_path_is_ignored(behind: CRMApp, clock: Clock, path: str) -> None:
    without = send_request(behind, path=path)
    for prefix in NOT_PLAIN if path == PAGES[0] else NOT_PLAIN[::4]:
        clock.tick(60)  # an address has 30 requests without a key in a minute
        headers = {"HTTP_X_FORWARDED_PREFIX": prefix.encode().decode("latin-1")}
        forged = send_request(behind, path=path, **headers)
        assert (forged.status, shape(forged)) == (without.status, shape(without)), prefix
        mounted = send_request(behind, path=path, SCRIPT_NAME=headers["HTTP_X_FORWARDED_PREFIX"])
        assert (mounted.status, shape(mounted)) == (without.status, shape(without))


def shape(answer: WsgiResponse) -> str:
    """What is told without what is random."""
    return re.sub(
        r'Date: [^\r]*|csrf_token" value="[^"]*"|_form=[^;]*|[0-9a-f]{24}', "", shown(answer)
    )


@each("prefix", ["/a/b.c/~d", "/crm/", "/..a"])
def test_a_plain_one_of_a_trusted_proxy_is_followed(
    crm: CRMApp, behind: CRMApp, prefix: str
) -> None:
    headers = {"HTTP_X_FORWARDED_PREFIX": prefix}
    root = prefix.rstrip("/")
    assert (
        send_request(behind, path="/leads", **headers).headers["Location"]
        == f"{root}/login?next=/leads"
    )
    assert f'action="{root}/login"' in shown(send_request(behind, path="/login", **headers))
    # A client that reaches the service by itself is not asked where it is.
    assert send_request(crm, path="/leads", **headers).headers["Location"] == "/login?next=/leads"
    assert root not in shown(send_request(crm, path="/login", **headers))


@pytest.mark.process
def test_the_server_believes_nobody_by_itself(furnished: Any, tmp_path: Any) -> None:
    """gunicorn would believe who is on its own machine, and whom its variable names."""
    data = copied(furnished, tmp_path / "served")
    said = {
        "Host": "acme.localhost", "X-Forwarded-Proto": "https", "X-Forwarded-Ssl": "on",
        "X-Forwarded-Prefix": "/evil", "SCRIPT_NAME": "/login", "X-Forwarded-For": "8.8.8.8",
    }  # fmt: skip
    with run_server(data, FORWARDED_ALLOW_IPS="*") as port:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        line.request("GET", "/login", headers=said)
        answer = line.getresponse()
        text = answer.read().decode()
        line.close()
    assert answer.status == 200 and 'action="/login"' in text and "evil" not in text
    assert answer.headers["Strict-Transport-Security"] is None
    assert "__Host-" not in answer.headers["Set-Cookie"]


def test_a_mount_point_that_a_client_names_is_none(crm: CRMApp, behind: CRMApp) -> None:
    """As gunicorn hands over a header SCRIPT_NAME: out of the path, and into SCRIPT_NAME."""
    for header in ("/api", "/api,/api", "/x,/api"):
        said = {"SCRIPT_NAME": "/api", "HTTP_SCRIPT_NAME": header}
        assert send_request(crm, path="/v1/leads", **said).json["code"] == "invalid_key"
    assert send_request(behind, path="/v1/leads", **said).status == 404  # its proxy said so
    assert send_request(crm, path="/login", SCRIPT_NAME="/crm", HTTP_SCRIPT_NAME="/x").status == 200


@pytest.fixture
def embedding_site(furnished: Any, tmp_path: Any) -> Iterator[Flask]:
    site = plain(tmp_path)
    data = copied(furnished, tmp_path / "embedded")
    crm = CRM(
        site,
        url_prefix="/crm",
        tenant="acme",
        **settings_for(data),
        sends=False,
        current_user=lambda: None,
    )
    site.wsgi_app = ProxyFix(site.wsgi_app, x_prefix=1)
    yield site
    crm.close()


@loop_over("prefix", NOT_PLAIN[::3])
def test_below_a_site_the_sites_own_mount_is_checked_too(
    embedding_site: Flask, prefix: str
) -> None:
    headers = {"HTTP_X_FORWARDED_PREFIX": prefix.encode().decode("latin-1"), "host": "shop.ua"}
    page = send_request(embedding_site, path="/crm/leads", **headers)
    assert page.headers["Location"] == "/crm/login?next=/leads"
    assert shape(send_request(embedding_site, path="/crm/login", **headers)) == shape(
        send_request(embedding_site, path="/crm/login", host="shop.ua")
    )
