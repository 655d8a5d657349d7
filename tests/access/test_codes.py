"""Codes by SMS: bound to purpose, phone, browser and tenant; few tries, one use, growing waits."""

import hashlib
import re
import threading
from types import SimpleNamespace

import pytest

from crm.access import codes, tokens
from crm.access.codes import LOGIN, PHONE, SIGNUP
from crm.errors import TooMany
from crm.storage.session import row, rows, transaction
from tests.concurrency import run_in_threads
from tests.tables import read_rows, traced_statements

parametrize = pytest.mark.parametrize
MARIA, PETRO = "+380671234567", "+380501234567"
FIREFOX, CHROME = "firefox's cookie", "chrome's cookie"
DAY = 86_400
PURPOSES = LOGIN, SIGNUP, PHONE
OTHERS = [{"purpose": SIGNUP}, {"purpose": PHONE}, {"phone": PETRO}, {"browser": CHROME}]


def ask(purpose: str = LOGIN, phone: str = MARIA, browser: str = FIREFOX) -> str:
    return codes.create(purpose, phone, browser).code


def check(code: str, purpose: str = LOGIN, phone: str = MARIA, browser: str = FIREFOX) -> bool:
    return codes.check(purpose, phone, browser, code)


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10**6:06}"


def refused(*args: str) -> int:
    """In how many seconds the one who is refused may ask again."""
    with pytest.raises(TooMany) as error:
        ask(*args)
    assert error.value.code == "code_too_soon"
    assert error.value.detail == f"ask for another code in {error.value.retry_after} s"
    return error.value.retry_after


# The code


@parametrize(
    "sent",
    [
        wrong,
        lambda code: "",
        lambda code: code[:5],
        lambda code: f"{code}0",
        lambda code: f" {code}",
        lambda code: "é",
        lambda code: "\ud800",
        lambda code: "0" * 100_000,
    ],
)
def test_a_wrong_code_is_wrong(acme, sent):
    code = ask()
    assert check(sent(code)) is False
    assert check(code)


@parametrize(("drawn", "code"), [(0, "000000"), (42, "000042"), (999_999, "999999")])
def test_every_number_of_six_digits_can_be_drawn(acme, monkeypatch, drawn, code):
    def draw(below: int) -> int:
        assert below == 1_000_000
        return drawn

    fake = SimpleNamespace(randbelow=draw, token_bytes=codes.secrets.token_bytes)
    monkeypatch.setattr(codes, "secrets", fake)
    assert ask() == code
    assert check(code)


def test_it_is_good_for_five_minutes(acme, clock):
    first = ask()
    clock.tick(299)
    assert check(first)
    second = ask()
    clock.tick(300)
    assert not check(second)


@parametrize("other", [*OTHERS, {"browser": ""}, {"browser": "\ud800"}])
def test_it_is_bound_to_purpose_phone_and_browser(acme, other):
    code = ask()
    for _ in range(6):
        assert not check(code, **other)
    assert row("SELECT tries FROM sms_code") == (0,)
    assert check(code)


def test_it_is_bound_to_the_tenant(crm):
    with crm.tenants.session("acme"):
        code = ask()
    with crm.tenants.session("globex"):
        assert not check(code)
        assert codes.seconds_until_next(LOGIN, MARIA) == 0
    with crm.tenants.session("acme"):
        assert check(code)


def test_a_code_without_a_browser_is_not_made(acme):
    with pytest.raises(ValueError, match="browser"):
        ask(browser="")
    assert rows("SELECT * FROM sms_code") == []


def test_nobody_is_looked_up(acme):
    with transaction(), traced_statements() as statements:
        ask()
    assert any("INSERT INTO sms_code" in text for text in statements)
    assert not [text for text in statements if re.search(r"\buser\b", text)]


# Tries


def test_it_has_five_tries(acme, clock):
    code = ask()
    for _ in range(4):
        assert not check(wrong(code))
    assert check(code)
    code = ask()
    for _ in range(5):
        assert not check(wrong(code))
    assert not check(code)


def test_an_answer_has_cost_a_try_whatever_follows(acme):
    code = ask()
    with transaction(), pytest.raises(RuntimeError, match="outside of transactions"):
        check(code)
    assert row("SELECT tries FROM sms_code") == (0,)
    assert not check(wrong(code))
    assert row("SELECT tries FROM sms_code") == (1,)


@pytest.fixture
def at_once(monkeypatch):
    """All sixteen have compared before the first is counted."""
    gate, compare = threading.Barrier(16), codes.compare_digest

    def together(stored: bytes, sent: bytes) -> bool:
        gate.wait(timeout=60)
        return compare(stored, sent)

    monkeypatch.setattr(codes, "compare_digest", together)


@parametrize(("send", "let_in", "stored"), [(str, 1, (1, 1)), (wrong, 0, (5, 0))])
def test_of_sixteen_at_once_one_right_code_is_let_in_and_five_guesses_are_tried(
    crm, at_once, send, let_in, stored
):
    with crm.tenants.session("acme"):
        code = ask()

    def submit(_: int) -> bool:
        with crm.tenants.session("acme"):
            return check(send(code))

    assert run_in_threads(16, submit).count(True) == let_in
    with crm.tenants.session("acme"):
        assert row("SELECT tries, used FROM sms_code") == stored


# At rest


def test_the_file_has_a_salted_hash_alone(acme, monkeypatch):
    fake = SimpleNamespace(randbelow=lambda _: 918_273, token_bytes=codes.secrets.token_bytes)
    monkeypatch.setattr(codes, "secrets", fake)
    new_code = codes.create(LOGIN, MARIA, FIREFOX)
    code = new_code.code
    assert repr(new_code) == "NewCode()"
    (stored,) = rows("SELECT * FROM sms_code")
    assert code not in str(stored) and FIREFOX not in str(stored)
    salt, hash = row("SELECT salt, hash FROM sms_code")
    assert hash == hashlib.sha256(salt + hashlib.sha256(code.encode()).digest()).digest()
    assert row("SELECT browser FROM sms_code") == (tokens.digest(FIREFOX),)


# Another code


def test_a_new_code_ends_the_one_before(acme, clock):
    first = ask()
    clock.tick(60)
    second = ask()
    assert first == second or not check(first)
    assert check(second)
    assert rows("SELECT used FROM sms_code ORDER BY id") == [(0,), (1,)]


def test_it_ends_no_code_of_another_purpose_phone_or_browser(acme, clock):
    made = []
    for other in OTHERS:
        clock.tick(60)
        made.append(ask(**other))
    clock.tick(60)
    ask()
    assert [check(code, **other) for code, other in zip(made, OTHERS, strict=True)] == [True] * 4


def test_each_time_the_wait_is_longer_up_to_five_minutes(acme, clock):
    assert codes.seconds_until_next(LOGIN, MARIA) == 0
    for seconds in (60, 120, 300, 300, 300):
        ask()
        assert codes.seconds_until_next(LOGIN, MARIA) == refused() == seconds
        clock.tick(seconds - 1)
        assert codes.seconds_until_next(LOGIN, MARIA) == refused() == 1
        clock.tick(1)
        assert codes.seconds_until_next(LOGIN, MARIA) == 0


def test_another_browser_waits_as_long(acme, clock):
    ask()
    clock.tick(20)
    assert refused(LOGIN, MARIA, CHROME) == 40
    clock.tick(40)
    ask(browser=CHROME)
    assert refused() == refused(LOGIN, MARIA, "a third") == 120


def test_a_browser_that_logged_in_before_waits_for_its_own_codes_alone(acme, clock):
    for _ in range(3):
        ask(browser=CHROME)
        clock.tick(300)
    ask(browser=CHROME)
    assert codes.seconds_until_next(LOGIN, MARIA, FIREFOX) == 0
    new_code = codes.create(LOGIN, MARIA, FIREFOX, known=True)
    assert codes.seconds_until_next(LOGIN, MARIA, FIREFOX) == 60
    with pytest.raises(TooMany):
        codes.create(LOGIN, MARIA, FIREFOX, known=True)
    assert check(new_code.code)


@parametrize("other", [(SIGNUP, MARIA), (PHONE, MARIA), (LOGIN, PETRO)])
def test_another_purpose_or_phone_does_not_wait(acme, other):
    ask()
    ask(*other)
    assert refused(*other) == 60


def test_the_waits_are_counted_over_the_last_day(acme, clock):
    for seconds in (60, 120, 300, 900):
        ask()
        clock.tick(seconds)
    ask()
    clock.tick(DAY - 1)  # the first four are a day old
    ask()
    assert refused() == 120


def test_a_right_code_takes_the_waits_back_to_none(acme, clock):
    ask()
    clock.tick(60)
    code = ask(browser=CHROME)
    clock.tick(10)
    assert check(wrong(code), browser=CHROME) is False
    assert refused() == 110
    assert check(code, browser=CHROME)
    assert codes.seconds_until_next(LOGIN, MARIA) == 0
    ask()
    assert refused() == 60


def test_of_sixteen_who_ask_at_once_one_gets_a_code(crm):
    def try_to(number: int) -> str | int:
        with crm.tenants.session("acme"):
            try:
                return ask(browser=f"browser {number}")
            except TooMany as error:
                return error.retry_after

    got = run_in_threads(16, try_to)
    assert got.count(60) == 15
    assert read_rows(crm.tenants, "acme", "SELECT count(*) FROM sms_code") == [(1,)]


# What a right code is for


@parametrize("purpose", PURPOSES)
def test_a_code_is_right_once_and_what_it_is_for_is_done_once(acme, purpose):
    code = ask(purpose)
    assert not codes.is_entered(purpose, MARIA, FIREFOX)
    assert [check(code, purpose), check(code, purpose)] == [True, False]
    assert codes.is_entered(purpose, MARIA, FIREFOX)
    with codes.spend_entered(purpose, MARIA, FIREFOX) as may:
        assert may
        assert not codes.is_entered(purpose, MARIA, FIREFOX)
    with codes.spend_entered(purpose, MARIA, FIREFOX) as may:
        assert not may


@parametrize(
    "other",
    [(SIGNUP, MARIA, FIREFOX), (LOGIN, PETRO, FIREFOX), (LOGIN, MARIA, CHROME), (LOGIN, MARIA, "")],
)
def test_it_is_for_that_purpose_phone_and_browser(acme, other):
    assert check(ask())
    assert not codes.is_entered(*other)
    with codes.spend_entered(*other) as may:
        assert not may
    assert codes.is_entered(LOGIN, MARIA, FIREFOX)


def test_what_fails_may_be_tried_again(acme):
    assert check(ask())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), codes.spend_entered(LOGIN, MARIA, FIREFOX) as may:
            assert may
            raise ZeroDivisionError
    assert codes.is_entered(LOGIN, MARIA, FIREFOX)


def test_an_entered_code_stands_for_half_an_hour(acme, clock):
    assert check(ask())
    clock.tick(1799)
    assert codes.is_entered(LOGIN, MARIA, FIREFOX)
    clock.tick(1)
    assert not codes.is_entered(LOGIN, MARIA, FIREFOX)


def test_of_many_who_spend_a_code_one_may(crm):
    with crm.tenants.session("acme"):
        assert check(ask())

    def spend(_: int) -> bool:
        with crm.tenants.session("acme"), codes.spend_entered(LOGIN, MARIA, FIREFOX) as may:
            return may

    assert sum(run_in_threads(16, spend)) == 1
