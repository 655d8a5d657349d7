"""The published sales history (`history.py`) as facts for reports, and a tenant that has them.

What the history lacks follows from what it has: every deal begins in the first stage and is engaged
after a third of its time; the office of its agent gives the currency, the trade of its account the
reason of a loss, the product the source. `write()` brings the facts into a tenant by the verbs that
pages and the API call, in the order of time; `database()` has them in three plain tables, for SQL
that knows nothing of the CRM.
"""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from crm.resources import tasks, tenant, users
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL_IN, DEAL_PATCH
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD_IN
from crm.resources.pipelines import record as pipelines
from crm.resources.tasks import TASK_IN
from crm.storage.session import transaction
from tests.conftest import Clock
from tests.history import STAGES, moment, sku_of, table

ZONE, HOURS = "America/Bogota", -5  # where the clocks never change
CURRENCIES = {"Central": "USD", "East": "EUR", "West": "UAH"}
A_DAY = timedelta(days=1)
NEW, WORKED = "Prospecting", "Engaging"
PROBABILITIES = {NEW: 33, WORKED: 70}  # the first one by its position: it has none of its own
NOW = "2018-01-15T12:00:00Z"


class Fact(NamedTuple):
    """A deal of the history; times are RFC 3339 in UTC."""

    id: str
    agent: str
    stage: str
    created: str
    worked: str | None
    closed: str | None
    expected: str | None
    amount: int
    currency: str
    source: str
    reason: str | None
    has_lead: bool

    @property
    def status(self) -> str:
        return STAGES[self.stage]

    @property
    def days(self) -> int:
        """How long it took until it was closed."""
        return _time(self.closed).toordinal() - _time(self.created).toordinal()


class Work(NamedTuple):
    """A task that was done when a deal was closed."""

    agent: str
    kind: str | None
    done: str
    seconds: int | None


def facts() -> list[Fact]:
    """Every tenth deal of the history."""
    prices = {sku_of(row["product"]): int(row["sales_price"]) for row in table("products")}
    offices = {row["sales_agent"]: row["regional_office"] for row in table("sales_teams")}
    trades = {row["account"]: row["sector"] for row in table("accounts")}
    return [
        _fact(number, row, prices, offices, trades)
        for number, row in enumerate(table("sales_pipeline")[::10])
    ]


def _fact(
    number: int,
    row: dict[str, str],
    prices: dict[str, int],
    offices: dict[str, str],
    trades: dict[str, str],
) -> Fact:
    stage, sku = row["deal_stage"], sku_of(row["product"])
    created = _time(moment(row["engage_date"]) or "2017-12-31T00:00:00Z")
    created += timedelta(seconds=number * 37 % 86_400)  # at all hours of the day
    closed = _time(moment(row["close_date"])) + A_DAY if row["close_date"] else None
    worked = None if stage == NEW else created + ((closed or created + 9 * A_DAY) - created) / 3
    expected = created + 90 * A_DAY if row["engage_date"] and not closed else None
    return Fact(
        row["opportunity_id"],
        row["sales_agent"],
        stage,
        _text(created),
        worked and _text(worked),
        closed and _text(closed),
        expected and _text(expected)[:10],
        int(row["close_value"]) if stage == "Won" else prices[sku],
        CURRENCIES[offices[row["sales_agent"]]],
        sku,
        trades.get(row["account"]) if stage == "Lost" else None,
        number % 3 == 0,
    )


def works(all_facts: list[Fact]) -> list[Work]:
    """The tasks: one for each closed deal, calls with a duration."""
    kinds = ("call", "meeting", "call", "email", "call", None)
    closed = [fact for fact in all_facts if fact.closed]
    return [
        Work(fact.agent, kind, fact.closed or "", 60 * fact.days if kind == "call" else None)
        for fact, kind in zip(closed, kinds * (len(closed) // 6 + 1), strict=False)
    ]


def write(clock: Clock) -> None:
    """Write the facts into the tenant of the session; the clock ends at NOW."""
    tenant.update(time_zone=ZONE)
    steps = [*_steps(facts())]
    with transaction():
        for at, step in sorted(steps, key=lambda pair: pair[0]):
            clock.moment = _time(at).timestamp()
            step()
    clock.moment = now()


def _steps(all_facts: list[Fact]) -> Iterator[tuple[str, Callable[[], Any]]]:
    stages = [
        {
            "name": name,
            "type": kind,
            "probability": None if name == NEW else PROBABILITIES.get(name),
        }
        for name, kind in STAGES.items()
    ]
    with transaction():
        pipeline = pipelines.create({"name": "B2B", "stages": stages, "is_default": 1})
        agents = {
            name: str(users.create({"name": name, "role": "manager"}).id)
            for name in sorted({fact.agent for fact in all_facts})
        }
        by_name = {
            stage.name: str(stage.id) for stage in pipelines.Pipeline.find(pipeline).list_stages()
        }
    for fact in all_facts:
        yield from _steps_of_deal(fact, agents[fact.agent], by_name)
    for work in works(all_facts):
        sent = {"title": "Дзвінок", "type": work.kind, "assigned_to": agents[work.agent]}
        done = {"status": "done", "duration_seconds": work.seconds}
        yield work.done, lambda sent=sent | done: tasks.create(TASK_IN.parse(sent))


def _steps_of_deal(
    fact: Fact, agent: str, stages: dict[str, str]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    ids: list[int] = []

    def create() -> None:
        sent = {
            "title": fact.id,
            "assigned_to": agent,
            "stage_id": stages[NEW],
            "amount": fact.amount,
            "currency": fact.currency,
            "source": fact.source,
            "expected_close_date": fact.expected,
        }
        if fact.has_lead:
            person = {"name": fact.id, "email": f"{fact.id}@example.com", "source": fact.source}
            lead = leads.create(LEAD_IN.parse(person | {"assigned_to": agent}))
            if fact.status == "won":  # its deal is that of the lead
                sent["lead_id"] = str(lead)
        ids.append(deals.create(DEAL_IN.parse(sent)))

    def update(**sent: Any) -> None:
        deals.update(ids[0], DEAL_PATCH.parse(sent))

    yield fact.created, create
    if fact.worked:
        yield fact.worked, lambda: update(stage_id=stages[WORKED])
    if fact.closed:
        lost = {"lost_reason": fact.reason} if fact.status == "lost" else {}
        yield fact.closed, lambda: update(stage_id=stages[fact.stage], **lost)


def now() -> float:
    """NOW as a clock tells it."""
    return _time(NOW).timestamp()


def database() -> sqlite3.Connection:
    """The facts in tables of their own; `day(time)` is the day in ZONE."""
    connection = sqlite3.connect(":memory:")
    connection.create_function("day", 1, _day)
    columns = ", ".join(Fact._fields)
    connection.execute(f"CREATE TABLE fact ({columns})")
    connection.execute(f"CREATE TABLE work ({', '.join(Work._fields)})")
    all_facts = facts()
    marks = ", ".join("?" * len(Fact._fields))
    connection.executemany(f"INSERT INTO fact VALUES ({marks})", all_facts)
    connection.executemany("INSERT INTO work VALUES (?, ?, ?, ?)", works(all_facts))
    return connection


def _day(time: str | None) -> str | None:
    return time and f"{_time(time) + timedelta(hours=HOURS):%Y-%m-%d}"


def _time(text: str | None) -> datetime:
    assert text
    return datetime.fromisoformat(text)


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
