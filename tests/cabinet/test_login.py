"""The cabinet's doors: sign-up, login by code, password and link, and that they tell nothing."""

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from crm import CRMApp
from crm.access import codes, links, passwords, sessions
from crm.access.limits import SmsLimits
from crm.cabinet import formatting
from crm.cabinet.login.signup import propose
from crm.config.readers import SMS_LIMITS
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.pipelines.record import PIPELINE
from crm.resources.users import User
from crm.storage.session import row, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Clock
from tests.installations import config_for
from tests.page_client import Person, Recorder
from tests.passwords import set_password

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cheap_hashes")]

each = pytest.mark.parametrize
OLENAS, TARASS, NOBODYS = "+380501110001", "+380501110002", "+380679998877"
OLENAS_MAIL, NOBODYS_MAIL = "olena@acme.example", "nobody@acme.example"
PASSWORD = "горобці та їжаки"
TOO_OLD = "Код неправильний або його строк минув."
NOT_GOOD = "Посилання вже не діє"


@pytest.fixture
def stranger(crm: CRMApp, post: Recorder) -> Person:
    """Somebody at acme's host who has not logged in."""
    return Person(crm)


@pytest.fixture
def newcomer(crm: CRMApp, post: Recorder) -> Person:
    """Somebody at the base host."""
    return Person(crm, "")


@pytest.fixture
def password(crm: CRMApp) -> str:
    """Olena's."""
    with crm.tenants.session("acme"):
        set_password(OLENA, PASSWORD)
    return PASSWORD


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10**6:06}"


def link(crm: CRMApp, purpose: str, user_id: int = OLENA, about: str | None = None) -> str:
    with crm.tenants.session("acme"):
        return links.create(purpose, user_id, about)


def who(person: Person) -> str | None:
    """The name of who is logged in, as the menu tells."""
    page = person.get("/tasks")
    match = re.search(
        r'settings/profile">\s*<span[^>]*>[^<]*</span> <span>(.+?)</span></a>', page.text
    )
    return match and match[1]


def telling(page: Any) -> tuple[int, dict[str, str], str]:
    """What an answer tells; without the request's id, cookies, their tokens and what was typed."""
    untold = ("X-Request-Id", "Set-Cookie")
    headers = {name: value for name, value in page.headers if name not in untold}
    text = re.sub(r'(?<=name="csrf_token" value=")[^"]+', "", page.text)
    for typed in (OLENAS, NOBODYS, OLENAS_MAIL, NOBODYS_MAIL):
        text = text.replace(typed, "").replace(formatting.phone(typed), "")
    headers.pop("Content-Length")  # tokens differ in length with the time in them
    return page.status_code, headers, re.sub("[0-9a-f]{24}", "", text)


def log_in(person: Person, post: Recorder, phone: str = OLENAS) -> str:
    assert person.sends("/login", {"phone": phone}) == "/login/code"
    return person.sends("/login/code", {"code": post.code()})


# By a code


def test_a_stranger_is_led_to_the_login(stranger):
    assert stranger.get("/").location == "/login"
    assert stranger.get("/tasks?assigned_to=all").location == "/login?next=/tasks?assigned_to%3Dall"
    assert "Увійти" in stranger.sees("/login")


@each("typed", [OLENAS, "050 111-00-01", "8 (050) 1110001", " 380501110001 "])
def test_the_code_of_an_sms_lets_in(stranger, post, typed):
    assert stranger.sends("/login", {"phone": typed}) == "/login/code"
    assert post.texts == [(OLENAS, f"Код для входу: {post.code()}. Нікому його не повідомляйте.")]
    assert "050\u00a0111\u00a000\u00a001" in stranger.sees("/login/code")
    assert stranger.sends("/login/code", {"code": f" {post.code()[:3]} {post.code()[3:]} "}) == "/"
    assert who(stranger) == "Olena"


def test_the_sms_goes_out_after_the_answer(stranger, post):
    stranger.get("/login")
    page = stranger.post("/login", {"phone": OLENAS}, buffered=False)
    assert page.status_code == 303 and not post.texts
    page.close()
    assert [to for to, _ in post.texts] == [OLENAS]


@loop_over("text", ["", "12", "+38050111000a", "olena@acme.example"])
def test_what_is_no_phone_comes_back(stranger, post, text):
    page = stranger.post("/login", {"phone": text})
    assert page.status_code == 422 and 'aria-invalid="true"' in page.text
    assert f'value="{text}"' in page.text
    assert not post.texts


def test_a_wrong_code_comes_back_and_costs_a_try(stranger, post):
    stranger.sends("/login", {"phone": OLENAS})
    code = post.code()
    for _ in range(5):
        page = stranger.post("/login/code", {"code": wrong(code)})
        assert page.status_code == 422 and TOO_OLD in page.text
    assert stranger.post("/login/code", {"code": code}).status_code == 422
    assert who(stranger) is None


def test_another_code_takes_a_minute(stranger, post, clock):
    stranger.sends("/login", {"phone": OLENAS})
    assert "через 1 хвилину" in stranger.sees("/login/code")
    clock.tick(20)
    for path, sent in (("/login/code/again", {}), ("/login", {"phone": OLENAS})):
        page = stranger.post(path, sent)
        assert page.status_code == 429 and page.headers["Retry-After"] == "40"
        assert "Спробуйте ще раз через 40 секунд." in page.text
    clock.tick(40)
    assert 'action="/login/code/again"' in stranger.sees("/login/code")
    assert stranger.sends("/login/code/again") == "/login/code"
    assert len(post.texts) == 2
    assert stranger.sends("/login/code", {"code": post.code()}) == "/"


def test_who_asked_for_no_code_is_led_back(stranger):
    assert stranger.get("/login/code").location == "/login"
    assert stranger.sends("/login/code/again") == "/login"


def test_sms_are_counted_before_any_is_sent(crm, stranger, post, monkeypatch):
    limits = SmsLimits(crm.tenants.counters, SMS_LIMITS | {"tenant": 1})
    monkeypatch.setattr(crm, "sms_limits", limits)
    stranger.sends("/login", {"phone": TARASS})
    page = stranger.post("/login", {"phone": OLENAS})
    assert page.status_code == 429 and "через 1 годину" in page.text
    assert page.headers["Retry-After"] == "3675"
    assert [to for to, _ in post.texts] == [TARASS]
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM sms_code WHERE phone = ?", (OLENAS,)) == (0,)
    page = both(crm, "/login", {"phone": OLENAS}, {"phone": NOBODYS})[1].page
    assert page.status_code == 429  # for who has no account as well: it tells nothing


def test_an_sms_speaks_its_readers_language(crm, stranger, post):
    with crm.tenants.session("acme"), transaction():
        users.update(OLENA, {"language": "en"})
    stranger.sends("/login", {"phone": OLENAS})
    assert post.texts[-1][1] == f"Login code: {post.code()}. Do not share it."
    assert "Код із SMS" in stranger.sees("/login/code")


# By a password


@loop_over("name", [OLENAS_MAIL, "OLENA@acme.example", OLENAS, "050 1110001"])
def test_a_password_lets_in(stranger, password, name):
    assert stranger.sends("/login/password", {"email": name, "password": password}) == "/"
    assert who(stranger) == "Olena"


@loop_over(
    ("name", "typed"),
    [
        (OLENAS_MAIL, "горобці"),
        (OLENAS_MAIL, "\ud800"),
        (NOBODYS_MAIL, PASSWORD),
        ("+380501110002", PASSWORD),  # Taras, who has none
    ],
)
def test_a_wrong_password_does_not(stranger, password, name, typed):
    typed = typed.encode("utf-8", "replace").decode()
    page = stranger.post("/login/password", {"email": name, "password": typed})
    assert page.status_code == 422
    assert "Неправильний пароль, е-пошта або номер телефону." in page.text
    assert f'value="{name}"' in page.text
    assert not typed or f'"{typed}"' not in page.text  # a password is never shown
    assert who(stranger) is None


def test_a_password_costs_the_same_work_for_everybody(stranger, password, monkeypatch):
    tried = []
    monkeypatch.setattr(passwords, "matches", lambda kept, typed: bool(tried.append(kept)))
    for name in (OLENAS_MAIL, NOBODYS_MAIL, "+380501110002", NOBODYS, "rubbish"):
        stranger.post("/login/password", {"email": name, "password": "x"})
    assert len(tried) == 5
    assert tried[0] is not None and tried[1:] == [None] * 4


# Sessions


def test_a_login_begins_a_new_session_and_ends_the_one_before(crm, stranger, post, clock):
    stranger.client.set_cookie("crm_session", "planted", domain=stranger.host)
    log_in(stranger, post)
    first = stranger.cookie("crm_session").value
    clock.tick(60)
    log_in(stranger, post)
    assert stranger.cookie("crm_session").value != first != "planted"
    with crm.tenants.session("acme"):
        assert len(sessions.list_live(OLENA)) == 1
        assert sessions.find(first) is sessions.find("planted") is None


def test_who_is_logged_in_is_led_past_the_login(crm):
    olena = Person(crm, "acme", OLENA)
    for path in ("/login", "/login/password"):
        assert olena.get(path).location == "/"
        assert olena.get(f"{path}?next=/tasks").location == "/tasks"


def test_logging_out_ends_the_session(crm):
    olena = Person(crm, "acme", OLENA)
    token = olena.cookie("crm_session").value
    olena.sees("/tasks")
    assert olena.sends("/logout") == "/login"
    assert olena.cookie("crm_session") is None
    with crm.tenants.session("acme"):
        assert sessions.find(token) is None
    assert olena.get("/tasks").location.startswith("/login")


# Who may not


@each("path", ["/login", "/login/password", "/forgot"])
def test_a_suspended_tenant_lets_nobody_in(crm, stranger, post, path):
    stranger.sees(path)
    with crm.tenants.session("acme"):
        tenant.suspend()
    page = stranger.post(path, {"phone": OLENAS, "email": OLENAS_MAIL, "password": PASSWORD})
    assert page.status_code == 403 and "Цей кабінет призупинено." in page.text
    assert "Цей кабінет призупинено." in stranger.sees(path, 403)
    assert not post.texts and not post.letters


# Nothing is told of who has an account


def both(crm: CRMApp, path: str, known: dict, unknown: dict) -> list[Person]:
    """Two browsers send a form, and are told the same."""
    people = [Person(crm), Person(crm)]
    for person, sent in zip(people, (known, unknown), strict=True):
        person.post(path, sent, environ_overrides={"REMOTE_ADDR": "203.0.113.7"})
    assert telling(people[0].page) == telling(people[1].page)
    assert names_of_cookies(people[0].page) == names_of_cookies(people[1].page)
    return people


def names_of_cookies(page: Any) -> list[str]:
    """The cookies that an answer sets, without their values."""
    return [re.sub(r"=[^;]*|Expires=[^;]*; ", "=", kept, count=1).split("Expires")[0]
            for kept in page.headers.getlist("Set-Cookie")]  # fmt: skip


def test_a_known_phone_and_an_unknown_one_are_told_the_same(crm, post, clock):
    people = both(crm, "/login", {"phone": OLENAS}, {"phone": NOBODYS})
    assert [to for to, _ in post.texts] == [OLENAS]
    for page in ("/login/code", "/login/code"):
        assert telling(people[0].get(page)) == telling(people[1].get(page))
    for number in range(7):
        pages = [person.post("/login/code", {"code": f"00000{number}"}) for person in people]
        assert telling(pages[0]) == telling(pages[1])
        assert pages[0].status_code == 422
    pages = [person.post("/login/code/again") for person in people]
    assert pages[0].status_code == 429 and telling(pages[0]) == telling(pages[1])
    clock.tick(60)
    pages = [person.post("/login/code/again") for person in people]
    assert pages[0].status_code == 303 and telling(pages[0]) == telling(pages[1])


def test_the_right_code_of_an_unknown_phone_is_told_as_wrong(crm, stranger, post, monkeypatch):
    monkeypatch.setattr(
        codes,
        "secrets",
        SimpleNamespace(randbelow=lambda below: 42, token_bytes=codes.secrets.token_bytes),
    )
    stranger.sends("/login", {"phone": NOBODYS})
    page = stranger.post("/login/code", {"code": "000042"})
    assert page.status_code == 422 and TOO_OLD in page.text
    assert who(stranger) is None


def test_a_known_address_and_an_unknown_one_are_told_the_same(crm, post):
    people = both(crm, "/forgot", {"email": OLENAS_MAIL}, {"email": NOBODYS_MAIL})
    assert people[0].page.location == "/forgot/sent"
    assert [to for to, _, _ in post.letters] == [OLENAS_MAIL]
    pages = [person.get("/forgot/sent") for person in people]
    assert telling(pages[0]) == telling(pages[1])
    with crm.tenants.session("acme"):
        assert row("SELECT count(*) FROM one_time_link") == (2,)  # the same work


def test_a_wrong_password_and_an_unknown_account_are_told_the_same(crm, password):
    known, unknown = ({"email": name, "password": "x"} for name in (OLENAS_MAIL, NOBODYS_MAIL))
    both(crm, "/login/password", known, unknown)


# A forgotten password


def test_a_forgotten_password_is_set_anew_by_a_link(crm, stranger, post, password):
    elsewhere = Person(crm, "acme", OLENA)
    assert stranger.sends("/forgot", {"email": "Olena@Acme.example"}) == "/forgot/sent"
    (letter,) = post.letters
    assert letter[:2] == (OLENAS_MAIL, "Новий пароль")
    path = post.link()
    assert path.startswith("/reset/") and "протягом 30 хвилин" in letter[2]
    for _ in range(2):
        stranger.sees(path)  # looking uses nothing up
    assert stranger.sends(path, {"password": "a new password"}) == "/"
    assert who(stranger) == "Olena"
    assert who(elsewhere) is None
    fresh = Person(crm)
    sent = {"email": OLENAS_MAIL, "password": "a new password"}
    assert fresh.sends("/login/password", sent) == "/"
    sent["password"] = PASSWORD
    assert Person(crm).post("/login/password", sent).status_code == 422


def test_the_link_is_built_from_the_settings_alone(crm, post):
    crm.tenants = Tenants(
        config_for(crm.tenants.config.data, public_url="https://{label}.crm.ua"), crm.tenants.clock
    )
    forged = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "gopher"}
    Person(crm).post("/forgot", {"email": OLENAS_MAIL}, headers=forged)
    assert re.findall(r"\S+://\S+/", post.letters[0][2]) == ["https://acme.crm.ua/reset/"]


@each("email", [OLENAS_MAIL, NOBODYS_MAIL])
def test_letters_to_an_address_are_limited(stranger, post, clock, email):
    clock.moment += 900 - clock.moment % 900
    for _ in range(3):
        stranger.sends("/forgot", {"email": email})
    page = stranger.post("/forgot", {"email": email.upper()})
    assert page.status_code == 429 and "через 15 хвилин" in page.text
    assert len(post.letters) == (3 if email == OLENAS_MAIL else 0)


# Links


def test_an_invitation_lets_in_and_sets_a_password(crm, stranger):
    path = f"/invite/{link(crm, links.INVITE, TARAS)}"
    page = stranger.sees(path)
    assert "Вітаємо, Taras!" in page and "Acme" in page
    assert stranger.post(path, {"password": "short"}).status_code == 422
    assert stranger.sends(path, {"password": PASSWORD}) == "/"
    assert who(stranger) == "Taras"
    sent = {"email": "+380501110002", "password": PASSWORD}
    assert Person(crm).sends("/login/password", sent) == "/"
    assert Person(crm).post(path).status_code == 404


def test_a_login_link_lets_in_once_and_not_by_looking(crm, stranger):
    path = f"/enter/{link(crm, links.LOGIN)}"
    for _ in range(2):
        assert "Olena" in stranger.sees(path)
        assert who(stranger) is None
    assert stranger.sends(path) == "/"
    assert who(stranger) == "Olena"
    assert Person(crm).post(path).status_code == 404
    assert NOT_GOOD in Person(crm).sees(path, 404)


def test_a_handover_lets_in_at_first_sight_once(crm, stranger, clock):
    path = f"/enter/{link(crm, links.HANDOVER)}"
    assert stranger.get(path).location == "/"
    assert who(stranger) == "Olena"
    Person(crm).sees(path, 404)
    late = f"/enter/{link(crm, links.HANDOVER)}"
    clock.tick(120)
    Person(crm).sees(late, 404)


def test_a_changed_address_is_confirmed_by_its_link(crm, stranger):
    path = f"/email/{link(crm, links.EMAIL, about='new@acme.example')}"
    assert "new@acme.example" in stranger.sees(path)
    with crm.tenants.session("acme"):
        assert User.find(OLENA).email == OLENAS_MAIL
    assert stranger.sends(path) == "/"
    with crm.tenants.session("acme"):
        assert User.find(OLENA).email == "new@acme.example"
    assert "Адресу е-пошти підтверджено" in stranger.sees("/login")
    stranger.sees(path, 404)
    assert who(stranger) is None


# Where to go after a login


def test_after_a_login_one_sees_what_one_asked_for(crm, stranger, post, password):
    stranger.sends("/login", {"phone": OLENAS, "next": "/tasks?assigned_to=all"})
    assert stranger.sends("/login/code", {"code": post.code()}) == "/tasks?assigned_to=all"
    for path in ("/leads/5?a=b&c=d", "/a/../b", "/їжак"):
        sent = {"email": OLENAS_MAIL, "password": password, "next": path}
        assert Person(crm).sends("/login/password", sent) == quote(path, safe="/?&=%")


@loop_over(
    "path",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example"),
        *("javascript:alert(1)", "evil.example", "/\t/evil.example", "/\r\nSet-Cookie: a=b"),
        *("", " //evil.example", "///evil.example", "http:evil.example", "/\u2028/evil.example"),
        "/" + "long" * 250,
    ],
)
def test_nobody_is_led_to_another_host(crm, password, path):
    sent = {"email": OLENAS_MAIL, "password": password, "next": path}
    if path.startswith("/"):  # there are ten tries
        assert Person(crm).sends("/login/password", sent) == "/"
    assert Person(crm, "acme", OLENA).get("/login", query_string={"next": path}).location == "/"
    assert Person(crm).sends("/language", {"language": "en", "next": path}) == "/"


# The language


def test_a_strangers_language_is_the_browsers(stranger):
    assert '<html lang="uk">' in stranger.sees("/login")
    assert stranger.sends("/language", {"language": "en", "next": "/login"}) == "/login"
    assert '<html lang="en">' in stranger.sees("/login")
    assert "Your phone number" in stranger.page.text
    for language in ("", "ru", "../uk"):
        assert stranger.post("/language", {"language": language}).status_code == 404


def test_a_users_language_is_his_own(crm):
    olena = Person(crm, "acme", OLENA)
    olena.sends("/language", {"language": "en"})
    assert olena.cookie("crm_language") is None
    assert '<html lang="en">' in olena.sees("/tasks")
    assert '<html lang="en">' in Person(crm, "acme", OLENA).sees("/tasks")
    assert '<html lang="uk">' in Person(crm, "acme", TARAS).sees("/tasks")


# Sign-up


def sign_up(person: Person, post: Recorder, phone: str = "0671234567") -> None:
    """The first two steps."""
    assert person.sends("/signup", {"phone": phone}) == "/signup/code"
    assert person.sends("/signup/code", {"code": post.code()}) == "/signup/company"


def test_a_sign_up_ends_inside_the_new_cabinet(crm, newcomer, post):
    assert newcomer.sends("/signup", {"phone": "067 123-45-67"}) == "/signup/code"
    code = post.code()
    assert post.texts == [
        ("+380671234567", f"Код для реєстрації: {code}. Нікому його не повідомляйте.")
    ]
    assert "067\u00a0123\u00a045\u00a067" in newcomer.sees("/signup/code")
    assert newcomer.sends("/signup/code", {"code": code}) == "/signup/company"
    newcomer.sees("/signup/company")
    company = "ТОВ «Згода»"  # whose name makes the address
    there = newcomer.sends("/signup/company", {"company": company, "name": "Оля"})
    match = re.fullmatch(r"http://tov-zghoda\.localhost:8000(/enter/\S+)", there)
    owner = Person(crm, "tov-zghoda")
    assert owner.get(match[1]).location == "/"
    assert who(owner) == "Оля"
    assert company in owner.sees("/tasks")
    Person(crm, "tov-zghoda").sees(match[1], 404)
    with crm.tenants.session("tov-zghoda"):
        user = User.find(1)
        assert (user.phone, user.role, user.language) == ("+380671234567", "owner", "uk")
        assert tenant.about()["name"] == company
        assert tenant.about()["plan"] == "start"
        assert pipeline_names() == UKRAINIAN


UKRAINIAN = "Продажі: Нова, Кваліфікація, Пропозиція, Переговори, Виграно, Програно"


def pipeline_names() -> str:
    (record,) = PIPELINE.every("TRUE")
    return f"{record['name']}: {', '.join(stage['name'] for stage in record['stages'])}"


def test_an_english_sign_up_gets_an_english_pipeline(crm, newcomer, post):
    newcomer.sends("/language", {"language": "en"})
    sign_up(newcomer, post)
    newcomer.sends("/signup/company", {"company": "Zghoda", "label": "zghoda"})
    with crm.tenants.session("zghoda"):
        assert User.find(1).language == "en"
        assert pipeline_names() == "Sales: New, Qualified, Proposal, Negotiation, Won, Lost"


UNUSABLE = [
    ("acme", 409, "Ця адреса зайнята."),
    ("ACME", 409, "Ця адреса зайнята."),
    ("www", 422, "Ця адреса зарезервована."),
    ("../acme", 422, "Використовуйте латинські літери, цифри й дефіс."),
    ("a" * 64, 422, "Текст задовгий."),
]


def test_a_label_that_cannot_be_had_comes_back(crm, newcomer, post):
    sign_up(newcomer, post)
    for label, status, text in UNUSABLE:
        page = newcomer.post("/signup/company", {"company": "Кава", "label": label})
        assert page.status_code == status and text in page.text, label
        assert f'value="{label}"' in page.text and 'value="Кава"' in page.text
    assert newcomer.sends("/signup/company", {"company": "Кава", "label": "kava"})


@loop_over(
    ("company", "label"),
    [
        ("Кавомайстер", "kavomaister"),
        ("ТОВ «Згода та Ко»", "tov-zghoda-ta-ko"),
        ("Acme", "acme-2"),
        ("www", "www-2"),
        ("咖啡", "crm"),
        ("Дуже довга назва, яка не вміщається ніколи", "duzhe-dovha-nazva-yaka-ne-vmis"),
    ],
)
def test_a_label_is_proposed_in_latin_letters(crm, company, label):
    with crm.app_context():
        assert propose(company) == label


def test_a_sign_up_takes_ukrainian_numbers_only(newcomer, post):
    page = newcomer.post("/signup", {"phone": "+48 501 234 567"})
    assert page.status_code == 422 and "Для реєстрації потрібен український номер" in page.text
    assert not post.texts


def test_no_step_of_a_sign_up_can_be_left_out(newcomer, post):
    assert newcomer.get("/signup/code").location == "/signup"
    assert newcomer.get("/signup/company").location == "/signup"
    newcomer.sends("/signup", {"phone": OLENAS})
    assert newcomer.get("/signup/company").location == "/signup"
    assert newcomer.sends("/signup/company", {"company": "A", "label": "aaa"}) == "/signup"


def test_a_closed_installation_signs_nobody_up(crm, post):
    config = config_for(crm.tenants.config.data, signup=False)
    crm.tenants = Tenants(config, crm.tenants.clock)
    newcomer = Person(crm, "")
    assert "/signup" not in newcomer.sees("/")
    for path in ("/signup", "/signup/code", "/signup/company"):
        newcomer.sees(path, 404)
        assert newcomer.post(path, {"phone": OLENAS}).status_code == 404
    assert newcomer.sends("/open", {"label": "acme"}) == "http://acme.localhost:8000/login"


def test_ones_cabinet_opens_by_its_address_and_no_other_does(newcomer):
    for text in ("acme", " ACME ", "http://acme.localhost:8000/leads", "acme:80"):
        assert newcomer.sends("/open", {"label": text}) == "http://acme.localhost:8000/login"
    for text in ("", "nobody", "../acme", "acme@evil.example", "_front", "//evil.example"):
        page = newcomer.post("/open", {"label": text})
        assert page.status_code == 422 and "Кабінет не знайдено." in page.text
        assert f'value="{text}"' in page.text


# Hosts


@loop_over("path", ["/signup", "/signup/code", "/signup/company", "/open"])
def test_a_tenants_host_signs_nobody_up(stranger, path):
    assert stranger.post(path, {"label": "acme"}).status_code == 404


@loop_over("path", ["/login", "/login/code", "/login/password", "/forgot", "/logout", "/enter/x"])
def test_the_base_host_logs_nobody_in(newcomer, path):
    assert newcomer.post(path, {"phone": OLENAS}).status_code == 404


# Forms and cookies


def attributes(page: Any) -> dict[str, set[str]]:
    """The cookies that were set, each with its attributes."""
    results = {}
    for line in page.headers.getlist("Set-Cookie"):
        first, *more = line.split("; ")
        results[first.partition("=")[0]] = {
            part
            for part in more
            if "=" not in part or "Site" in part or part.startswith(("Path", "Domain"))
        }
    return results


def test_cookies_are_of_this_host_and_out_of_reach_of_scripts(stranger, post):
    strict = {"HttpOnly", "SameSite=Lax", "Path=/"}
    stranger.post("/login", {"phone": OLENAS})
    assert attributes(stranger.page) == {"crm_browser": strict, "crm_form": strict}
    stranger.post("/login/code", {"code": post.code()})
    mine = {"crm_session": strict, "crm_known": strict, "crm_form": strict}
    assert attributes(stranger.page) == mine
    assert "Max-Age=7776000;" in str(stranger.page.headers)  # as long as a session may last
    stranger.post("/logout")
    assert attributes(stranger.page)["crm_session"] == strict


@pytest.fixture
def proxied(crm: CRMApp, clock: Clock, new_app):
    """The app behind a proxy that it trusts."""
    app = new_app(config_for(crm.tenants.config.data, trusted_proxies=1), clock, sends=False)
    app.message_queue = Recorder()
    return app


def test_under_https_cookies_are_bound_to_it(proxied):
    strict = {"HttpOnly", "SameSite=Lax", "Path=/", "Secure"}
    person = Person(proxied, scheme="https")
    headers = {"X-Forwarded-Proto": "https", "Referer": f"{person.home}/"}
    options = {"headers": headers, "base_url": "http://acme.localhost"}
    person.get("/login", **options)
    person.client.set_cookie("__Host-crm_form", person.cookie("__Host-crm_form").value,
                             domain="acme.localhost", secure=True)  # fmt: skip
    person.post("/login", {"phone": OLENAS}, **options)
    assert attributes(person.page) == {"__Host-crm_browser": strict, "__Host-crm_form": strict}
    person.post("/login/code", {"code": proxied.message_queue.code()}, **options)
    names = ("session", "known", "form")
    assert attributes(person.page) == {f"__Host-crm_{name}": strict for name in names}
    person.post("/language", {"language": "en"}, **options)
    assert person.page.status_code == 303


def test_below_a_prefix_paths_keep_it(proxied):
    # The browser's cookies belong to the paths that it asks for, which have the prefix.
    options = {"headers": {"X-Forwarded-Prefix": "/crm"}, "base_url": "http://acme.localhost/crm"}
    person = Person(proxied)
    assert person.get("/tasks", **options).location == "/crm/login?next=/tasks"
    person.get("/login?next=/tasks", **options)
    assert 'action="/crm/login"' in person.page.text
    sent = {"phone": OLENAS, "next": "/tasks"}
    assert person.sends("/login", sent, **options) == "/crm/login/code"
    sent = {"code": proxied.message_queue.code()}
    assert person.sends("/login/code", sent, **options) == "/crm/tasks"


def test_a_page_is_kept_by_nobody_and_runs_nothing_of_others(stranger):
    headers = stranger.get("/login").headers
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin"


def test_what_was_typed_is_shown_as_text(crm, stranger, newcomer, post):
    evil = '"><script>alert(1)</script>'
    for path, field in (("/login", "phone"), ("/login/password", "email"), ("/forgot", "email")):
        page = stranger.post(path, {field: evil, "next": f"/{evil}"})
        assert page.status_code == 422 and "<script>alert" not in page.text
        assert "&lt;script&gt;alert(1)" in page.text
    sign_up(newcomer, post)
    page = newcomer.post("/signup/company", {"company": evil, "label": "www"})
    assert "<script>alert" not in page.text and "&lt;script&gt;alert(1)" in page.text
