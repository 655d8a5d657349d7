"""Passwords: 8 to 200 characters, composed, kept as scrypt hashes; no password costs the same."""

import re

import pytest

from crm.access import passwords
from crm.errors import Invalid
from crm.storage.session import current_session, row, rows
from tests.conftest import OLENA, TARAS
from tests.passwords import set_password

parametrize = pytest.mark.parametrize
GOOD = "зелений чай 7"


@pytest.fixture
def work(monkeypatch):
    """The parameters of every scrypt that is computed."""
    done, scrypt = [], passwords.check_password_hash.__globals__["hashlib"].scrypt

    def count(password, *, salt, **costs):
        done.append((len(salt), tuple(sorted(costs.items()))))
        return scrypt(password, salt=salt, n=2, r=1, p=1)

    monkeypatch.setattr("hashlib.scrypt", count)
    return done


def refusal(password: str) -> str:
    with pytest.raises(Invalid) as refused:
        passwords.hash_new(password)
    (fault,) = refused.value.faults
    assert fault.where == "/password"
    return fault.code


def test_it_is_kept_by_scrypt_with_a_salt_of_its_own_and_no_other_fits():
    first, second = passwords.hash_new(GOOD), passwords.hash_new(GOOD)
    assert passwords.matches(first, GOOD) and not passwords.matches(first, GOOD + " ")
    form = r"scrypt:32768:8:1\$[0-9A-Za-z]{16}\$[0-9a-f]{128}"
    assert re.fullmatch(form, first) and re.fullmatch(form, second)
    assert first.split("$")[1] != second.split("$")[1]


def test_without_a_password_nothing_fits_after_the_same_work(work):
    stored = passwords.hash_new(GOOD)
    work.clear()
    assert passwords.matches(stored, GOOD)
    assert not passwords.matches(stored, "another one")
    assert not passwords.matches(None, GOOD)
    assert not passwords.matches(None, "")
    assert not passwords.matches(stored, "x" * 201)
    assert not passwords.matches(stored, "broken \ud800")
    assert len(work) == 6 and len(set(work)) == 1


def test_even_the_hash_of_nobody_fits_nobody(cheap_hashes, monkeypatch):
    monkeypatch.setattr(passwords, "DUMMY_HASH", passwords.hash_new(GOOD))
    assert not passwords.matches(None, GOOD)


def test_what_cannot_be_a_password_does_not_fit_one_of_nothing(cheap_hashes):
    empty = passwords.generate_password_hash("", passwords.METHOD)
    assert not passwords.matches(empty, "x" * 201)
    assert not passwords.matches(empty, "\ud800" * 8)


@parametrize(
    ("password", "code"),
    [
        ("", "too_short"),
        ("1234567", "too_short"),
        ("i\u0308" * 7, "too_short"),  # 14 characters as sent, 7 letters
        ("x" * 201, "too_long"),
        ("x" * 801, "too_long"),
        ("\u0958" * 150, "too_long"),  # composed, it is 300
        ("1234567\ud800", "invalid_text"),
    ],
)
def test_it_has_8_to_200_characters(password, code, cheap_hashes):
    assert refusal(password) == code


@parametrize("password", ["12345678", "x" * 200, "i\u0308" * 200, "        ", "пароль\n\x00\t"])
def test_any_characters_will_do(password, cheap_hashes):
    assert passwords.matches(passwords.hash_new(password), password)


@parametrize(("kept", "sent"), [("ї" * 8, "і\u0308" * 8), ("і\u0308" * 8, "ї" * 8)])
def test_a_letter_fits_however_a_keyboard_makes_it(cheap_hashes, kept, sent):
    assert kept != sent
    assert passwords.matches(passwords.hash_new(kept), sent)


def test_a_huge_password_is_refused_without_the_work_of_composing_it(monkeypatch, cheap_hashes):
    lengths, normalize = [], passwords.unicodedata.normalize

    class Watching:
        @staticmethod
        def normalize(form, text):
            lengths.append(len(text))
            return normalize(form, text)

    monkeypatch.setattr(passwords, "unicodedata", Watching)
    assert not passwords.matches(None, "a\u0301\u0327" * 300)
    passwords.matches(None, "a" * 800)
    assert lengths == [800]


# A user's


def test_a_user_has_no_password_until_one_is_set(acme, cheap_hashes):
    assert rows('SELECT DISTINCT password FROM "user"') == [(None,)]
    set_password(TARAS, GOOD)
    (stored,) = row('SELECT password FROM "user" WHERE id = ?', (TARAS,))
    assert passwords.matches(stored, GOOD)
    assert row('SELECT password FROM "user" WHERE id = ?', (OLENA,)) == (None,)
    set_password(TARAS, "another one")
    (stored,) = row('SELECT password FROM "user" WHERE id = ?', (TARAS,))
    assert passwords.matches(stored, "another one") and not passwords.matches(stored, GOOD)


def test_nothing_is_hashed_inside_a_transaction(acme, monkeypatch):
    def look(*_):
        assert not current_session().in_transaction
        return "hash"

    monkeypatch.setattr(passwords, "generate_password_hash", look)
    set_password(TARAS, GOOD)
    assert row('SELECT password FROM "user" WHERE id = ?', (TARAS,)) == ("hash",)
