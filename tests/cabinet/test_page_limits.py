"""Pages of the workspace are limited per session, per tenant, and for strangers per network."""

import pytest

from crm.api import request_limits
from tests.conftest import OLENA, TARAS
from tests.page_client import Person


@pytest.fixture(autouse=True)
def low(monkeypatch):
    monkeypatch.setattr(request_limits, "MAX_SESSION_PAGES", 5)
    monkeypatch.setattr(request_limits, "MAX_TENANT_PAGES", 12)


def statuses(person: Person, count: int, path: str = "/leads") -> list[int]:
    return [person.get(path).status_code for _ in range(count)]


def test_a_session_has_its_number_of_pages_a_minute(crm, clock):
    olena, again = Person(crm, user_id=OLENA), Person(crm, user_id=OLENA)
    assert statuses(olena, 7) == [200] * 5 + [429] * 2
    assert 0 < int(olena.page.headers["Retry-After"]) <= 60
    assert statuses(again, 1) == [200]  # a session of its own
    clock.tick(60)
    assert statuses(olena, 1) == [200]


def test_all_sessions_of_a_tenant_have_their_number_together(crm):
    people = [Person(crm, user_id=id) for id in (OLENA, TARAS, OLENA, TARAS)]
    result = [status for person in people for status in statuses(person, 4)]
    assert result == [200] * 12 + [429] * 4
    assert statuses(Person(crm, "globex", 1), 1) == [200]


def test_strangers_do_not_use_up_the_pages_of_a_tenant(crm):
    for number in range(10):
        stranger = Person(crm)
        from_network = {"REMOTE_ADDR": f"192.0.2.{number}"}
        status_codes = [
            stranger.get("/login", environ_overrides=from_network).status_code for _ in range(7)
        ]
        assert status_codes == [200] * 5 + [429] * 2
    assert statuses(Person(crm, user_id=OLENA), 3) == [200] * 3


def test_pictures_are_limited_apart_from_pages(crm, monkeypatch):
    monkeypatch.setattr(request_limits, "MAX_SESSION_FILES", 8)
    olena = Person(crm, user_id=OLENA)
    assert statuses(olena, 9, "/files/1") == [404] * 8 + [429]
    assert statuses(olena, 6) == [200] * 5 + [429]
    stranger = Person(crm)
    assert statuses(stranger, 6, "/files/1") == [302] * 5 + [429]


def test_files_of_pages_and_the_api_do_not_count(crm, api):
    olena = Person(crm, user_id=OLENA)
    page = olena.sees("/leads")
    file = page.split('rel="stylesheet" href="')[1].split('"')[0]
    assert statuses(olena, 10, file) == [200] * 10
    assert [api.get("/users/me").status_code for _ in range(10)] == [200] * 10
    assert statuses(olena, 4) == [200] * 4
