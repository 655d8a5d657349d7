"""One-time links: one purpose, one user, one use, for a while."""

import hashlib
import re

import pytest

from crm.access import links, tokens
from crm.access.links import EMAIL, HANDOVER, INVITE, LOGIN, RESET, OneTimeLink
from crm.resources.users import User
from crm.storage.session import row, rows, time_text, transaction
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, TARAS

parametrize = pytest.mark.parametrize
MINUTE, HOUR, DAY = 60, 3600, 86_400
LIVES = {
    RESET: 30 * MINUTE,
    INVITE: 7 * DAY,
    HANDOVER: 2 * MINUTE,
    LOGIN: 15 * MINUTE,
    EMAIL: 24 * HOUR,
}


@parametrize("purpose", LIVES)
def test_a_link_is_used_once_and_for_its_purpose_only(acme, purpose):
    token = links.create(purpose, TARAS)
    for other in LIVES.keys() - {purpose}:
        assert links.peek(other, token) is links.use(other, token) is None
    for look in (links.peek, links.peek, links.use):  # looking at it does not use it
        assert look(purpose, token) == OneTimeLink(TARAS, None)
    assert links.use(purpose, token) is links.peek(purpose, token) is None


@parametrize(("purpose", "seconds"), LIVES.items())
def test_each_purpose_has_its_time(acme, clock, purpose, seconds):
    token = links.create(purpose, TARAS)
    (expires_at,) = row("SELECT expires_at FROM one_time_link")
    assert expires_at == time_text(int(clock()) + seconds)
    clock.tick(seconds - 1)
    assert links.peek(purpose, token)
    clock.tick(1)
    assert links.peek(purpose, token) is links.use(purpose, token) is None


@parametrize("token", ["", "x", "A" * 43, "é", "\ud800", "x" * 100_000])
def test_an_unknown_token_is_no_link(acme, token):
    links.create(RESET, TARAS)
    assert links.peek(RESET, token) is links.use(RESET, token) is None
    assert rows("SELECT ended_at FROM one_time_link") == [(None,)]


def test_another_tenants_link_is_no_link(crm):
    with crm.tenants.session("acme"):
        token = links.create(RESET, OLENA)
    with crm.tenants.session("globex"):
        assert links.peek(RESET, token) is links.use(RESET, token) is None
    with crm.tenants.session("acme"):
        assert links.use(RESET, token)


def test_another_link_of_its_user_stays(acme):
    first, second = links.create(LOGIN, TARAS), links.create(LOGIN, TARAS)
    assert links.use(LOGIN, first) and links.use(LOGIN, second)


def test_of_sixteen_who_use_it_at_once_one_gets_it(crm):
    with crm.tenants.session("acme"):
        token = links.create(RESET, TARAS)

    def use(_):
        with crm.tenants.session("acme"):
            return links.use(RESET, token)

    results = run_in_threads(16, use)
    assert results.count(OneTimeLink(TARAS, None)) == 1 and results.count(None) == 15


def test_what_fails_after_its_use_in_a_transaction_leaves_it_good(acme):
    token = links.create(RESET, TARAS)
    with pytest.raises(KeyError), transaction():
        assert links.use(RESET, token)
        raise KeyError
    assert links.use(RESET, token)


@parametrize("purpose", LIVES)
def test_of_invite_and_email_the_latest_is_good(acme, purpose):
    others = links.create(purpose, OLENA)
    beside = {other: links.create(other, TARAS) for other in LIVES.keys() - {purpose}}
    earlier, latest = links.create(purpose, TARAS), links.create(purpose, TARAS)
    assert bool(links.peek(purpose, earlier)) is (purpose in (RESET, HANDOVER, LOGIN))
    assert links.peek(purpose, latest) and links.peek(purpose, others)
    assert all(links.peek(other, token) for other, token in beside.items())


def test_a_users_links_of_a_purpose_can_be_ended(acme):
    ended, stays, others = (
        links.create(LOGIN, TARAS),
        links.create(INVITE, TARAS),
        links.create(LOGIN, OLENA),
    )
    with transaction():
        links.end(LOGIN, TARAS)
    assert links.peek(LOGIN, ended) is links.use(LOGIN, ended) is None
    assert links.peek(INVITE, stays) and links.peek(LOGIN, others)


@parametrize("purpose", LIVES)
def test_a_deactivated_users_links_are_refused(acme, purpose):
    token = links.create(purpose, TARAS)
    with transaction():
        User.find(TARAS).save_changes({"active": 0})
    assert links.peek(purpose, token) is links.use(purpose, token) is None


def test_a_token_fits_a_url_and_is_never_the_same():
    made = {tokens.generate_token() for _ in range(200)}
    assert len(made) == 200
    assert all(re.fullmatch(r"[0-9A-Za-z_-]{43}", token) for token in made)


def test_it_carries_what_it_is_about_and_the_file_has_the_hash_alone(acme):
    token = links.create(EMAIL, TARAS, "taras@new.example")
    (stored,) = rows("SELECT * FROM one_time_link")
    assert hashlib.sha256(token.encode()).digest() in stored
    assert token not in str(stored)
    assert links.peek(EMAIL, token) == OneTimeLink(TARAS, "taras@new.example")
    assert links.use(EMAIL, token) == OneTimeLink(TARAS, "taras@new.example")
