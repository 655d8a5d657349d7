"""How large pages and scripts are as they go over the network: compressed, or as they are kept."""

import gzip
from pathlib import Path

import pytest

from crm import CRMApp
from crm.cabinet import assets
from crm.resources import clients, deals, leads, tasks
from crm.resources.clients.record import CLIENT_IN
from crm.resources.deals.record import DEAL_IN
from crm.resources.leads.record import LEAD_IN
from crm.resources.tasks import TASK_IN
from crm.storage.session import transaction
from tests.page_client import Person

BOARD_BYTES, PAGE_BYTES = 40_000, 15_000
SCRIPT_BYTES, SCRIPT_LINES = 34_000, 900
DEALS = 500


def add_records(crm: CRMApp, count: int) -> None:
    """Open deals of four stages, and as many leads, clients and tasks, all of Olena."""
    with crm.tenants.session("acme"), transaction():
        for number in range(count):
            person = {"name": f"Марія Коваленко {number * 7919}", "phone": f"+38067{number:07}"}
            client = clients.create(CLIENT_IN.parse(person))
            of_lead = {"comment": f"Стіл і {number} стільців", "assigned_to": "1"}
            leads.create(LEAD_IN.parse(person | of_lead))
            of_client = {"client_id": str(client), "assigned_to": "1"}
            deal = {"title": f"Кухня {number * 104729}", "amount": number * 31}
            deals.create(DEAL_IN.parse(deal | of_client | {"stage_id": str(1 + number % 4)}))
            due_at = f"2031-01-{number % 28 + 1:02}T10:00:00Z"
            task = {"title": f"Дзвінок {number}", "due_at": due_at}
            tasks.create(TASK_IN.parse(task | of_client))


@pytest.fixture
def full(crm, olena) -> Person:
    """Olena, in a tenant with 500 records of each kind."""
    add_records(crm, DEALS)
    return olena


def compressed(page: str) -> int:
    return len(gzip.compress(page.encode(), 6))


def test_a_board_of_500_deals_is_light(full):
    page = full.sees("/deals")
    assert page.count('class="deal"') == 4 * 30
    assert compressed(page) <= BOARD_BYTES


def test_other_pages_are_light(full):
    lists = ("/leads", "/deals?view=list", "/clients", "/tasks?assigned_to=all")
    for path in (*lists, "/", "/reports", "/leads/1", "/deals/1", "/clients/1", "/deals/new"):
        assert compressed(full.sees(path)) <= PAGE_BYTES, path


def test_own_scripts_are_small():
    scripts = [*(Path(assets.__file__).parent / "static").glob("*.js")]
    assert scripts
    texts = [script.read_text("utf-8") for script in scripts]
    assert sum(len(text.encode()) for text in texts) <= SCRIPT_BYTES
    assert sum(text.count("\n") for text in texts) <= SCRIPT_LINES
