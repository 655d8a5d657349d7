"""What is remembered between requests ends with the next commit, of whatever process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.installation.tenants import Tenants
from crm.storage.session import execute, transaction
from tests.concurrency import ForkServer
from tests.conftest import OLENA, Api, key_for
from tests.installations import config_for


def change(data: str, sql: str) -> None:
    """What another process does."""
    tenants = Tenants(config_for(Path(data)))
    with tenants.session("acme", sweeps_expired=False), transaction():
        execute(sql)
    tenants.forget_idle()


@pytest.fixture(scope="module")
def other_process() -> Iterator[ForkServer]:
    with ForkServer(__name__) as server:
        yield server


@pytest.mark.process
@pytest.mark.parametrize(
    ("scope", "before", "sql", "after"),
    [
        ("leads", 200, "UPDATE api_key SET revoked_at = created_at WHERE name = 'tests'", 401),
        ("leads", 200, "UPDATE tenant SET suspended_at = created_at", 403),
        ("tasks", 403, "UPDATE api_key SET scopes = 'leads:read' WHERE name = 'tests'", 200),
    ],
)
def test_a_right_that_another_process_changes_changes_here_with_the_next_request(
    crm, other_process, scope, before, sql, after
):
    caller = Api(crm, "acme", key_for(crm, "acme", f"{scope}:read", OLENA))
    assert [caller.get("/leads").status_code for _ in range(3)] == [before] * 3
    assert other_process.call("change", crm.tenants.config.data, sql) == 0
    assert caller.get("/leads").status_code == after


@pytest.mark.process
def test_totals_count_what_another_process_has_added_or_deleted(crm, other_process, api):
    api.create("/leads", name="Petro", phone="+380671234567", status="qualified")
    path = "/leads?status=qualified&total=true"
    assert [api.get(path).json["meta"]["total"] for _ in range(3)] == [1, 1, 1]
    change_sql = "UPDATE lead SET status = 'new'"
    assert other_process.call("change", crm.tenants.config.data, change_sql) == 0
    assert api.get(path).json["meta"]["total"] == 0


def test_keys_and_totals_of_one_tenant_are_none_of_another(api, ivan):
    api.create("/leads", name="Petro", phone="+380671234567")
    assert api.get("/leads?total=true").json["meta"]["total"] == 1
    assert ivan.get("/leads?total=true").json["meta"]["total"] == 0
    assert Api(api.crm, "globex", api.key).get("/leads").status_code == 401
