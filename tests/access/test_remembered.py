"""What is remembered between requests ends with the next commit, of whatever process."""

import pytest

from tests.concurrency import start_python, wait_for_processes
from tests.conftest import OLENA, Api, key_for

OTHER_PROCESS = """
import sys
from pathlib import Path
from crm import create_app
from crm.storage.session import execute, transaction
from tests.installations import config_for

app = create_app(config_for(Path(sys.argv[1])), sends=False)
with app.tenants.session("acme", sweeps_expired=False), transaction():
    execute(sys.argv[2])
"""


def change_elsewhere(crm, sql):
    wait_for_processes(start_python(OTHER_PROCESS, crm.tenants.config.data, sql))


@pytest.mark.process
@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("UPDATE api_key SET revoked_at = '2026-03-01T00:00:00Z' WHERE name = 'tests'", 401),
        ("UPDATE user SET active = 0 WHERE id = 1", 401),
        ("UPDATE tenant SET suspended_at = '2026-03-01T00:00:00Z'", 403),
        ("UPDATE api_key SET scopes = 'deals:read' WHERE name = 'tests'", 403),
    ],
)
def test_a_right_that_ends_in_another_process_ends_here_with_the_next_request(crm, sql, status):
    caller = Api(crm, "acme", key_for(crm, "acme", "leads:read", OLENA))
    assert [caller.get("/leads").status_code for _ in range(3)] == [200, 200, 200]
    change_elsewhere(crm, sql)
    assert caller.get("/leads").status_code == status


@pytest.mark.process
def test_totals_count_what_another_process_has_added_or_deleted(crm, api):
    api.create("/leads", name="Petro", phone="+380671234567", status="qualified")
    path = "/leads?status=qualified&total=true"
    assert [api.get(path).json["meta"]["total"] for _ in range(3)] == [1, 1, 1]
    change_elsewhere(crm, "UPDATE lead SET status = 'new'")
    assert api.get(path).json["meta"]["total"] == 0


def test_totals_follow_each_change_of_this_process(api):
    totals = []
    for name in ("Petro", "Zina", "Oleh"):
        lead = api.create("/leads", name=name, phone="+380671234567")
        totals.append(api.get("/leads?total=true").json["meta"]["total"])
    api.delete(f"/leads/{lead}")
    totals.append(api.get("/leads?total=true").json["meta"]["total"])
    assert totals == [1, 2, 3, 2]


def test_keys_and_totals_of_one_tenant_are_none_of_another(api, ivan):
    api.create("/leads", name="Petro", phone="+380671234567")
    assert api.get("/leads?total=true").json["meta"]["total"] == 1
    assert ivan.get("/leads?total=true").json["meta"]["total"] == 0
    assert Api(api.crm, "globex", api.key).get("/leads").status_code == 401
