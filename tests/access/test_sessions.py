"""Sessions of the cabinet: rows of the tenant's file behind a random cookie (D12)."""

import hashlib
import time

import pytest

from crm.access import sessions
from crm.errors import Forbidden, NotFound
from crm.resources import tenant
from crm.resources.leads.record import Lead, create
from crm.resources.users import User
from crm.storage.session import row, rows, time_text, transaction
from tests.cases import loop_over
from tests.concurrency import writing
from tests.conftest import OLENA, TARAS
from tests.tables import traced_statements

parametrize = pytest.mark.parametrize
DAY = 86_400
MONTH = 30 * DAY
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def change(id: int, **values) -> None:
    with transaction():
        User.find(id).save_changes(values)


def seen() -> str:
    return row("SELECT last_seen_at FROM session")[0]


# Who is logged in


def test_a_cookie_finds_its_session(acme, clock):
    begun = time_text(int(clock()))
    token = sessions.open(TARAS, FIREFOX)
    assert sessions.find(token) == sessions.Session(
        id=1,
        user_id=TARAS,
        role="manager",
        name="Taras",
        language=None,
        agent=FIREFOX,
        created_at=begun,
        last_seen_at=begun,
    )


def test_the_visit_goes_on_in_its_users_name(acme):
    token = sessions.open(TARAS, FIREFOX)
    assert acme.user_id is None
    sessions.find(token)
    assert (acme.user_id, acme.key_id) == (TARAS, None)
    lead = create({"name": "Марія", "phone": "+380671234567"})
    assert Lead.find(lead).created_by == TARAS


def test_the_file_has_the_hash_alone(acme):
    token = sessions.open(TARAS, FIREFOX)
    (stored,) = rows("SELECT * FROM session")
    assert hashlib.sha256(token.encode()).digest() in stored
    assert token not in str(stored) and "hash" not in sessions.Session.__slots__


@parametrize("agent", ["", "ї" * 300])
def test_a_browser_may_call_itself_anything(acme, agent):
    assert sessions.find(sessions.open(TARAS, agent)).agent == agent[:255]


def test_nobody_and_no_deactivated_user_can_log_in(acme):
    change(TARAS, active=0)
    for id in (77, 0, -1, TARAS):
        with pytest.raises(NotFound):
            sessions.open(id, FIREFOX)
    assert rows("SELECT * FROM session") == []


# Who is not


@loop_over("token", ["", "A" * 43, "é\xff", "\ud800", "x" * 100_000])
def test_an_unknown_cookie_is_nobodys(acme, token):
    sessions.open(TARAS, FIREFOX)
    assert sessions.find(token) is None
    assert acme.user_id is None


def test_a_cookie_of_one_tenant_means_nothing_at_another(crm):
    with crm.tenants.session("acme"):
        token = sessions.open(OLENA, FIREFOX)
    with crm.tenants.session("globex"):
        sessions.open(OLENA, FIREFOX)  # Ivan has the same number there
        assert sessions.find(token) is None
    with crm.tenants.session("acme"):
        assert sessions.find(token).name == "Olena"


def test_a_deactivated_users_sessions_end(acme):
    token, other = sessions.open(TARAS, FIREFOX), sessions.open(OLENA, FIREFOX)
    change(TARAS, active=0)
    assert sessions.find(token) is None
    assert sessions.list_live(TARAS) == []
    assert sessions.find(other)


def test_a_suspended_tenants_good_sessions_are_told(acme):
    token = sessions.open(TARAS, FIREFOX)
    tenant.suspend()
    with pytest.raises(Forbidden) as refused:
        sessions.find(token)
    assert refused.value.code == "tenant_suspended"
    assert acme.user_id is None
    assert sessions.find("x") is None
    tenant.resume()
    assert sessions.find(token)


# For how long


def test_a_session_ends_thirty_days_after_it_was_last_seen(acme, clock):
    token = sessions.open(TARAS, FIREFOX)
    clock.tick(MONTH - 1)
    assert sessions.find(token)
    clock.tick(MONTH - 1)
    assert sessions.find(token)
    clock.tick(MONTH)
    assert sessions.find(token) is None
    assert sessions.list_live(TARAS) == []


def test_it_ends_ninety_days_after_it_began_however_often_it_is_used(acme, clock):
    token = sessions.open(TARAS, FIREFOX)
    for day in range(1, 90):
        clock.tick(DAY)
        assert sessions.find(token), day
    clock.tick(DAY - 1)
    assert sessions.find(token) and len(sessions.list_live(TARAS)) == 1
    clock.tick(1)
    assert sessions.find(token) is None
    assert sessions.list_live(TARAS) == []


def test_it_is_noted_at_most_once_a_minute_that_it_was_seen(acme, clock):
    token = sessions.open(TARAS, FIREFOX)
    begun = seen()
    clock.tick(60)
    sessions.find(token)
    assert seen() == begun
    clock.tick(1)
    assert sessions.find(token).last_seen_at == begun  # as it was before this visit
    noted = seen()
    assert noted == time_text(int(clock()))
    clock.tick(60)
    sessions.find(token)
    assert seen() == noted
    clock.tick(1)
    sessions.find(token)
    assert seen() == time_text(int(clock()))


def test_a_reader_waits_for_no_writer(crm, clock):
    with crm.tenants.session("acme"):
        token = sessions.open(TARAS, FIREFOX)
    clock.tick(3600)
    with writing(crm.tenants, "acme"), crm.tenants.session("acme") as session:
        patience, begun = session.lock_wait_seconds, time.monotonic()
        found_session = sessions.find(token)
        assert time.monotonic() - begun < patience / 2
        assert session.lock_wait_seconds == patience > 1
        assert (found_session.user_id, session.user_id) == (TARAS, TARAS)
        assert seen() == found_session.last_seen_at
    with crm.tenants.session("acme") as session:
        sessions.find(token)
        assert seen() == time_text(int(clock()))
        assert session.lock_wait_seconds == patience


# Lists and ends


def test_a_users_sessions_are_listed_the_last_seen_first(acme, clock):
    opened = []
    for agent in ("first", "second", "third"):
        opened.append(sessions.open(TARAS, agent))
        clock.tick(1)
    sessions.open(OLENA, FIREFOX)
    assert [session.agent for session in sessions.list_live(TARAS)] == ["third", "second", "first"]
    clock.tick(60)
    sessions.find(opened[0])
    assert [session.agent for session in sessions.list_live(TARAS)] == ["first", "third", "second"]
    assert sessions.list_live(TARAS)[0] == sessions.find(opened[0])


def test_a_session_ends_once_and_by_its_user_only(acme, clock):
    token = sessions.open(TARAS, FIREFOX)
    assert sessions.end(1, OLENA) is False
    assert sessions.find(token)
    assert sessions.end("1", TARAS) is True
    (ended_at,) = row("SELECT ended_at FROM session")
    clock.tick(1)
    assert sessions.end(1, TARAS) is False
    assert row("SELECT ended_at FROM session") == (ended_at,)


def test_ending_the_others_lets_their_rows_go(acme):
    mine, other, _ = (sessions.open(TARAS, FIREFOX) for _ in range(3))
    olenas = sessions.open(OLENA, FIREFOX)
    sessions.end(3, TARAS)  # by itself: it would else be known still
    sessions.end_others(TARAS, keep=sessions.find(mine).id)
    assert [sessions.find(token) is None for token in (mine, other, olenas)] == [False, True, False]
    assert rows("SELECT id FROM session") == [(1,), (4,)]
    sessions.end_others(TARAS)
    assert sessions.find(mine) is None and sessions.find(olenas)


def test_a_session_that_is_ended_from_elsewhere_leaves_no_row(acme):
    sessions.open(TARAS, FIREFOX)
    assert sessions.end(1, OLENA, forget=True) is False
    assert sessions.end(1, TARAS, forget=True) is True
    assert rows("SELECT id FROM session") == []


# The hot path


def test_a_page_costs_one_prepared_text(acme):
    token = sessions.open(TARAS, FIREFOX)
    with traced_statements() as statements:
        sessions.find(token)
    assert len(statements) == 1
