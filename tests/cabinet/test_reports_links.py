"""Each number of the reports opens exactly the records that it counts."""

import html
import re
from collections.abc import Iterator
from itertools import cycle
from urllib.parse import parse_qsl, urlsplit

import pytest

from crm import demo
from crm.installation.tenants import Tenants
from crm.resources import tenant, users
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD_IN
from crm.resources.reports.declarations import REPORTS
from crm.storage.session import transaction
from tests.conftest import Clock, serve_installation
from tests.installations import config_for, copy_installation
from tests.page_client import Person

MAIN = re.compile(r'<ul class="tiles">.*</main>', re.S)
TILE = re.compile(
    r'<a class="tile-link" href="([^"]*)">.*?<span class="tile-count">(.*?)</span>', re.S
)
BEFORE = re.compile(r'· <a href="([^"]*)">\s*(\S+) ')
CELL = re.compile(r'<td class="num"><a href="([^"]*)">(.*?)</a></td>')
BAR = re.compile(r'<a href="([^"]*)"(?: tabindex="-1")?><title>[^<]*: ([^<:]*)</title>')
LINK = re.compile(r'<a [^>]*href="([^"]*)"')
FOUND = re.compile(r'class="head-note">(.*?)</span>')


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    tenants = Tenants(config_for(folder), Clock())
    demo.prepare(tenants)
    tenants.forget_idle()
    return folder


@pytest.fixture
def demo_crm(wired, filled, tmp_path, clock):
    copy_installation(filled, tmp_path / "data")
    serve_installation(wired, config_for(tmp_path / "data"), clock)
    yield wired
    wired.tenants.forget_idle()


def number(text: str) -> int:
    return int(re.sub(r"\s", "", html.unescape(text)))


def numbers_of(page: str) -> set[tuple[str, int]]:
    """(path, count) of each number of a report: no link of it is anything else."""
    (main,) = MAIN.findall(page)
    tiles, cells = TILE.findall(main), CELL.findall(main)
    counts = {(path, number(count)) for path, count in [*tiles, *BEFORE.findall(main), *cells]}
    # The bars of times have no counts, but the links of cells.
    bars = {(path, count) for path, count in BAR.findall(main)}
    paths = {path for path, _ in counts}
    for path, count in bars:
        assert path in paths
        assert re.search(r"дн|год|хв|—", count) or (path, number(count)) in counts
    assert {*LINK.findall(main)} == paths
    return counts


def check_all(numbers: set[tuple[str, int]], people: Iterator[Person]) -> int:
    """Open each path, whose list must have as many records as the number says; gives their sum."""
    for path, count in sorted(numbers):
        text = next(people).sees(html.unescape(path))
        found = FOUND.search(text)
        assert found, path
        assert number(found[1]) == count, path
    return sum(count for _, count in numbers)


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("Europe/Kyiv", "2026-03-31T23:30:00Z"),
        pytest.param("America/Los_Angeles", "2026-03-02T09:00:00Z", marks=pytest.mark.deep),
    ],
)
def test_each_number_of_the_demo_opens_as_many_records(demo_crm, clock, zone, at):
    if at != "2026-03-02T09:00:00Z":
        clock.tick(29 * 86_400 + 14.5 * 3600)
    with demo_crm.tenants.session("acme"), transaction():
        tenant.update(time_zone=zone)
        for day in (28, 29, 30) if at > "2026-03-03" else ():  # clocks change on the 29th in Kyiv
            for hour in ("00:30", "20:59", "21:00", "22:00"):
                sent = {"name": "Ганна", "phone": "+380501234568", "source": "сайт & інше"}
                leads.create(LEAD_IN.parse(sent | {"created_at": f"2026-03-{day}T{hour}:00Z"}))
        people = cycle([Person(demo_crm, user_id=users.owner_id()) for _ in range(4)])
    numbers: set[tuple[str, int]] = set()
    for name in REPORTS:
        numbers |= numbers_of(next(people).sees(f"/reports/{name}"))
    assert check_all(numbers, people) > 40


def test_a_number_and_its_list_tell_the_days_of_the_tenant(demo_crm):
    with demo_crm.tenants.session("acme"):
        person = Person(demo_crm, user_id=users.owner_id())
    page = person.sees("/reports/sources?since=2026-02-24&until=2026-03-02")
    path = html.unescape(TILE.findall(page)[0][0])
    assert parse_qsl(urlsplit(path).query) == [
        ("created_since", "2026-02-24"),
        ("created_until", "2026-03-02"),
    ]
    page = person.sees(path)
    assert "Створено від 24 лют. 2026" in page


def test_the_filters_of_reports_are_told_in_words(demo_crm):
    with demo_crm.tenants.session("acme"):
        person = Person(demo_crm, user_id=users.owner_id())
    for query, text in {
        "/deals?view=list&reached_stage_id=2": "Дійшли до етапу: ",
        "/deals?view=list&left_stage_id=1": "Пройшли етап: ",
        "/deals?view=list&has_lost_reason=false": "Причина невідома",
        "/deals?view=list&has_expected_close_date=false": "Без дати закриття",
        "/deals?view=list&lost_reason=задорого": "Причина відмови: задорого",
        "/deals?view=list&currency=USD": "Валюта: USD",
        "/tasks?assigned_to=all&status=done&completed_since=2026-03-01": "Виконано від 1 бер. 2026",
    }.items():
        page = person.sees(query)
        (shown,) = (
            one for one in re.findall(r'class="filter-on"[^>]*>(.*?)<', page) if text in one
        )
        assert not re.search(r": \d+\s*$", shown)  # a stage by its name
