"""The bare address of the machine shows the base host's page, and never a tenant's data."""

import re

from crm.access import sessions
from crm.installation.hosts import is_ip_address
from tests.cases import loop_over
from tests.conftest import OLENA
from tests.installations import config_for
from tests.page_client import Person
from tests.raw_wsgi import send_request

ADDRESSES = (
    *("127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000", "10.0.0.7:8000", "203.0.113.5"),
    *("0.0.0.0:8000", "[2001:DB8::7]:8000", "[::ffff:127.0.0.1]:8000"),
)
NOT_ADDRESSES = (
    *("127.0.0.1.", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1:x", "127.0.0.1:", "1.2.3.256"),
    *("127.0.0.1.evil.example", "evil.example", "rebound.example:8000", "::1", "[::1"),
    "[fe80::1%25eth0]",
    *("127.0.0.1@evil.example", "acme.127.0.0.1", "[acme]", "localhost.example", "０.0.0.1", "[]"),
    *("127.0.0.1\n", "127.0.0.1, acme.localhost", "٠.0.0.1", "01.2.3.4", ""),
)  # fmt: skip


@loop_over("host", ADDRESSES)
def test_an_address_of_the_machine_shows_the_base_hosts_page(crm, host):
    assert is_ip_address(host)
    answer = send_request(crm, path="/", host=host)
    page = answer.body.decode()
    assert answer.status == 200
    at_base = send_request(crm, path="/", host="localhost").body.decode()
    heading = re.search(r"<h1>.*?</h1>", page)[0]
    assert heading in at_base
    assert 'action="/open"' in page
    assert 'href="http://localhost:8000/signup"' in page  # where its cookies and codes belong


@loop_over("host", NOT_ADDRESSES)
def test_any_other_unknown_host_stays_a_404(crm, host):
    assert not is_ip_address(host)
    if host:
        answer = send_request(crm, path="/", host=host.encode("utf-8").decode("latin-1"))
        assert answer.status == 404


@loop_over("host", ADDRESSES[::4])
def test_the_api_and_tenants_pages_are_404_there(crm, furnished, host):
    with crm.tenants.session("acme"):
        token = sessions.open(OLENA, "tests")
    headers = {
        "Authorization": f"Bearer {furnished[1]['olena']}",
        "Cookie": f"crm_session={token}",
    }
    for path in ("/api/v1/leads", "/api/v1/openapi.json", "/api/v1/docs", "/leads", "/login",
                 "/settings", "/search?q=a", "/nothing"):  # fmt: skip
        for method in ("GET", "POST"):
            answer = send_request(crm, method, path, headers, host=host)
            assert answer.status in (404, 405), (method, path)  # as at the base host
            assert b"Olena" not in answer.body and b"Acme" not in answer.body
    answer = send_request(crm, path="/", headers=headers, host=host)
    assert b"Olena" not in answer.body and b"Acme" not in answer.body


def test_sign_up_goes_on_at_the_base_host(crm):
    for path in ("/signup", "/signup/code", "/signup/company"):
        answer = send_request(crm, path=path, host="127.0.0.1:8000")
        assert (answer.status, answer.headers["Location"]) == (303, f"http://localhost:8000{path}")


def test_the_way_to_a_tenant_leads_to_its_own_address(crm):
    person = Person(crm, "", domain="127.0.0.1")
    person.sees("/")
    page = person.post("/open", {"label": "acme"})
    assert (page.status_code, page.location) == (303, "http://acme.localhost:8000/login")
    assert person.post("/open", {"label": "nobody"}).status_code == 422


def test_with_one_tenant_nothing_changes(crm, clock, new_app):
    app = new_app(config_for(crm.tenants.config.data, tenant="acme"), clock, sends=False)
    answer = send_request(app, path="/", host="127.0.0.1:8000")
    assert (answer.status, answer.headers["Location"]) == (303, "/login")


def test_behind_a_proxy_the_address_that_it_was_asked_at_counts(crm, clock, new_app):
    app = new_app(config_for(crm.tenants.config.data, trusted_proxies=1), clock, sends=False)
    asked = {"X-Forwarded-Host": "nobody.localhost"}
    assert send_request(app, path="/", headers=asked, host="127.0.0.1:8000").status == 404
