"""Strangers who try to keep others out: by SMS, by wrong passwords, by codes and links."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

import pytest

from crm import CRMApp, cabinet
from crm.access import known_browsers, passwords, sessions
from crm.config.readers import SMS_LIMITS
from crm.errors import TooMany
from crm.installation.tenants import Tenants
from crm.limits.counters import Counters
from crm.limits.windows import Limit, Taken
from crm.resources import users
from crm.storage.clocks import uptime
from crm.storage.session import execute, row, transaction
from tests.cases import loop_over
from tests.conftest import OLENA, TARAS, Clock
from tests.installations import config_for
from tests.page_client import Person
from tests.passwords import set_password
from tests.tables import traced_statements

pytestmark = pytest.mark.slow

each = pytest.mark.parametrize
OLENAS, IVANS = "+380501110001", "+380501110009"
OLENAS_MAIL, NOBODYS_MAIL = "olena@acme.example", "nobody@acme.example"
PASSWORD = "горобці та їжаки"
HOME, OFFICE = "203.0.113.7", "2001:db8:ff:1::7"


@pytest.fixture(autouse=True)
def begin_of_an_hour(clock: Clock) -> None:
    clock.moment += 3600 - clock.moment % 3600


@pytest.fixture(autouse=True)
def ivan_has_a_phone(crm: CRMApp) -> None:
    with crm.tenants.session("globex"), transaction():
        users.update(1, {"phone": IVANS})


@pytest.fixture
def password(crm: CRMApp, cheap_hashes: None) -> str:
    """Olena's."""
    with crm.tenants.session("acme"):
        set_password(OLENA, PASSWORD)
    return PASSWORD


def limit(crm: CRMApp, clock: Clock, **numbers: int) -> None:
    """The app with these numbers of CRM_SMS_LIMITS."""
    settings = config_for(crm.tenants.config.data, sms_limits=SMS_LIMITS | numbers)
    crm.tenants = Tenants(settings, clock)
    cabinet.begin_counting(crm)


def send(person: Person, path: str, address: str, **sent: str) -> int:
    """The status of the answer to a form that is sent from an address."""
    return person.post(path, sent, environ_overrides={"REMOTE_ADDR": address}).status_code


def many() -> Iterator[str]:
    """Addresses, each of a network of its own."""
    return (f"2001:db8:{number:x}::1" for number in range(1000))


def attack(crm: CRMApp, label: str, path: str, phones: list[str]) -> int:
    """Ask for codes of these phones, each from a network of its own; how many were taken."""
    person = Person(crm, label)
    return sum(
        send(person, path, address, phone=phone) == 303
        for phone, address in zip(phones, many(), strict=False)
    )


def gets_an_sms(crm: CRMApp, label: str, phone: str, path: str = "/login") -> bool:
    """Does somebody at a new browser in a network of his own get the code?"""
    before = len(crm.message_queue.texts)
    send(Person(crm, label), path, f"198.51.100.{before % 250}", phone=phone)
    return [to for to, _ in crm.message_queue.texts[before:]] == [phone]


# SMS


def test_unknown_phones_close_nothing(crm, post, clock):
    limit(crm, clock, day=10, reserve=2, tenant=3, signup=3)
    assert attack(crm, "acme", "/login", [f"+3806700000{n}" for n in range(10, 22)]) == 12
    assert post.texts == []
    assert gets_an_sms(crm, "acme", OLENAS)
    assert gets_an_sms(crm, "globex", IVANS)
    assert gets_an_sms(crm, "", "+380931112233", "/signup")
    used = {
        budget.name: used
        for budget, used, _ in crm.sms_limits.list_budgets(crm.tenants.clock(), ())
    }
    assert used["all tenants and sign-up"] == 3


def test_an_unknown_phone_takes_the_same_steps(crm, post, monkeypatch):
    take, counted = Counters.take, []

    def record(store: Counters, limits: Sequence[Limit], moment: float) -> Taken:
        counted[-1].append([(limit.window, limit.most) for limit in limits])
        return take(store, limits, moment)

    def steps(phone: str) -> list[str]:
        """The statements that the answer takes."""
        counted.append([])
        person = plant(Person(crm), "1." + "0" * 64)
        person.get("/login")
        with crm.tenants.session("acme"), traced_statements() as statements:
            status = send(person, "/login", HOME, phone=phone)
        assert status == 303
        return [text.split()[0] for text in statements]

    monkeypatch.setattr(Counters, "take", record)
    assert steps(OLENAS) == steps("+380670000002")
    assert len(counted[0]) > 1 and counted[0] == counted[1]


# Codes


def asks_and_logs_in(crm: CRMApp, person: Person, address: str) -> bool:
    """Does Olena get in by a code?"""
    if send(person, "/login", address, phone=OLENAS) != 303:
        return False
    code = crm.message_queue.code()
    return send(person, "/login/code", address, code=code) == 303


def test_strangers_of_many_networks_do_not_keep_a_known_browser_from_its_codes(crm, post, clock):
    olena = Person(crm)
    assert asks_and_logs_in(crm, olena, HOME)
    send(olena, "/logout", HOME)
    for _ in range(4):
        clock.tick(300)
        for number in range(4):
            send(Person(crm), "/login", f"2001:db8:{number}::1", phone=OLENAS)
    assert send(Person(crm), "/login", OFFICE, phone=OLENAS) == 429
    assert asks_and_logs_in(crm, olena, HOME)
    assert send(Person(crm), "/login", OFFICE, phone=OLENAS) == 429


# Passwords


def guess(crm: CRMApp, times: int, addresses: Iterator[str], email: str = OLENAS_MAIL) -> list[int]:
    """Statuses of wrong passwords of a new browser at each of those addresses in turn."""
    return [
        send(Person(crm), "/login/password", next(addresses), email=email, password="x")
        for _ in range(times)
    ]


def count_tries(
    crm: CRMApp,
    times: int,
    addresses: Iterator[str],
    email: str = OLENAS_MAIL,
    label: str = "acme",
) -> None:
    """Count wrong passwords as the page does, without its other work."""
    with crm.tenants.session(label):
        moment, user = uptime(), users.reached_at(email)
        account = f"user {user.id}" if user else users.reach_of(email)
    for address in islice(addresses, times):
        with suppress(TooMany):
            crm.password_limits.count_try(moment, label, account, address, None)


def one(address: str = OFFICE) -> Iterator[str]:
    while True:
        yield address


def logs_in(person: Person, address: str, password: str = PASSWORD) -> int:
    return send(person, "/login/password", address, email=OLENAS_MAIL, password=password)


@pytest.fixture
def known(crm: CRMApp, password: str) -> Person:
    """Olena's browser, where she has logged out."""
    olena = Person(crm)
    assert logs_in(olena, HOME) == 303
    assert send(olena, "/logout", HOME) == 303
    return olena


def test_ten_wrong_passwords_lock_their_network_alone(crm, post, password):
    assert guess(crm, 12, one()) == [422] * 10 + [429] * 2
    assert logs_in(Person(crm), OFFICE) == 429
    assert logs_in(Person(crm), HOME) == 303


@each("email", [OLENAS_MAIL, NOBODYS_MAIL])
def test_an_account_has_a_hundred_tries_an_hour_from_everywhere(crm, clock, password, email):
    addresses = many()
    count_tries(crm, 98, addresses, email)
    assert guess(crm, 2, addresses, email) == [422] * 2
    page = Person(crm)
    assert send(page, "/login/password", HOME, email=email, password=PASSWORD) == 429
    assert page.page.headers["Retry-After"] == "3600"
    clock.tick(3600)
    status = send(Person(crm), "/login/password", HOME, email=email, password=PASSWORD)
    assert status == (303 if email == OLENAS_MAIL else 422)


SPELLINGS = [OLENAS_MAIL, OLENAS_MAIL.upper(), "+380501110001", "050 111-00-01", "8 050 1110001",
             f"  {OLENAS_MAIL} ", "00380501110001"]  # fmt: skip


def test_a_user_has_one_count_of_tries_whatever_is_typed(crm, password):
    for spelling in SPELLINGS:
        assert guess(crm, 1, one(), spelling) == [422]
    assert guess(crm, 10 - len(SPELLINGS), one()) == [422] * (10 - len(SPELLINGS))
    for spelling in SPELLINGS:
        assert guess(crm, 1, one(), spelling) == [429], spelling
    assert guess(crm, 1, one(), "+380501110002") == [422]  # another user


@each("addresses", [["192.0.2.1"], [f"2001:db8:7:{number:x}::1" for number in range(40)]])
def test_one_network_cannot_lock_an_account(crm, clock, password, addresses):
    """An address, or a /48 of many /64."""
    for _ in range(4):
        count_tries(crm, 40, iter(addresses * 40))
        clock.tick(890)
    clock.tick(-100)
    assert logs_in(Person(crm), HOME) == 303


def test_a_known_browser_gets_in_while_its_account_is_locked(crm, known):
    count_tries(crm, 100, many())
    assert logs_in(Person(crm), HOME) == 429
    assert logs_in(known, HOME) == 303


def test_while_an_account_is_locked_codes_and_reset_links_work(crm, post, password):
    count_tries(crm, 100, many())
    assert logs_in(Person(crm), HOME) == 429
    assert asks_and_logs_in(crm, Person(crm), HOME)
    olena = Person(crm)
    assert send(olena, "/forgot", HOME, email=OLENAS_MAIL) == 303
    assert send(olena, post.link(), HOME, password="a new password") == 303
    olena.get("/tasks")
    send(olena, "/logout", HOME)
    assert logs_in(olena, HOME, "a new password") == 303  # known by the link


def test_a_stolen_cookie_is_no_free_ticket(crm, known):
    statuses = [logs_in(known, next(address), "x") for address in [many()] for _ in range(12)]
    assert statuses == [422] * 10 + [429] * 2
    assert logs_in(known, HOME) == 429
    assert logs_in(Person(crm), HOME) == 303  # nor a way to lock others out


def is_known(crm: CRMApp, person: Person) -> bool:
    """Is it spared, after many have locked the account?"""
    count_tries(crm, 100, many())
    assert logs_in(Person(crm), HOME) == 429
    return logs_in(person, HOME, "x") == 422


def cookie(person: Person) -> str:
    return person.cookie("crm_known").value


def plant(person: Person, value: str) -> Person:
    person.client.set_cookie("crm_known", value, domain=person.host)
    return person


def test_the_cookie_is_good_for_its_user_alone(crm, known):
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"email": "taras@acme.example"})
    count_tries(crm, 100, many(), "taras@acme.example")
    assert send(known, "/login/password", HOME, email="taras@acme.example", password="x") == 429


def test_the_cookie_is_good_at_its_tenant_alone(crm, known):
    """Also where the tenant is a copy of the other."""
    with crm.tenants.session("acme"):
        (digest,), kept = row("SELECT hash FROM session WHERE id = 1"), passwords.find_hash(OLENA)
    with crm.tenants.session("globex"), transaction():
        users.update(1, {"email": OLENAS_MAIL})
        sessions.open(1, "")
        execute("UPDATE session SET hash = ? WHERE id = 1", (digest,))
        execute('UPDATE "user" SET password = ? WHERE id = 1', (kept,))
    count_tries(crm, 100, many(), label="globex")
    ivan = plant(Person(crm, "globex"), cookie(known))
    assert send(ivan, "/login/password", HOME, email=OLENAS_MAIL, password="x") == 429


@loop_over("change", [
    lambda value: "", lambda value: value[:-1] + ("1" if value[-1] == "0" else "0"),
    lambda value: f"2{value}", lambda value: value.partition(".")[2],
    lambda value: "9" * 1000 + "." + "0" * 64,
])  # fmt: skip
def test_a_cookie_that_somebody_made_is_worth_nothing(crm, known, change):
    assert not is_known(crm, plant(Person(crm), change(cookie(known))))


def test_a_copy_of_the_cookie_is_good_until_the_password_changes(crm, known):
    assert logs_in(known, HOME) == 303
    copy = plant(Person(crm), cookie(known))
    assert is_known(crm, copy)
    known.get("/settings/profile")
    sent = {"current": PASSWORD, "password": "a new password"}
    assert send(known, "/settings/profile/password", HOME, **sent) == 303
    send(known, "/logout", HOME)
    assert logs_in(copy, HOME, "x") == 429
    assert logs_in(known, HOME, "a new password") == 303  # the one that changed it is known


@each("end", ["everywhere else", "that one", "deactivated", "new password by a link"])
def test_a_browser_is_forgotten_with_its_reason(crm, post, known, clock, end):
    elsewhere = Person(crm)
    assert logs_in(elsewhere, HOME) == 303
    with crm.tenants.session("acme"):
        id = sessions.list_live(OLENA)[0].id
    olena = Person(crm, user_id=OLENA)
    olena.get("/settings/profile")
    if end == "everywhere else":
        assert send(olena, "/settings/profile/sessions/end-others", HOME) == 303
    elif end == "that one":
        assert send(olena, f"/settings/profile/sessions/{id}/end", HOME) == 303
    elif end == "deactivated":
        with crm.tenants.session("acme"), transaction():
            users.update(TARAS, {"role": "owner"})
            users.update(OLENA, {"active": 0})
            users.update(OLENA, {"active": 1})
    else:
        send(olena, "/forgot", HOME, email=OLENAS_MAIL)
        assert send(Person(crm), post.link(), HOME, password="a new password") == 303
    assert not is_known(crm, elsewhere)
    if end == "that one":
        assert logs_in(known, HOME, "x") == 422
    else:
        assert logs_in(known, HOME, "x") == 429


# Links


def test_another_installations_cookie_is_worth_nothing(crm, known):
    (crm.tenants.config.data / "secret.key").write_bytes(b"\1" * 32)
    with crm.tenants.session("acme"):
        assert known_browsers.identify_browser(crm.secret_key, cookie(known), OLENA)
        assert not known_browsers.identify_browser(crm.tenants.secret_key(), cookie(known), OLENA)


def test_a_browser_is_known_for_half_a_year(crm, known, clock):
    clock.tick(180 * 86_400 - 1)
    assert is_known(crm, known)
    clock.tick(3600)
    assert not is_known(crm, known)


def test_a_strangers_network_leaves_the_owner_reset_links(crm, post):
    statuses = [send(Person(crm), "/forgot", OFFICE, email=OLENAS_MAIL) for _ in range(9)]
    assert statuses == [303] * 3 + [429] * 6
    assert send(Person(crm), "/forgot", HOME, email=OLENAS_MAIL) == 303
