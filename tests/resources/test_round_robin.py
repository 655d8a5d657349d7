"""New leads in turn: who gets them, and that the shares are even whatever comes at once."""

import http.client
import json
from collections import Counter

import pytest

from crm.resources import users
from crm.resources.leads.csv_columns import LEADS
from crm.resources.leads.record import list_users_in_turn
from crm.spreadsheets import import_file, read_file
from crm.storage.session import rows
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, TARAS
from tests.server_process import run_server

LEAD = {"name": "Марія", "phone": "0501234567"}


@pytest.fixture
def chosen(crm, olena):
    """Olena, Taras and Halyna get leads in turn; Vira, who only reads, does not."""
    with crm.tenants.session("acme"):
        halyna = users.create({"name": "Halyna", "role": "manager", "email": "h@acme.example"}).id
        vira = users.create({"name": "Vira", "role": "viewer", "email": "v@acme.example"}).id
    olena.sends("/settings/company/turns", {"turns": [OLENA, TARAS, halyna, vira, 999]})
    return halyna


def assignees(crm):
    with crm.tenants.session("acme"):
        return [id for (id,) in rows("SELECT assigned_to FROM lead ORDER BY id")]


def test_leads_that_name_nobody_go_round(crm, api, form, olena, chosen):
    for _ in range(2):
        form.create("/leads", **LEAD)
        api.create("/leads", **LEAD)
        olena.sends("/leads", {**LEAD, "assigned_to": ""})
    assert assignees(crm) == [OLENA, TARAS, chosen] * 2
    api.create("/leads", **LEAD, assigned_to=str(TARAS))
    api.create("/leads", **LEAD, created_at="2026-01-01T10:00:00Z")
    with crm.tenants.session("acme"):
        import_file(read_file("name,phone\nІмпорт,0501234567\n".encode(), LEADS))
    assert assignees(crm)[6:] == [TARAS, None, None]
    assert api.events()[0]["data"]["lead"]["assigned_to"] == str(OLENA)
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 0})
    for _ in range(2):
        form.create("/leads", **LEAD)
    assert assignees(crm)[9:] == [OLENA, chosen]
    with crm.tenants.session("acme"):
        assert list_users_in_turn() == [OLENA, TARAS, chosen, chosen + 1]
    olena.sends("/settings/company/turns")
    form.create("/leads", **LEAD)
    assert assignees(crm)[11:] == [None]


@pytest.mark.process
def test_shares_differ_by_one_at_most_under_32_forms_at_once(crm, form, chosen):
    folder = crm.tenants.config.data
    crm.tenants.forget_idle()

    def send(_: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {
            "Host": "acme.localhost",
            "Authorization": f"Bearer {form.key}",
            "Content-Type": "application/json",
        }
        connection.request("POST", "/api/v1/leads", json.dumps(LEAD), headers)
        assert connection.getresponse().status == 201
        connection.close()

    with run_server(folder, workers=2, CRM_PLANS="business=0") as port:
        run_in_threads(32, send)
    shares = Counter(assignees(crm))
    assert sum(shares.values()) == 32 and {*shares} == {OLENA, TARAS, chosen}
    assert max(shares.values()) - min(shares.values()) <= 1
