"""Every page of the map × who looks at it: the role decides, and nobody sees another tenant's."""

import re
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from crm import create_app
from crm.access import sessions
from crm.api.operations import PREFIX
from crm.cabinet.login.authentication import COOKIE, STATIC
from crm.cabinet.rendering import BASE_HOST, OWNER, TENANT, VIEWER
from crm.config import Config
from crm.resources import users
from crm.resources.inbound import hooks as inbound_hooks
from tests.cases import loop_over
from tests.csv_helpers import load
from tests.page_client import Person
from tests.tables import read_tables

MAP = create_app(Config(data=Path("unused")), sends=False)
PAGES = {
    f"{method} {rule.rule}": MAP.view_functions[rule.endpoint]
    for rule in MAP.url_map.iter_rules()
    if not rule.rule.startswith((PREFIX, f"{inbound_hooks.PATH}/"))
    and rule.endpoint not in STATIC
    and not rule.endpoint.startswith("oauth.")  # for programs: test_oauth.py
    for method in sorted(rule.methods - {"HEAD", "OPTIONS"})
}
AT_TENANT = {name: view for name, view in PAGES.items() if TENANT in view.at}
CLOSED = {name: view for name, view in AT_TENANT.items() if view.role}
# What people without a session may see and do at a tenant's host.
OPEN = {
    *("GET /", "GET /login", "POST /login", "GET /forgot", "POST /forgot", "GET /forgot/sent"),
    *("POST /language", "POST /logout"),
    *("GET /guides", "GET /guides/", "GET /guides/<path:name>"),
    *("GET /help", "GET /help/", "GET /help/<name>"),
    *("GET /logo", "GET /offline", "GET /worker.js"),
}
MARKER = "ACMESOWN"
each_closed = loop_over("name", CLOSED)


@pytest.fixture
def ask(crm):
    """One request of a page by a person of that role, or by nobody; ids are nobody's."""
    asked = count()

    @cache
    def log_in(role: str | None, label: str, _: int):
        client = crm.test_client()
        if role:
            with crm.tenants.session("acme"):
                record = users.User.first("role = ? AND active = 1", role)
                id = record.id if record else users.create({"name": role, "role": role}).id
                token = sessions.open(id, "tests")
            client.set_cookie(COOKIE, token, domain=f"{label}.localhost")
        return client

    def ask(name: str, role: str | None, label: str = "acme"):
        method, _, rule = name.partition(" ")
        path = re.sub(r"<any\((\w+).*?>", r"\1", rule)
        path = re.sub(r"<[^>]+>", "999", path)
        turn = next(asked) // 50  # so many pages a minute may a session have, or an address
        address = {"REMOTE_ADDR": f"127.0.0.{turn + 1}"}
        headers = {"Host": f"{label}.localhost"}
        client = log_in(role, label, turn)
        return client.open(path, method=method, headers=headers, environ_base=address)

    return ask


def test_every_page_says_who_may_see_it_and_where():
    assert len(PAGES) > 60
    for name, view in PAGES.items():
        assert view.role in (None, "viewer", "seller", "manager", "owner"), name
        assert set(view.at) <= {TENANT, BASE_HOST}, name


def test_what_is_open_is_listed_here_or_carries_a_token():
    opened = {name for name, view in AT_TENANT.items() if not view.role}
    assert {name for name in opened if "<token>" not in name and "/login" not in name} <= OPEN


def test_settings_but_the_own_profile_are_the_owners():
    for name, view in CLOSED.items():
        path = name.partition(" ")[2]
        own = path in ("/settings", "/settings/continue") or "/settings/profile" in path
        assert not path.startswith("/settings") or own or view.role == OWNER, name


def test_what_changes_something_is_not_for_viewers():
    for name, view in CLOSED.items():
        own = "/settings/profile" in name or name.endswith(("/logout", "/alerts/seen"))
        assert name.startswith("GET ") or own or view.role != VIEWER, name


@each_closed
def test_without_a_session_of_this_tenant_a_page_leads_to_the_login(ask, name):
    for role, label in ((None, "acme"), (OWNER, "globex")):
        answer = ask(name, role, label)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/login")


@each_closed
def test_a_page_is_for_its_role_and_not_for_the_one_below(ask, name):
    roles = ["viewer", "seller", "manager", "owner"]
    needed = roles.index(CLOSED[name].role)
    if needed:
        assert ask(name, roles[needed - 1]).status_code == 403
    # Nobody's ids are not found; a form without its token and a page without its query are refused.
    expected = (400,) if name.startswith("POST") else (200, 302, 303, 404, 422)
    assert ask(name, roles[needed]).status_code in expected


def test_a_form_without_its_token_changes_nothing(ask, crm):
    before = read_tables(crm.tenants, "acme")
    for name in [name for name in PAGES if name.startswith("POST ")]:
        if TENANT in PAGES[name].at:
            assert ask(name, OWNER).status_code == 400, name
        else:
            host, path = {"Host": "localhost"}, name.partition(" ")[2]
            assert crm.test_client().post(path, headers=host).status_code == 400, name
    after = read_tables(crm.tenants, "acme")
    changed = {name for name, result in after.items() if result != before[name]}
    assert changed <= {"session", "sqlite_sequence"}


def test_no_page_reaches_another_tenant(crm, api):
    """Ivan asks at globex for records of acme, two of each kind: globex has no second of any."""
    for number in range(2):
        client = api.create("/clients", name=MARKER, contacts=[{"name": MARKER}])
        deal = api.create("/deals", title=MARKER, client_id=client)
        api.create(f"/deals/{deal}/items", name=MARKER, price=1)
        api.create(f"/deals/{deal}/notes", text=MARKER)
        api.create("/leads", name=MARKER, phone="+380671234567")
        api.create("/products", name=MARKER, price=1)
        api.create("/tasks", title=MARKER)
        api.create("/pipelines", name=MARKER)
        api.create("/webhooks", url=f"https://{MARKER.lower()}.example.com/")
        api.create("/inbound-hooks", name=MARKER, target="lead")
        view = {"resource": "leads", "name": f"{MARKER}{number}", "query": {}, "shared": True}
        api.create("/views", **view)
        change = {"resource": "tasks", "ids": ["1"], "set": {"description": MARKER}}
        api.post("/proposals", {**change, "why": MARKER})
        with crm.tenants.session("acme"):
            load("leads", f"name,phone\n{MARKER},0671234567\n{MARKER},\n")
    before, asked = read_tables(crm.tenants, "acme"), 0
    form = {"name": "x", "title": "x", "text": "x", "status": "open", "sure": "1"}
    for name in CLOSED:
        method, _, rule = name.partition(" ")
        path = re.sub(r"<any\(([^,)]*).*?>", r"\1", rule)
        has_id, path = "<" in path, re.sub(r"<[^>]+>", "2", path)
        if method == "POST" and not has_id:  # it would make a second one
            continue
        if asked % 50 == 0:  # a session may have so many pages a minute
            ivan = Person(crm, "globex", 1)
        asked += 1
        page = ivan.get(path) if method == "GET" else ivan.post(path, form)
        assert MARKER.lower() not in page.text.lower(), name
        own = "/settings/profile/sessions" in path or "<name>" in rule
        assert not has_id or own or page.status_code in (404, 422), (name, page.status_code)
    assert asked > 100
    assert read_tables(crm.tenants, "acme") == before
