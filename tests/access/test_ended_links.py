"""Each change of the way in ends each link from before; a link asked for afterwards works."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import crm as package
from crm import CRMApp
from crm.access import links, passwords, sessions
from crm.access.links import EMAIL, INVITE, LOGIN, RESET
from crm.cabinet.settings.identity import FRESH_LOGIN_SECONDS
from crm.resources import users
from crm.resources.users import User
from crm.storage.session import execute, transaction
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, TARAS
from tests.copies import command, create_copy
from tests.page_client import Person, Recorder
from tests.passwords import set_password
from tests.tables import read_rows

parametrize = pytest.mark.parametrize
NEW = "taras@new.example"
PASSWORD, OLD_PASSWORD = "a new password", "the old password"
SITE_ID = "taras"
TARAS_FIELDS = {
    "name": "Taras", "email": "taras@acme.example", "phone": "+380501110002", "role": "manager",
}  # fmt: skip


@pytest.fixture(autouse=True)
def cast(crm: CRMApp, cheap_hashes: None, post: Recorder) -> None:
    """Taras has an e-mail address."""
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"email": TARAS_FIELDS["email"]})


def make(crm: CRMApp, purpose: str, about: str | None = NEW) -> str:
    with crm.tenants.session("acme"):
        return links.create(purpose, TARAS, about)


def good(crm: CRMApp, purpose: str, token: str) -> bool:
    with crm.tenants.session("acme"):
        return links.peek(purpose, token) is not None


def password_of(crm: CRMApp) -> str | None:
    with crm.tenants.session("acme"):
        return passwords.find_hash(TARAS)


# The changes, each by people who were logged in before


def first_password(crm: CRMApp, taras: Person, olena: Person) -> None:
    taras.sends("/settings/profile/password", {"password": PASSWORD})


def another_password(crm: CRMApp, taras: Person, olena: Person) -> None:
    sent = {"current": OLD_PASSWORD, "password": PASSWORD}
    taras.sends("/settings/profile/password", sent)


def password_by_reset(crm: CRMApp, taras: Person, olena: Person) -> None:
    Person(crm).sends(f"/reset/{make(crm, RESET)}", {"password": PASSWORD})


def password_by_invitation(crm: CRMApp, taras: Person, olena: Person) -> None:
    Person(crm).sends(f"/invite/{make(crm, INVITE)}", {"password": PASSWORD})


def logout_everywhere(crm: CRMApp, taras: Person, olena: Person) -> None:
    taras.sends("/settings/profile/sessions/end-others")


def own_email(crm: CRMApp, taras: Person, olena: Person) -> None:
    Person(crm).sends(f"/email/{make(crm, EMAIL, 'own@new.example')}")


def own_phone(crm: CRMApp, taras: Person, olena: Person) -> None:
    sent = {**TARAS_FIELDS, "phone": "067 111 22 33", "role": "owner"}
    taras.sends("/settings/users/2", sent)


def among_users(**changed: str) -> Callable[..., None]:
    def change(crm: CRMApp, taras: Person, olena: Person) -> None:
        olena.sends("/settings/users/2", {**TARAS_FIELDS, **changed})

    return change


def deactivation(crm: CRMApp, taras: Person, olena: Person) -> None:
    olena.sends("/settings/users/2/deactivate")


def role_by_site(crm: CRMApp, taras: Person, olena: Person) -> None:
    with crm.tenants.session("acme"):
        users.find_or_create_for_site(SITE_ID, {"name": "Taras", "role": "viewer"})


def restored_copy(crm: CRMApp, taras: Person, olena: Person) -> None:
    with crm.tenants.session("acme"):
        copy = create_copy(crm.tenants.config.data / "backups", 1)
    command(crm, "restore", "acme", copy, "--yes")


BEFORE = {  # what Taras is before the change
    another_password: 'UPDATE "user" SET password = ? WHERE id = 2',
    own_phone: "UPDATE \"user\" SET role = 'owner' WHERE id = 2",
    role_by_site: "UPDATE \"user\" SET site_id = 'taras' WHERE id = 2",
}
CHANGES = [
    first_password, another_password, password_by_reset, password_by_invitation,
    logout_everywhere, own_email, own_phone, deactivation, role_by_site, restored_copy,
    pytest.param(among_users(phone="067 111 22 33"), id="phone_by_owner"),
    pytest.param(among_users(email="another@acme.example"), id="email_by_owner"),
    pytest.param(among_users(role="viewer"), id="role_by_owner"),
]  # fmt: skip


@parametrize("change", CHANGES)
def test_a_change_ends_the_link_and_a_new_one_works(crm, change):
    if change in BEFORE:
        given = (passwords.hash_new(OLD_PASSWORD),) if "?" in BEFORE[change] else ()
        with crm.tenants.session("acme"), transaction():
            execute(BEFORE[change], given)
    with crm.tenants.session("acme"):
        maria = users.create({"name": "Марія"}).id
    taras, olena = Person(crm, user_id=TARAS), Person(crm, user_id=OLENA)
    tokens = {purpose: make(crm, purpose) for purpose in links.LIFETIME_SECONDS}
    with crm.tenants.session("acme"):
        others = {purpose: links.create(purpose, maria) for purpose in tokens}
    assert all(good(crm, purpose, token) for purpose, token in tokens.items())
    change(crm, taras, olena)
    for purpose, token in tokens.items():
        assert not good(crm, purpose, token), purpose
        assert good(crm, purpose, make(crm, purpose)) is (change is not deactivation), purpose
        assert good(crm, purpose, others[purpose]) is (change is not restored_copy), purpose


def test_another_change_ends_no_link(crm):
    tokens = {purpose: make(crm, purpose) for purpose in links.LIFETIME_SECONDS}
    same = {name: TARAS_FIELDS[name] for name in ("role", "phone")}
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"name": "Тарас", "language": "en", **same})
    assert all(good(crm, purpose, token) for purpose, token in tokens.items())


def test_no_other_module_changes_a_user():
    """The rule stands where users are changed: `User.put` and `passwords.store_hash`."""
    folder = Path(package.__file__).parent
    results = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\bUPDATE \"?user\b", path.read_text("utf-8"))
    }
    # A calendar's address is no way to log in.
    assert results == {"access/passwords.py", "access/calendar_tokens.py"}


# An invitation ends at the first entry, too


def by_session(crm: CRMApp) -> None:
    with crm.tenants.session("acme"):
        sessions.open(TARAS, "a code, a password or a link")


def by_login_link(crm: CRMApp) -> None:
    Person(crm).sends(f"/enter/{make(crm, LOGIN)}")


def by_its_own_link(crm: CRMApp) -> None:
    Person(crm).sends(f"/invite/{make(crm, INVITE)}", {"password": ""})


@parametrize("enter", [by_session, by_login_link, by_its_own_link])
def test_an_invitation_ends_at_the_first_entry(crm, enter):
    token, beside = make(crm, INVITE), make(crm, EMAIL)
    enter(crm)
    assert not good(crm, INVITE, token)
    assert good(crm, EMAIL, beside)


def test_an_invitation_to_a_wrong_phone_is_dead_once_the_phone_is_mended(crm, post):
    olena = Person(crm, user_id=OLENA)
    wrong = {"name": "Марія", "phone": "067 000 00 01", "role": "manager"}
    olena.sends("/settings/users", wrong)
    olena.sends("/settings/users/3", {**wrong, "phone": "067 000 00 02"})
    assert "Попереднє запрошення вже не діє" in olena.sees("/settings/users")
    olena.sends("/settings/users/3/invite")
    (first, before), (second, after) = post.texts
    assert (first, second) == ("+380670000001", "+380670000002")
    results = [re.search(r"/i/\S+", text)[0] for text in (before, after)]
    assert Person(crm).get(results[0]).status_code == 404
    assert Person(crm).get(results[1]).status_code == 200
    olena.sends("/settings/users/3", {**wrong, "phone": "067 000 00 02", "name": "Марія К."})
    assert "Попереднє запрошення" not in olena.sees("/settings/users")


# A thief with a session


def test_a_thief_who_asked_for_an_address_gets_nothing_by_it(crm, post):
    """He even knew the old password."""
    with crm.tenants.session("acme"):
        set_password(TARAS, "the old password")
    thief, owner = Person(crm, user_id=TARAS), Person(crm, user_id=TARAS)
    asked = {"email": "thief@evil.example", "current": "the old password"}
    thief.sends("/settings/profile/email", asked)
    (to, _, letter), (response, _, notice) = post.letters
    assert (to, response) == ("thief@evil.example", TARAS_FIELDS["email"])
    assert "thief@evil.example" not in notice and "/email/" not in notice
    assert "http://acme.localhost:8000" in notice
    path = re.search(r"/email/\S+", letter)[0]
    sent = {"current": "the old password", "password": "quite another one"}
    owner.sends("/settings/profile/password", sent)
    assert thief.get("/settings/profile").status_code == 302
    assert Person(crm).post(path).status_code == 404
    with crm.tenants.session("acme"):
        assert User.find(TARAS).email == TARAS_FIELDS["email"]


def test_another_address_takes_the_password_whatever_the_login(crm, post):
    with crm.tenants.session("acme"):
        set_password(TARAS, "right one")
    taras = Person(crm, user_id=TARAS)
    assert taras.post("/settings/profile/email", {"email": NEW}).status_code == 403
    assert f'name="email" value="{NEW}"' in taras.page.text and not post.letters
    taras.sends("/settings/profile/email", {"email": NEW, "current": "right one"})
    assert len(post.letters) == 2


def test_its_tries_are_limited_like_those_of_logins(crm, post):
    with crm.tenants.session("acme"):
        set_password(TARAS, "right one")
    taras = Person(crm, user_id=TARAS)
    sent = {"email": NEW, "current": "wrong"}
    seen = [taras.post("/settings/profile/email", sent).status_code for _ in range(11)]
    assert seen == [422] * 10 + [429]
    sent = {"current": "right one", "password": PASSWORD}
    assert taras.post("/settings/profile/password", sent).status_code == 429  # the same tries
    assert not post.letters


def test_without_a_password_the_first_takes_a_login_of_a_moment_ago(crm, post, clock):
    """Else a thief would set the first password, and type it."""
    taras = Person(crm, user_id=TARAS)
    path, sent = "/settings/profile/password", {"password": PASSWORD}
    clock.tick(FRESH_LOGIN_SECONDS - 1)
    assert f'action="{path}"' in taras.sees("/settings/profile")
    clock.tick(1)
    page = taras.post(path, sent)
    assert page.status_code == 409 and "увійдіть ще раз" in page.text
    assert password_of(crm) is None
    page = taras.sees("/settings/profile")
    assert f'action="{path}"' not in page and 'action="/login"' in page
    again = {"phone": TARAS_FIELDS["phone"], "next": "/settings/profile"}
    assert taras.sends("/login", again) == "/login/code"
    code = {"code": re.search(r"[0-9]{6}", post.texts[-1][1])[0]}
    assert taras.sends("/login/code", code) == "/settings/profile"
    taras.sees("/settings/profile")
    taras.sends(path, sent)


# At the same time


def meanwhile(monkeypatch, where, name: str, act: Callable[[], None]) -> None:
    """Do something while `where.name` is at work, in another thread, as another request does."""
    real = getattr(where, name)

    def acting(*given):
        result = real(*given)
        run_in_threads(1, lambda _: act())
        return result

    monkeypatch.setattr(where, name, acting)


def end_sessions(crm: CRMApp) -> None:
    with crm.tenants.session("acme"):
        sessions.end_others(TARAS)


@parametrize("purpose", [RESET, INVITE])
def test_a_link_that_ends_while_the_password_is_hashed_does_nothing(crm, monkeypatch, purpose):
    token = make(crm, purpose)

    meanwhile(monkeypatch, passwords, "hash_new", partial(end_sessions, crm))
    person = Person(crm)
    assert person.post(f"/{purpose}/{token}", {"password": PASSWORD}).status_code == 404
    assert password_of(crm) is None and person.cookie("crm_session") is None
    assert read_rows(crm.tenants, "acme", "SELECT * FROM session") == []


@parametrize("path", ["/settings/profile/email", "/settings/profile/password"])
def test_a_session_that_ends_while_its_password_is_checked_changes_nothing(
    crm, post, monkeypatch, path
):
    with crm.tenants.session("acme"):
        set_password(TARAS, "right one")
    thief = Person(crm, user_id=TARAS)

    meanwhile(monkeypatch, passwords, "matches", partial(end_sessions, crm))
    before = password_of(crm)
    sent = {"email": NEW, "current": "right one", "password": PASSWORD}
    assert thief.post(path, sent).status_code == 409
    assert not post.letters and password_of(crm) == before
    assert read_rows(crm.tenants, "acme", "SELECT count(*) FROM one_time_link") == [(0,)]


def test_a_password_that_is_changed_while_it_is_checked_lets_nobody_in(crm, monkeypatch):
    with crm.tenants.session("acme"):
        set_password(TARAS, "right one")

    def change() -> None:
        with crm.tenants.session("acme"):
            set_password(TARAS, PASSWORD)

    meanwhile(monkeypatch, passwords, "matches", change)
    sent = {"email": TARAS_FIELDS["email"], "password": "right one"}
    person = Person(crm)
    assert person.post("/login/password", sent).status_code == 422
    assert person.cookie("crm_session") is None


def test_of_many_invitations_at_once_the_limit_goes_out(crm, post):
    with crm.tenants.session("acme"):
        for number in range(8):
            users.create({"name": "M", "email": f"m{number}@acme.example"})
    people = [Person(crm, user_id=OLENA) for _ in range(8)]
    for person in people:
        person.sees("/settings/users")
    sent = run_in_threads(
        8, lambda n: people[n].post(f"/settings/users/{n + 3}/invite").status_code
    )
    assert sorted(sent) == [303] * 5 + [409] * 3
    assert len(post.letters) == 5
