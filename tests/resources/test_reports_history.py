"""The reports over a real sales history, against SQL over its facts in tables of their own."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from crm import CRMApp
from crm.installation.tenants import Tenants
from crm.resources.leads import figures
from tests import sales_facts
from tests.conftest import Api, Clock
from tests.installations import config_for, copy_installation

pytestmark = pytest.mark.slow

YEAR, QUARTER, MONTH = (
    ("2017-01-01", "2017-12-31"),
    ("2017-04-01", "2017-06-30"),
    ("2017-11-01", "2017-11-30"),
)
IN_PERIOD = "day({0}) BETWEEN :since AND :until"
OF_DEALS = " AND (:currency = '' OR currency = :currency)"
OF_ALL = " AND (:agent = '' OR agent = :agent)"
AGENT = "Darcel Schlecht"
SELECTIONS = [
    {"period": YEAR},
    {"period": MONTH},
    {"period": YEAR, "agent": AGENT},
    {"period": QUARTER, "currency": "EUR"},
]
PERIODS = pytest.mark.parametrize(
    "selection", SELECTIONS, ids=lambda one: "-".join(map(str, one.values()))
)
Rows = dict[Any, dict[str, Any]]


@pytest.fixture(scope="module")
def history(wired: CRMApp, furnished, tmp_path_factory) -> Iterator[Api]:
    """Olena's key at acme, which has the whole history."""
    folder = tmp_path_factory.mktemp("history") / "data"
    copy_installation(furnished[0], folder)
    clock = Clock()
    wired.tenants = Tenants(config_for(folder), clock)
    wired.limiter.counters = wired.tenants.counters
    with wired.tenants.session("acme"):
        sales_facts.write(clock)
    yield Api(wired, "acme", furnished[1]["olena"])
    wired.tenants.forget_idle()


@pytest.fixture(scope="module")
def agents(history) -> dict[str, str]:
    return {user["id"]: user["name"] for user in history.read("/users")}


@pytest.fixture(scope="module")
def facts():
    return sales_facts.database()


def report(history: Api, agents: dict[str, str], name: str, selection: dict[str, Any]) -> Any:
    since, until = selection["period"]
    sent = {"since": since, "until": until, "currency": selection.get("currency")}
    ids = {agent: id for id, agent in agents.items()}
    sent["assigned_to"] = ids.get(selection.get("agent"))
    pairs = [f"{key}={value}" for key, value in sent.items() if value]
    answer = history.get(f"/reports/{name}?{'&'.join(pairs)}")
    assert answer.status_code == 200, answer.text
    return answer.json


def by_key(rows: list[dict[str, Any]], key: str) -> Rows:
    """The rows by the value of a field, with sums as {currency: amount}."""
    result = {}
    for row in rows:
        shown = {name: amounts(value) for name, value in row.items() if name != key}
        result[row[key]] = shown
    assert len(result) == len(rows)
    return result


def amounts(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return {one["currency"]: one["amount"] for one in value}


def select(facts: Any, selection: dict[str, Any], sql: str) -> list[tuple[Any, ...]]:
    """The rows of independent SQL over the facts."""
    since, until = selection["period"]
    narrowed = {"agent": "", "currency": "", **selection, "since": since, "until": until}
    del narrowed["period"]
    return facts.execute(sql, narrowed).fetchall()


def counted(rows: list[tuple[Any, ...]]) -> dict[Any, tuple[int, dict[str, int]]]:
    """{key: (count, {currency: sum})} of rows (key, currency, count, sum)."""
    result: dict[Any, tuple[int, dict[str, int]]] = {}
    for key, currency, count, sum in rows:
        before, sums = result.get(key, (0, {}))
        result[key] = (before + count, sums | {currency: sum})
    return result


def deals_by(key: str, time: str, where: str = "TRUE") -> str:
    return (
        f"SELECT {key}, currency, count(*), sum(amount) FROM fact WHERE {IN_PERIOD.format(time)}"
        f" AND {where}{OF_DEALS}{OF_ALL} GROUP BY 1, 2"
    )


@PERIODS
def test_the_funnel_counts_deals_as_far_as_they_came(history, agents, facts, selection):
    answer = report(history, agents, "funnel", selection)
    rows = by_key(answer["data"], "stage")
    expected = {
        stage: counted(select(facts, selection, deals_by(f"'{stage}'", "created", where)))
        for stage, where in (
            ("Prospecting", "TRUE"),
            ("Engaging", "worked IS NOT NULL"),
            ("Won", "stage = 'Won'"),
        )
    }
    assert list(rows) == list(expected)
    for stage, row in rows.items():
        assert (row["deals"], row["deals_amounts"]) == expected[stage].get(stage, (0, {}))
    total = expected["Prospecting"]["Prospecting"]
    assert (answer["total"]["deals"], amounts(answer["total"]["deals_amounts"])) == total
    assert rows["Prospecting"]["deals"] > rows["Engaging"]["deals"] or selection["period"] != YEAR


@PERIODS
def test_times_in_stages_are_those_between_the_moves(history, agents, facts, selection):
    answer = report(history, agents, "stage-time", selection)
    seconds = "sum(strftime('%s', {1}) - strftime('%s', {0}))"
    ((count, new, worked),) = select(
        facts,
        selection,
        f"SELECT count(*), {seconds.format('created', 'worked')},"
        f" {seconds.format('worked', 'closed')} FROM fact"
        f" WHERE {IN_PERIOD.format('closed')}{OF_DEALS}{OF_ALL}",
    )
    rows = by_key(answer["data"], "stage")
    assert count > 5
    assert {stage: row["deals"] for stage, row in rows.items()} == {
        "Prospecting": count,
        "Engaging": count,
    }
    assert rows["Prospecting"]["average_seconds"] == pytest.approx(new / count, abs=0.51)
    assert rows["Engaging"]["average_seconds"] == pytest.approx(worked / count, abs=0.51)
    total = answer["total"]
    assert total["deals"] == count
    assert total["average_seconds"] == pytest.approx((new + worked) / count, abs=0.51)


@pytest.mark.parametrize("selection", [*SELECTIONS, {"period": ("2017-12-20", "2018-02-10")}])
def test_the_forecast_weights_amounts_by_the_stages(history, agents, facts, selection):
    answer = report(history, agents, "forecast", selection)
    weight = " ".join(f"WHEN '{name}' THEN {p}" for name, p in sales_facts.PROBABILITIES.items())
    found = select(
        facts,
        selection,
        "SELECT substr(expected, 1, 7), currency, count(*), sum(amount),"
        f" sum(amount * CASE stage {weight} END) FROM fact WHERE closed IS NULL"
        f" AND expected BETWEEN :since AND :until{OF_DEALS}{OF_ALL} GROUP BY 1, 2",
    )
    expected = counted([row[:4] for row in found])
    weighted: dict[str, dict[str, float]] = defaultdict(dict)
    for month, currency, _, _, sum in found:
        weighted[month][currency] = round(sum / 100, 2)
    rows = by_key(answer["data"], "month")
    assert {month: (row["deals"], row["deals_amounts"]) for month, row in rows.items()} == expected
    assert {month: row["weighted_amounts"] for month, row in rows.items()} == weighted
    assert list(rows) == sorted(rows)


@PERIODS
def test_lost_deals_are_counted_by_reason(history, agents, facts, selection):
    answer = report(history, agents, "lost", selection)
    rows = by_key(answer["data"], "reason")
    expected = counted(select(facts, selection, deals_by("reason", "closed", "stage = 'Lost'")))
    assert {key: (row["deals"], row["deals_amounts"]) for key, row in rows.items()} == expected
    counts = [row["deals"] for row in answer["data"] if row["reason"] is not None]
    assert counts == sorted(counts, reverse=True)
    assert answer["total"]["deals"] == sum(count for count, _ in expected.values()) > 0


@PERIODS
def test_leads_and_won_deals_are_counted_by_source(history, agents, facts, selection):
    rows = by_key(report(history, agents, "sources", selection)["data"], "source")
    leads = select(
        facts,
        selection,
        "SELECT source, count(*), count(CASE WHEN stage = 'Won' THEN 1 END) FROM fact"
        f" WHERE has_lead AND {IN_PERIOD.format('created')}{OF_ALL} GROUP BY 1",
    )
    won = counted(select(facts, selection, deals_by("source", "closed", "stage = 'Won'")))
    found = {source: (row["leads"], row["converted"]) for source, row in rows.items()}
    assert {source: pair for source, pair in found.items() if pair[0]} == {
        source: (count, converted) for source, count, converted in leads
    }
    found = {source: (row["won"], row["won_amounts"]) for source, row in rows.items()}
    assert {source: pair for source, pair in found.items() if pair[0]} == won


WORK = {
    "leads": "SELECT {0}, '', count(*), 0 FROM fact WHERE has_lead"
    f" AND {IN_PERIOD.format('created')}{OF_ALL} GROUP BY 1",
    "deals": deals_by("{0}", "created"),
    "won": deals_by("{0}", "closed", "stage = 'Won'"),
    "lost": deals_by("{0}", "closed", "stage = 'Lost'"),
    **{
        name: f"SELECT {{0}}, 's', count(*), coalesce(sum(seconds), 0) FROM work"
        f" WHERE {where} AND {IN_PERIOD.format('done')}{OF_ALL} GROUP BY 1"
        for name, where in (
            ("tasks", "TRUE"),
            ("calls", "kind = 'call'"),
            ("meetings", "kind = 'meeting'"),
            ("emails", "kind = 'email'"),
        )
    },
}
TIMES = {"leads": "created", "deals": "created", "won": "closed", "lost": "closed"}


def work(facts: Any, selection: dict[str, Any], name: str, key: str) -> dict[Any, Any]:
    sql = WORK[name].replace("{0}", key.replace("{time}", TIMES.get(name, "done")))
    return counted(select(facts, selection, sql))


@PERIODS
@pytest.mark.parametrize("max_users", [0, 1000], ids=["grouped", "each by itself"])
def test_people_have_what_was_theirs(history, agents, facts, selection, monkeypatch, max_users):
    monkeypatch.setattr(figures, "MAX_USERS", max_users)
    rows = by_key(report(history, agents, "people", selection)["data"], "user")
    assert {id: agents[id] for id in (row["user_id"] for row in rows.values())} == {
        row["user_id"]: name for name, row in rows.items()
    }
    for name in ("leads", "deals", "won", "lost", "tasks", "calls"):
        expected = work(facts, selection, name, "agent")
        assert {user: row[name] for user, row in rows.items() if row[name]} == {
            user: count for user, (count, _) in expected.items()
        }, name
        if name in ("deals", "won", "lost"):
            sums = {user: row[f"{name}_amounts"] for user, row in rows.items() if row[name]}
            assert sums == {user: sums for user, (_, sums) in expected.items()}, name
    calls = work(facts, selection, "calls", "agent")
    assert {user: row["calls_seconds"] for user, row in rows.items() if row["calls"]} == {
        user: sums["s"] for user, (_, sums) in calls.items()
    }


@PERIODS
def test_activity_is_counted_by_the_days_of_the_tenant_or_by_months(
    history, agents, facts, selection
):
    answer = report(history, agents, "activity", selection)
    rows = by_key(answer["data"], "period")
    is_long = selection["period"] != MONTH
    key = "substr(day({time}), 1, 7)" if is_long else "day({time})"
    assert len(rows) == {YEAR: 12, QUARTER: 3, MONTH: 30}[selection["period"]]
    for name in WORK:
        expected = work(facts, selection, name, key)
        assert {day: row[name] for day, row in rows.items() if row[name]} == {
            day: count for day, (count, _) in expected.items()
        }, name
        assert answer["total"][name] == sum(count for count, _ in expected.values()) > 0, name
        if name in ("deals", "won", "lost"):
            sums = {day: row[f"{name}_amounts"] for day, row in rows.items() if row[name]}
            assert sums == {day: sums for day, (_, sums) in expected.items()}, name
