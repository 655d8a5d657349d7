"""Each number of the reports opens exactly the records that it counts."""

import html
import re
from itertools import cycle
from urllib.parse import parse_qsl, urlsplit

import pytest

from crm import demo
from crm.installation.opening import open_tenants
from crm.resources import tasks, tenant, users
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL_IN
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD_IN
from crm.resources.tasks import Task
from crm.storage.session import transaction
from tests.conftest import Clock, serve_installation
from tests.installations import config_for, copy_installation
from tests.page_client import Person

TILE = re.compile(
    r'<a class="tile-link" href="([^"]*)">.*?<span class="tile-count">(.*?)</span>', re.S
)
ROW = re.compile(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', re.S)
CELL = re.compile(r'<td class="num">(?:<a href="([^"]*)">)?(.*?)(?:</a>)?</td>', re.S)
BAR = re.compile(r'<a href="([^"]*)"(?: tabindex="-1")?><title>[^<]*: ([^<:]*)</title>')
FOUND = re.compile(r'class="head-note">(.*?)</span>')
KYIV = "Europe/Kyiv"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The demo, with leads of many sources and of none, and deals closed long ago."""
    folder = tmp_path_factory.mktemp("demo")
    tenants = open_tenants(config_for(folder), Clock())
    demo.prepare(tenants)
    with tenants.session("acme"), transaction():
        for number in range(30):
            source = f"джерело & {number % 12}" if number % 4 else None
            at = f"2026-0{1 + number % 2}-{number % 28 + 1:02}T21:30:00Z"
            data = {"name": "Марія", "phone": "+380501234567", "created_at": at}
            leads.create(LEAD_IN.parse(data | {"source": source}))
            closed = {"closed_at": f"2025-{number % 12 + 1:02}-28T22:30:00Z"}
            status = ("won", "lost")[number % 2]
            old = {"title": "Стіл", "created_at": "2025-01-01T00:00:00Z", "status": status}
            deals.create(DEAL_IN.parse(old | (closed if number % 12 != 2 else {})))
        for task in Task.every("status = 'open' ORDER BY id DESC LIMIT 1"):
            tasks.update(task.id, {"status": "cancelled"})
    tenants.forget_idle()
    return folder


@pytest.fixture
def demo_crm(wired, filled, tmp_path, clock):
    copy_installation(filled, tmp_path / "data")
    serve_installation(wired, config_for(tmp_path / "data"), clock)
    yield wired
    wired.tenants.forget_idle()


def number(text):
    return int(re.sub(r"\s", "", html.unescape(text)))


@pytest.mark.parametrize("at", ["2026-03-02T09:00:00Z", "2026-03-31T23:30:00Z"])
@pytest.mark.parametrize("zone", [KYIV, "Pacific/Auckland", "America/Los_Angeles"])
def test_each_number_opens_as_many_records_as_it_says(demo_crm, clock, zone, at):
    if at != "2026-03-02T09:00:00Z":
        clock.tick(29 * 86_400 + 14.5 * 3600)
    with demo_crm.tenants.session("acme"), transaction():
        tenant.update(time_zone=zone)
        for day in (28, 29, 30) if at > "2026-03-03" else ():  # clocks change on the 29th in Kyiv
            for hour in ("00:30", "20:59", "21:00", "22:00"):
                sent = {"name": "Ганна", "phone": "+380501234568", "source": "сайт"}
                leads.create(LEAD_IN.parse(sent | {"created_at": f"2026-03-{day}T{hour}:00Z"}))
        owner = users.owner_id()
    people = cycle([Person(demo_crm, user_id=owner) for _ in range(4)])
    page = next(people).sees("/reports")
    tiles = TILE.findall(page)
    assert len(tiles) == 5
    in_tables = [cell for _, rest in ROW.findall(page) for cell in CELL.findall(rest)]
    counts = [(path, count) for path, count in in_tables if path]
    unlinked = [text for path, text in in_tables if not path]
    assert all("\u00a0" in text or text == "" for text in unlinked)  # sums of money
    assert sorted(BAR.findall(page)) == sorted(counts)
    assert len(counts) >= 30 + 2 * 12 + 4
    totals = opened_by({*tiles, *counts}, people)
    assert sum(totals.values()) > 100


def opened_by(numbers, people):
    """How many records each path opens, by the path; that is the number that it stands for."""
    totals = {}
    for path, count in numbers:
        text = next(people).sees(html.unescape(path))
        assert FOUND.search(text), path
        totals[path] = number(FOUND.search(text)[1])
        assert totals[path] == number(count), path
    return totals


def test_managers_see_their_own_figures_and_may_see_those_of_all(demo_crm):
    def figures(person, path):
        page = person.sees(path)
        in_tables = [cell for _, rest in ROW.findall(page) for cell in CELL.findall(rest)]
        return {*TILE.findall(page), *((path, count) for path, count in in_tables if path)}

    with demo_crm.tenants.session("acme"):
        manager, viewer = (users.User.first("role = ?", role).id for role in ("manager", "viewer"))
    people = cycle([Person(demo_crm, user_id=manager) for _ in range(4)])
    person = next(people)
    own, all = figures(person, "/reports"), figures(person, "/reports?of=all")
    assert own == figures(person, "/reports?of=me")
    assert 20 < sum(opened_by(own, people).values()) < sum(opened_by(all, people).values())
    watching = Person(demo_crm, user_id=viewer)
    assert figures(watching, "/reports") == all
    assert "?of=me" not in watching.sees("/reports") and "?of=me" in person.sees("/reports")


def test_a_tile_and_its_list_tell_the_days_of_the_tenant(demo_crm, clock):
    with demo_crm.tenants.session("acme"):
        person = Person(demo_crm, user_id=users.owner_id())
    path = html.unescape(TILE.findall(person.sees("/reports"))[0][0])
    assert parse_qsl(urlsplit(path).query) == [
        ("created_since", "2026-02-24"),
        ("created_until", "2026-03-02"),
    ]
    page = person.sees(path)
    assert "Створено від 24 лют. 2026" in page
    # Each filter can be taken away by itself.
    removals = [
        html.unescape(match) for match in re.findall(r'class="filter-on" href="([^"]*)"', page)
    ]
    assert removals == ["/leads?created_until=2026-03-02", "/leads?created_since=2026-02-24"]
    page = person.sees(removals[0])
    assert re.findall(r'class="filter-on" href="([^"]*)"', page) == ["/leads"]
    assert "filter-on" not in person.sees("/leads")
