"""The site's login lets people in to the cabinet, and its cookies stay below the prefix."""

import inspect
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, g, redirect, request, session
from flask_wtf.csrf import CSRFProtect
from werkzeug.local import LocalProxy
from werkzeug.test import Client

from crm import CRM
from crm.access import links, sessions
from crm.resources import tenant
from crm.resources.users import update as update_user
from crm.storage.session import row, rows, transaction
from tests.conftest import OLENA, TARAS
from tests.embedding.test_embedding import copied
from tests.installations import settings_for
from tests.passwords import set_password
from tests.sites import hostile, logged_in, plain

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_wiring")]

HOST = "shop.example.ua"
HOME = f"http://{HOST}"
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class Guest:
    """A browser at the site: cookies by their paths, forms with the CRM's token."""

    def __init__(self, site: Flask, home: str = HOME):
        self.site, self.home = site, home
        self.client = Client(site)

    def logs_in(self, **who: str) -> None:
        assert self.get("/login", query_string=who).status_code == 200

    def get(self, path: str, **options: Any) -> Any:
        options = {"base_url": self.home, "headers": {"Referer": self.home}, **options}
        return self.client.get(path, buffered=True, **options)

    def post(self, path: str, form: dict[str, str] | None = None, at: str = "/crm/leads") -> Any:
        """A form of the page at `at`."""
        match = TOKEN.search(self.get(at).text)
        sent = {"csrf_token": match[1] if match else "", **(form or {})}
        options = {"base_url": self.home, "headers": {"Referer": self.home}, "buffered": True}
        return self.client.post(path, data=sent, **options)

    def sees(self, path: str, status: int = 200) -> str:
        page = self.get(path)
        assert page.status_code == status, f"{page.status_code}: {page.text}"
        return page.text


@pytest.fixture
def embed(tmp_path: Path, furnished) -> Iterator[Any]:
    """Makes acme's cabinet in a plain site with a login."""
    made = []
    data = copied(furnished, tmp_path / "data")

    def make(site: Flask | None = None, **options: Any) -> tuple[CRM, Guest]:
        site = site or plain(tmp_path)
        usual = settings_for(data) | {"tenant": "acme", "sends": False, "current_user": logged_in}
        crm = CRM(site, **{"url_prefix": "/crm", **usual, **options})
        made.append(crm)
        return crm, Guest(site)

    yield make
    for crm in made:
        crm.app.tenants.forget_idle()


def users(crm: CRM) -> list[tuple]:
    with crm.tenant("acme"):
        return rows('SELECT name, role, email, phone, site_id FROM "user" ORDER BY id')


NADIIA = {"id": "u77", "name": "Надія", "role": "manager", "email": "nadiia@shop.example"}


# Who comes in


def test_whoever_is_logged_in_at_the_site_is_in(embed):
    crm, guest = embed()
    assert guest.get("/crm/leads").location == "/crm/login?next=/leads"
    guest.logs_in(**NADIIA, phone="067 111 22 33")
    assert "Надія" in guest.sees("/crm/")
    assert users(crm)[2:] == [("Надія", "manager", "nadiia@shop.example", "+380671112233", "u77")]
    guest.get("/logout")
    assert guest.get("/crm/leads").location == "/crm/login?next=/leads"


def test_there_is_no_session_of_ours_and_forms_carry_our_token(embed):
    crm, guest = embed()
    guest.logs_in(**NADIIA)
    form = {"name": "Марія", "phone": "067 123 45 67"}
    made = guest.post("/crm/leads", form, at="/crm/leads")
    assert (made.status_code, made.location) == (303, "/crm/leads/1")
    options = {"base_url": HOME, "data": form}
    assert guest.client.post("/crm/leads", **options).status_code == 400
    assert guest.client.get_cookie("crm_session", domain=HOST, path="/crm") is None
    with crm.tenant("acme"):
        assert row("SELECT count(*) FROM session") == (0,)
        assert crm.leads.get(1)["created_by"] == "3"


def test_a_form_of_another_user_of_the_site_is_refused(embed):
    _, guest = embed()
    guest.logs_in(**NADIIA)
    token = TOKEN.search(guest.sees("/crm/leads"))[1]
    guest.logs_in(id="u78", name="Інша", role="manager")
    sent = {"csrf_token": token, "name": "Марія", "phone": "067 123 45 67"}
    headers = {"Referer": HOME}
    page = guest.client.post("/crm/leads", data=sent, base_url=HOME, headers=headers)
    assert page.status_code == 400
    assert guest.post("/crm/leads", sent | {"csrf_token": ""}).status_code == 400
    del sent["csrf_token"]
    assert guest.post("/crm/leads", sent).status_code == 303


def test_the_role_is_the_sites(embed):
    _, guest = embed()
    new = re.compile(r'<form method="post" action="/crm/leads"')
    guest.logs_in(**NADIIA)
    assert new.search(guest.sees("/crm/leads/new"))
    guest.logs_in(**NADIIA | {"role": "viewer"})
    assert not new.search(guest.sees("/crm/leads"))
    refused = guest.post("/crm/leads", {"name": "Марія", "phone": "067 123 45 67"})
    assert refused.status_code == 403
    assert guest.get("/crm/settings/users").status_code == 403
    guest.logs_in(**NADIIA | {"role": "owner"})
    assert guest.get("/crm/settings/users").status_code == 200


@pytest.mark.parametrize("reach", [{"email": "OLENA@acme.example"}, {"phone": "050 111 00 01"}])
def test_who_is_here_already_is_known_by_email_or_phone(embed, reach):
    crm, guest = embed()
    guest.logs_in(id="7", name="Олена П.", role="owner", **reach)
    guest.sees("/crm/settings/users")
    assert users(crm)[0] == ("Олена П.", "owner", "olena@acme.example", "+380501110001", "7")
    assert len(users(crm)) == 2
    guest.logs_in(id="7", name="Олена П.", role="owner", email="new@acme.example")
    guest.sees("/crm/")
    assert len(users(crm)) == 2  # the site's id counts from then on


def test_whom_another_id_has_claimed_is_not_taken_over(embed):
    crm, guest = embed()
    guest.logs_in(**NADIIA)
    guest.sees("/crm/")
    guest.logs_in(**NADIIA | {"id": "u78", "name": "Інша"})
    guest.sees("/crm/")
    assert users(crm)[2:] == [
        ("Надія", "manager", "nadiia@shop.example", None, "u77"),
        ("Інша", "manager", None, None, "u78"),
    ]


@pytest.mark.parametrize(
    ("who", "id", "name"),
    [
        ({"email": "A@shop.example", "role": "viewer"}, "a@shop.example", "A@shop.example"),
        ({"name": "Катря", "role": "viewer"}, "name:Катря", "Катря"),
        ({"id": "0", "name": "Нуль", "role": "viewer"}, "0", "Нуль"),
        ({"id": "9", "role": "viewer", "phone": "nonsense", "email": "nonsense"}, "9", "9"),
    ],
)
def test_without_an_id_it_is_the_email_else_the_name(embed, who, id, name):
    crm, guest = embed()
    guest.logs_in(**who)
    guest.sees("/crm/")
    assert [(user[4], user[0]) for user in users(crm)[2:]] == [(id, name)]


def test_who_calls_himself_by_the_id_of_another_is_not_taken_for_him(embed):
    crm, guest = embed()
    for who in ({"name": "Надія", "email": "nadiia@shop.example"}, {"id": "7", "name": "Іван"}):
        guest.get("/logout")
        guest.logs_in(**who, role="manager")
        guest.sees("/crm/")
    for name in ("nadiia@shop.example", "7"):
        guest.get("/logout")
        guest.logs_in(name=name, role="viewer")
        guest.sees("/crm/")
    assert [(name, role) for name, role, *_ in users(crm)[2:]] == [
        ("Надія", "manager"),
        ("Іван", "manager"),
        ("nadiia@shop.example", "viewer"),
        ("7", "viewer"),
    ]


def test_the_last_owner_whom_the_site_demotes_stays_one_and_may_do_less(embed):
    crm, guest = embed()
    olena = {"id": "1", "name": "Olena", "email": "olena@acme.example"}
    guest.logs_in(**olena, role="viewer")
    assert guest.get("/crm/leads").status_code == 200
    assert guest.get("/crm/settings/users").status_code == 403
    assert users(crm)[0][1] == "owner"
    guest.logs_in(**olena, role="owner")
    assert guest.get("/crm/settings/users").status_code == 200
    other = Guest(guest.site)
    other.logs_in(**NADIIA | {"role": "owner"})
    other.sees("/crm/")
    guest.logs_in(**olena, role="viewer")
    guest.sees("/crm/")
    assert users(crm)[0][1] == "viewer"  # now there is another


def test_who_was_deactivated_is_refused_and_everybody_by_a_suspended_tenant(embed):
    crm, guest = embed()
    with crm.tenant("acme"), transaction():
        update_user(TARAS, {"active": 0})
    guest.logs_in(id="2", name="Тарас", role="owner", phone="050 111 00 02")
    assert "У вас немає доступу до цього" in guest.sees("/crm/", 403)
    assert guest.post("/crm/leads", {"name": "x"}).status_code == 403
    assert [user[1] for user in users(crm)] == ["owner", "manager"]
    with crm.tenant("acme"):
        tenant.suspend()
    guest.logs_in(**NADIIA)
    guest.sees("/crm/", 403)


def test_who_has_no_role_is_refused_and_not_kept(embed):
    crm, guest = embed(current_user=lambda: {"name": "Хтось", "role": None})
    guest.sees("/crm/", 403)
    assert len(users(crm)) == 2


# How it is asked


class Person:
    """As a model of a site, or a user of Flask-Login."""

    def __init__(self, **about: Any):
        vars(self).update(about)


@pytest.mark.parametrize(
    ("who", "status"),
    [
        (Person(id=5, name="Надія", role="manager"), 200),
        (Person(id=5, name="Надія", role="manager", is_authenticated=True), 200),
        (Person(is_authenticated=False), 302),
        ({}, 302),
        (None, 302),
        (False, 302),
    ],
)
def test_it_may_be_an_object_or_nobody(embed, who, status):
    _, guest = embed(current_user=lambda: who)
    assert guest.get("/crm/leads").status_code == status


def test_it_is_asked_once_for_a_page_and_never_for_anything_else(embed):
    asked = []

    def who() -> dict[str, str]:
        asked.append((request.path, request.method, request.get_data(), g.get("by_the_site")))
        return NADIIA

    _, guest = embed(current_user=who)
    for path in ("/crm/api/v1/leads", "/crm/api/v1/docs", "/crm/livez", "/", "/crm/nothing"):
        guest.get(path)
    guest.get("/crm/cabinet/cabinet.css")
    assert asked == []
    guest.post("/crm/leads", {"name": "Марія", "phone": "067 123 45 67"})
    assert asked == [("/crm/leads", "GET", b"", None), ("/crm/leads", "POST", b"", None)]


def test_it_is_asked_as_in_a_view_of_the_site_without_its_hooks(embed, tmp_path):
    site, seen = hostile(tmp_path), []

    def who() -> dict[str, str] | None:
        seen.append((request.host, session.get("role"), request.endpoint))
        return NADIIA

    _, guest = embed(site, current_user=who)
    assert guest.get("/crm/leads").status_code == 200
    assert seen == [(HOST, None, "hidden")]
    assert set(site.heard) == {"teardown", "appcontext"}  # of the context that was made for it
    assert "X-Site" not in guest.get("/crm/leads").headers


def line_of(text: str) -> int:
    """The number of the only line of this file that ends so."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [at for at, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return number


class Staff:
    """A user of a site with a mistake in each property."""

    name = "Надія"

    @property
    def role(self) -> str:
        return self.account.kind  # no account

    @property
    def email(self) -> str:
        return {"надія": 1}["nadiia@shop.example"]  # no e-mail


class Manager(Staff):
    role = "manager"


@pytest.mark.parametrize(
    "who, told",
    [
        (lambda: LocalProxy(Staff).nmae, "current_user: AttributeError ('nmae') in <lambda>"),  # a
        (Staff, "current_user: its role: AttributeError ('account') in role"),
        (lambda: LocalProxy(Staff), "current_user: its role: AttributeError ('account') in role"),
        (Manager, "current_user: its email: KeyError in email"),
        (lambda: undefined_name, "current_user: NameError ('undefined_name') in <lambda>"),  # noqa: F821
    ],
    ids=["proxy", "property", "property behind a proxy", "other error", "name"],
)
def test_a_failure_tells_the_sites_own_line_and_attribute(embed, caplog, who, told):
    _, guest = embed(current_user=who)
    page = guest.sees("/crm/leads", 500)
    assert "nmae" not in page and "account" not in page
    assert f"{told}, test_login.py:" in caplog.text
    assert "nadiia@shop" not in caplog.text
    for text, mark in (("'nmae'", "a"), ("'account'", "no account"), ("its email", "no e-mail")):
        if text in told:
            assert f".py:{line_of(mark)}" in caplog.text


class Broken:
    def __str__(self) -> str:
        raise ValueError("Секрет")


def test_an_async_function_is_called_as_the_site_calls_its_views(embed, tmp_path):
    async def who() -> dict[str, Any]:
        return {**NADIIA}

    async def whose(request: Any) -> str:
        return "acme"

    def result_of(call: Coroutine[Any, Any, Any]) -> Any:
        with pytest.raises(StopIteration) as ended:
            call.send(None)
        return ended.value.value

    def ensure_sync(view: Any) -> Any:
        is_async = inspect.iscoroutinefunction(view)
        return (lambda *given: result_of(view(*given))) if is_async else view

    site = plain(tmp_path)
    site.ensure_sync = ensure_sync  # Flask's own needs another package
    _, guest = embed(site, current_user=who, tenant=whose)
    assert "Надія" in guest.sees("/crm/leads")


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ({"id": Broken(), "name": "Секрет", "role": "owner"}, "ValueError in __str__"),
        ({"id": "1\ud800", "name": "Секрет", "role": "owner"}, "has no id, e-mail or name"),
        ({"name": "Секрет", "role": "boss"}, "role does not fit; a role is one of owner, manager"),
        ({"role": "owner"}, "has no id, e-mail or name that can be kept"),
        ({"id": "x" * 256, "role": "owner"}, "has no id, e-mail or name that can be kept"),
        ({"id": 1, "name": "Секрет\0", "role": "owner"}, "name does not fit"),
    ],
)
def test_what_is_of_no_use_is_the_sites_mistake(embed, who, said, caplog):
    _, guest = embed(current_user=lambda: who)
    guest.sees("/crm/", 500)
    assert said in caplog.text
    assert "Секрет" not in caplog.text


# Beside the CRM's own login


def test_without_a_login_page_of_the_site_ours_stays(embed):
    crm, guest = embed()
    assert 'action="/crm/login"' in guest.sees("/crm/login")
    with crm.tenant("acme"):
        token = sessions.open(OLENA, "tests")
    guest.client.set_cookie("crm_session", token, domain=HOST, path="/crm")
    assert "Olena" in guest.sees("/crm/leads")
    guest.logs_in(**NADIIA)
    assert "Надія" in guest.sees("/crm/leads")  # the site's word comes first
    out = guest.post("/crm/logout")
    assert out.location == "/"  # back to the site, where the login is
    with crm.tenant("acme"):
        assert sessions.list_live(OLENA) == []
    guest.get("/logout")
    assert guest.get("/crm/leads").location == "/crm/login?next=/leads"


def test_with_a_login_page_of_the_site_it_is_the_only_one(embed):
    crm, guest = embed(login_url="/login?via=crm", logout_url="/logout")
    assert guest.get("/crm/leads?q=a").location == "/crm/login?next=/leads?q%3Da"
    page = guest.get("/crm/login?next=/leads?q%3Da")
    assert page.location == "/login?via=crm&next=%2Fcrm%2Fleads%3Fq%3Da"
    for path in ("/login/password", "/login/code", "/forgot", "/reset/x", "/invite/x"):
        assert guest.get(f"/crm{path}").location.startswith("/login?via=crm&next=%2Fcrm%2F")
    assert guest.get("/crm/login?next=//evil.example").location == "/login?via=crm&next=%2Fcrm%2F"
    with crm.tenant("acme"):
        set_password(OLENA, "a long password")
    form = {"email": "olena@acme.example", "password": "a long password"}
    refused = guest.post("/crm/login/password", form, at="/crm/nothing")
    assert refused.location.startswith("/login?via=crm")
    assert guest.client.get_cookie("crm_session", domain=HOST, path="/crm") is None
    guest.logs_in(**NADIIA)
    assert guest.get("/crm/login?next=/tasks").location == "/crm/tasks"
    assert guest.post("/crm/logout").location == "/logout"


@pytest.mark.parametrize("protected", [False, True], ids=["without tokens", "with CSRFProtect"])
def test_logging_out_ends_the_login_of_a_site_whose_logout_is_by_post(embed, tmp_path, protected):
    site = plain(tmp_path)
    if protected:
        CSRFProtect(site)

    @site.post("/out")
    def out() -> Any:
        session.clear()
        return redirect("/goodbye")

    _, guest = embed(site, logout_url="/out")
    guest.logs_in(**NADIIA)
    page = guest.post("/crm/logout")
    assert page.status_code == 200 and 'action="/out" data-submit' in page.text
    assert "Надія" not in page.text  # no menu of somebody who is leaving
    fields = re.search(r"data-submit>(.*?)<button", page.text, re.S)[1]
    sent = dict(re.findall(r'name="(\w+)" value="([^"]*)"', fields))
    assert bool(sent) == protected
    done = guest.client.post("/out", data=sent, base_url=HOME, headers={"Referer": HOME})
    assert (done.status_code, done.location) == (302, "/goodbye")
    assert guest.get("/crm/leads").location == "/crm/login?next=/leads"


@pytest.mark.parametrize("url", ["/logout", "/nowhere", "https://login.example/out"])
def test_logging_out_leads_to_any_other_page_of_the_site_by_get(embed, url):
    _, guest = embed(logout_url=url)
    guest.logs_in(**NADIIA)
    assert (left := guest.post("/crm/logout")).status_code == 303
    assert left.location == url


def test_a_login_at_another_host_gets_the_whole_way_back(embed):
    public_url = "https://{label}.crm.example.ua"
    _, guest = embed(
        url_prefix=None, domain="crm.example.ua", tenant=None, public_url=public_url,
        login_url="https://shop.example.ua/login",
    )  # fmt: skip
    page = guest.get("/login?next=/leads?q%3Da", base_url="http://acme.crm.example.ua")
    assert page.location == (
        "https://shop.example.ua/login?next=https%3A%2F%2Facme.crm.example.ua%2Fleads%3Fq%3Da"
    )
    _, guest = embed(login_url=f"{HOME}/login")
    assert guest.get("/crm/login?next=/leads").location == f"{HOME}/login?next=%2Fcrm%2Fleads"


def test_a_login_at_another_origin_is_allowed_by_the_policy(embed):
    _, guest = embed(login_url="https://id.example.ua/in", logout_url="https://id.example.ua/out")
    policy = guest.get("/crm/nothing").headers["Content-Security-Policy"]
    assert "form-action 'self' https://id.example.ua;" in policy


def test_who_comes_from_the_site_has_address_and_password_there(embed):
    crm, guest = embed()
    guest.logs_in(**NADIIA)
    page = guest.sees("/crm/settings/profile")
    assert 'name="password"' not in page and 'name="name"' not in page
    for path, form in (
        ("/crm/settings/profile/password", {"password": "a long password"}),
        ("/crm/settings/profile/email", {"email": "b@shop.example"}),
    ):
        assert guest.post(path, form).status_code == 404
    changed = guest.post("/crm/settings/profile", {"language": "en"})
    assert changed.location == "/crm/settings/profile"
    assert "Leads" in guest.sees("/crm/leads")
    with crm.tenant("acme"):
        assert row("SELECT password FROM \"user\" WHERE site_id = 'u77'") == (None,)


# Cookies


def attributes(page: Any) -> dict[str, set[str]]:
    results = (cookie.split("; ") for cookie in page.headers.getlist("Set-Cookie"))
    return {
        first.partition("=")[0]: {part for part in rest if "=" not in part or "Path" in part}
        for first, *rest in results
    }


def test_cookies_stay_below_the_prefix(embed):
    crm, guest = embed()
    guest.post("/crm/login", {"phone": "050 111 00 01"}, at="/crm/login")
    names = ("crm_form", "crm_browser")
    for name in names:
        assert guest.client.get_cookie(name, domain=HOST, path="/crm") is not None
    page = guest.post("/crm/language", {"language": "en"}, at="/crm/login")
    assert attributes(page)["crm_language"] == {"HttpOnly", "Path=/crm"}
    with crm.tenant("acme"):
        token = links.create(links.LOGIN, OLENA)
    page = guest.post(f"/crm/enter/{token}", at=f"/crm/enter/{token}")
    assert attributes(page)["crm_session"] == {"HttpOnly", "Path=/crm"}
    assert "Olena" in guest.sees("/crm/")
    page = guest.post("/crm/logout")
    assert "Path=/crm" in attributes(page)["crm_session"]
    assert guest.client.get_cookie("crm_session", domain=HOST, path="/crm") is None


def test_under_https_they_are_secure_without_demanding_the_root(embed):
    crm, guest = embed()
    guest.home = f"https://{HOST}"
    strict = {"HttpOnly", "Secure", "Path=/crm"}
    assert attributes(guest.get("/crm/login")) == {"__Secure-crm_form": strict}
    with crm.tenant("acme"):
        token = links.create(links.LOGIN, OLENA)
    page = guest.post(f"/crm/enter/{token}", at=f"/crm/enter/{token}")
    assert attributes(page)["__Secure-crm_session"] == strict
    assert "Olena" in guest.sees("/crm/")
