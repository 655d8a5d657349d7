"""Every page of the map × who looks at it: the role decides, and nobody sees another tenant's."""

import re
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
    *("GET /logo", "GET /offline", "GET /worker.js"),
}
each_closed = loop_over("name", CLOSED)


@pytest.fixture
def ask(crm):
    """One request of a page by a person of that role, or by nobody; ids are nobody's."""

    def ask(name: str, role: str | None, label: str = "acme"):
        method, _, rule = name.partition(" ")
        path = re.sub(r"<any\((\w+).*?>", r"\1", rule)
        path = re.sub(r"<[^>]+>", "999", path)
        client = crm.test_client()
        if role:
            with crm.tenants.session("acme"):
                record = users.User.first("role = ? AND active = 1", role)
                id = record.id if record else users.create({"name": role, "role": role}).id
                token = sessions.open(id, "tests")
            client.set_cookie(COOKIE, token, domain=f"{label}.localhost")
        return client.open(path, method=method, headers={"Host": f"{label}.localhost"})

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
        own = path == "/settings" or path.startswith("/settings/profile")
        assert not path.startswith("/settings") or own or view.role == OWNER, name


def test_what_changes_something_is_not_for_viewers():
    for name, view in CLOSED.items():
        own = "/settings/profile" in name or name.endswith(("/logout", "/alerts/seen"))
        assert name.startswith("GET ") or own or view.role != VIEWER, name


@each_closed
def test_without_a_session_a_page_leads_to_the_login(ask, name):
    answer = ask(name, None)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login")


@each_closed
def test_a_session_means_nothing_at_another_tenant(ask, name):
    answer = ask(name, OWNER, "globex")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login")


@each_closed
@loop_over("role", ["viewer", "seller", "manager"])
def test_a_role_sees_what_it_may_and_nothing_else(ask, name, role):
    view = CLOSED[name]
    rank = {"viewer": 1, "seller": 2, "manager": 3, "owner": 4}
    answer = ask(name, role)
    if rank[role] < rank[view.role]:
        assert answer.status_code == 403
    else:
        # Nobody's ids are not found, and a form without its token is refused.
        assert answer.status_code in ((400,) if name.startswith("POST") else (200, 302, 303, 404))


@loop_over("name", [name for name in PAGES if name.startswith("POST ")])
def test_a_form_without_its_token_changes_nothing(ask, name, crm):
    if TENANT in PAGES[name].at:
        before = read_tables(crm.tenants, "acme")
        answer = ask(name, OWNER)
        assert answer.status_code == 400
        after = read_tables(crm.tenants, "acme")
        changed = {name for name, result in after.items() if result != before[name]}
        assert changed <= {"session", "sqlite_sequence"}
    else:
        host = {"Host": "localhost"}
        path = name.partition(" ")[2]
        assert crm.test_client().post(path, headers=host).status_code == 400
