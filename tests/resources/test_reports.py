"""The reports: what each counts, their parameters, their rights, CSV."""

import csv
import datetime
import io

import pytest

from crm.resources import tenant, users
from crm.resources.deals.record import Deal
from crm.resources.reports import counting
from crm.resources.reports.declarations import REPORTS
from crm.resources.reports.periods import Period
from crm.storage.session import transaction
from tests.cases import loop_over
from tests.conftest import OLENA, Api, key_for
from tests.tables import traced_statements

HOUR, DAY = 3600, 86_400


def report(api, name, query="", key=None):
    """The rows of a report by their key."""
    answer = api.get(f"/reports/{name}{query}")
    assert answer.status_code == 200, answer.text
    return {row[key or REPORTS[name].key]: row for row in answer.json["data"]}


def total(api, name, query=""):
    return api.get(f"/reports/{name}{query}").json["total"]


def amounts(row, name="deals_amounts"):
    return {one["currency"]: one["amount"] for one in row[name]}


def caller(crm, scopes):
    return Api(crm, "acme", key_for(crm, "acme", ",".join(scopes)))


def move(api, deal, **fields):
    answer = api.patch(f"/deals/{deal}", fields)
    assert answer.status_code == 200, answer.text


# Funnel and times in stages; the stages are New, Qualified, Proposal, Negotiation, Won, Lost


def test_a_deal_has_reached_every_stage_up_to_its_furthest(api):
    back = api.create("/deals", title="Назад", amount=100)
    move(api, back, stage_id="3")
    move(api, back, stage_id="1")
    won = api.create("/deals", title="Одразу", amount=7, currency="USD")
    move(api, won, status="won")
    api.create("/deals", title="Програна", status="lost")
    rows = report(api, "funnel", key="stage")
    assert {stage: row["deals"] for stage, row in rows.items()} == {
        "New": 2,
        "Qualified": 2,
        "Proposal": 2,
        "Negotiation": 1,
        "Won": 1,
    }
    assert amounts(rows["Proposal"]) == {"UAH": 100, "USD": 7}
    assert amounts(rows["Won"]) == {"USD": 7}
    assert total(api, "funnel")["deals"] == 3


def test_the_funnel_is_of_the_default_pipeline_or_of_the_one_named(api):
    pipeline = api.create("/pipelines", name="Опт", stages=[{"name": "Запит"}, {"name": "Угода"}])
    first, second = api.read(f"/pipelines/{pipeline}")["stages"]
    deal = api.create("/deals", title="Стіл", pipeline_id=pipeline)
    assert total(api, "funnel")["deals"] == 0
    answer = api.get(f"/reports/funnel?pipeline_id={pipeline}").json
    assert [row["deals"] for row in answer["data"]] == [1, 0]
    assert answer["meta"]["pipeline_id"] == pipeline
    # It leaves with its moves, and has reached the stages of where it is now alone.
    move(api, deal, stage_id=second["id"])
    move(api, deal, stage_id="2")
    assert total(api, "funnel", f"?pipeline_id={pipeline}")["deals"] == 0
    assert [row["deals"] for row in report(api, "funnel").values()] == [1, 1, 0, 0, 0]
    assert api.get("/reports/funnel?pipeline_id=999").json["data"] == []
    assert first["id"] not in report(api, "funnel")


def test_a_deal_has_been_in_its_stages_from_move_to_move(api, clock):
    deals = [api.create("/deals", title=f"Стіл {number}") for number in range(2)]
    clock.tick(2 * HOUR)
    for deal in deals:
        move(api, deal, stage_id="2")
    clock.tick(HOUR)
    move(api, deals[0], stage_id="1")  # back: both stays there count
    clock.tick(4 * HOUR)
    move(api, deals[0], status="lost")
    move(api, deals[1], status="won")
    rows = report(api, "stage-time", key="stage")
    assert {name: (row["deals"], row["average_seconds"]) for name, row in rows.items()} == {
        "New": (2, (6 + 2) * HOUR // 2),
        "Qualified": (2, (1 + 5) * HOUR // 2),
        "Proposal": (0, None),
        "Negotiation": (0, None),
    }
    assert total(api, "stage-time") == {"deals": 2, "average_seconds": 7 * HOUR}


def test_a_move_dated_before_the_one_before_has_no_negative_time(api, clock):
    deal = api.create("/deals", title="Стіл", created_at="2026-02-20T09:00:00Z")
    move(api, deal, stage_id="2")
    move(api, deal, status="won", closed_at="2026-03-01T09:00:00Z")
    rows = report(api, "stage-time", key="stage")
    assert rows["New"]["average_seconds"] == 10 * DAY
    assert rows["Qualified"]["average_seconds"] == 0


def test_a_deal_moved_after_an_undo_is_not_counted_twice(api, clock):
    deal = api.create("/deals", title="Стіл")
    clock.tick(DAY)
    batch = api.post("/deals/bulk", {"ids": [deal], "set": {"stage_id": "2"}, "expect": 1})
    assert batch.status_code == 200, batch.text
    clock.tick(DAY)
    assert api.post(f"/batches/{batch.json['batch_id']}/undo").status_code == 200
    clock.tick(DAY)
    move(api, deal, status="won")
    rows = report(api, "stage-time", key="stage")
    assert rows["New"]["average_seconds"] == 2 * DAY  # before the move and after its undo
    assert rows["Qualified"]["average_seconds"] == DAY


# Forecast


def test_a_stage_without_a_probability_has_one_by_its_position(api):
    stages = [{"name": name} for name in "абв"] + [{"name": "г", "type": "won"}]
    stages[1]["probability"] = 0
    pipeline = api.create("/pipelines", name="Опт", stages=stages)
    for stage in api.read(f"/pipelines/{pipeline}")["stages"][:3]:
        sent = {"stage_id": stage["id"], "expected_close_date": "2026-05-31"}
        api.create("/deals", title="Стіл", amount=100, **sent)
    row = report(api, "forecast")["2026-05"]
    assert amounts(row, "weighted_amounts") == {"UAH": 25 + 0 + 75}


def test_weighted_amounts_are_rounded_once_to_the_hundredth(api):
    for _ in range(3):
        api.create("/deals", title="Стіл", amount="0.03", expected_close_date="2026-05-31")
    row = report(api, "forecast")["2026-05"]
    assert amounts(row, "weighted_amounts") == {"UAH": 0.01}  # 10 % of 0.09, not of 0.03 thrice


def test_sums_of_the_largest_amounts_are_exact(api):
    for _ in range(3):
        sent = {"amount": "9999999999999.99", "expected_close_date": "2026-05-31"}
        api.create("/deals", title="Стіл", **sent)
    answer = api.get("/reports/forecast")
    assert '"amount":29999999999999.97' in answer.text


def test_a_forecast_of_a_period_has_the_days_in_it_alone(api):
    for day in ("2026-03-31", "2026-04-01", "2026-04-30", "2026-05-01", None):
        api.create("/deals", title="Стіл", expected_close_date=day)
    counts = {month: row["deals"] for month, row in report(api, "forecast").items()}
    assert counts == {"2026-03": 1, "2026-04": 2, "2026-05": 1, None: 1}
    april = report(api, "forecast", "?since=2026-04-01&until=2026-04-30")
    assert {month: row["deals"] for month, row in april.items()} == {"2026-04": 2}
    part = report(api, "forecast", "?since=2026-03-31&until=2026-04-01")
    assert {month: row["deals"] for month, row in part.items()} == {"2026-03": 1, "2026-04": 1}
    later = report(api, "forecast", "?since=2026-04-02")
    assert {month: row["deals"] for month, row in later.items()} == {"2026-04": 1, "2026-05": 1}


# Whatever the report


def fill(api):
    """One of each thing that reports count, of Olena."""
    lead = api.create("/leads", name="Марія", phone="+380671234567", assigned_to="1", source="site")
    api.create("/deals", title="Відкрита", amount=10, expected_close_date="2026-03-05")
    won = api.create("/deals", title="Виграна", amount=20, currency="USD", source="site")
    move(api, won, status="won")
    lost = api.create("/deals", title="Програна", amount=30)
    move(api, lost, status="lost", lost_reason="задорого")
    call = {"title": "Дзвінок", "type": "call", "duration_seconds": 61}
    task = api.create("/tasks", status="done", **call)
    return {"leads": [lead], "deals": [won, lost], "tasks": [task]}


def test_records_of_nobody_and_without_a_value_have_a_row_of_null(api):
    api.create("/leads", name="Марія", phone="+380671234567", source=None)
    deal = api.create("/deals", title="Стіл")
    move(api, deal, status="lost")
    assert report(api, "people")[None]["leads"] == 1
    assert report(api, "sources")[None]["leads"] == 1
    assert report(api, "lost")[None]["deals"] == 1


# Money that was received stays so when the deal is deleted: test_received.py.
@loop_over("name", [name for name in REPORTS if name != "received"])
def test_deleted_records_and_those_of_another_tenant_do_not_count(api, ivan, name):
    before, of_other = total(api, name), total(ivan, name)
    records = fill(api)
    records["deals"] += [deal["id"] for deal in api.read("/deals?status=open")]
    assert total(api, name) != before and total(ivan, name) == of_other
    for noun, ids in records.items():
        for id in ids:
            assert api.delete(f"/{noun}/{id}").status_code == 204
    assert total(api, name) == before


@loop_over("name", REPORTS)
def test_a_report_needs_the_right_to_read_what_it_counts(crm, furnished, name):
    needs = REPORTS[name].needs
    assert {f"{number.resource}:read" for number in REPORTS[name].numbers} <= {*needs}
    assert caller(crm, needs).get(f"/reports/{name}").status_code == 200
    for missing in needs:
        others = [scope for scope in needs if scope != missing] or ["products:read"]
        answer = caller(crm, others).get(f"/reports/{name}")
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
        assert missing in answer.json["detail"]


@loop_over("name", ["funnel", "stage-time", "people"])
def test_a_report_is_narrowed_by_user_pipeline_and_currency(api, taras, name):
    fill(api)
    assert total(api, name, "?assigned_to=me") == total(api, name)
    assert total(api, name, "?assigned_to=1&pipeline_id=1") == total(api, name)
    nothing = total(taras, name, "?assigned_to=me")
    assert nothing == total(api, name, "?assigned_to=none")
    assert not any(value for value in nothing.values())
    other = total(api, name, "?pipeline_id=2&currency=EUR")
    assert not any(other[key] for key in other.keys() & {"deals", "won", "lost"})


@loop_over("name", ["sources", "people"])
def test_a_report_is_of_this_month_by_default(api, clock, name):
    nothing = total(api, name, "?until=2020-01-01")
    before = total(api, name)
    fill(api)
    meta = api.get(f"/reports/{name}").json["meta"]
    assert (meta["since"], meta["until"]) == ("2026-03-01", "2026-03-31")
    found = total(api, name)
    assert found != before
    clock.tick(30 * DAY)
    assert total(api, name) == nothing
    assert total(api, name, "?until=2026-03-15") == found
    assert total(api, name, "?since=2026-03-03") == nothing
    clock.tick(-30 * DAY)


def test_days_are_those_of_the_tenant_and_both_ends_are_included(crm, api):
    for zone, times in {
        "Europe/Kyiv": ("2026-02-28T21:59:59Z", "2026-02-28T22:00:00Z"),
        "Asia/Kathmandu": ("2026-02-28T18:14:59Z", "2026-02-28T18:15:00Z"),
        "America/Los_Angeles": ("2026-03-01T07:59:59Z", "2026-03-01T08:00:00Z"),
    }.items():
        with crm.tenants.session("acme"), transaction():
            tenant.update(time_zone=zone)
        for at in times:
            sent = {"name": zone, "phone": "+380671234567", "source": zone, "created_at": at}
            api.create("/leads", **sent)
        for day, other in (("2026-02-28", "2026-03-01"), ("2026-03-01", "2026-02-28")):
            rows = report(api, "sources", f"?since={day}&until={day}")
            assert rows[zone]["leads"] == 1, (zone, day, other)
        both = report(api, "sources", "?since=2026-02-28&until=2026-03-01")
        assert both[zone]["leads"] == 2


def test_a_day_that_clocks_shorten_is_a_day(api, clock):
    clock.tick(40 * DAY)  # in Kyiv the 29th of March has 23 hours
    for at in ("2026-03-28T22:00:00Z", "2026-03-29T20:59:59Z", "2026-03-29T21:00:00Z"):
        api.create("/leads", name="Марія", phone="+380671234567", created_at=at)
    days = report(api, "activity", "?since=2026-03-28&until=2026-03-30")
    assert [row["leads"] for row in days.values()] == [0, 2, 1]


@loop_over("days", [1, 2, 62])
def test_activity_takes_a_statement_for_each_list_and_time_however_long_it_is(crm, days):
    last = (datetime.date(2026, 1, 1) + datetime.timedelta(days - 1)).isoformat()
    with crm.tenants.session("acme") as session:
        session.user_id = OLENA
        with traced_statements() as statements:
            rows = counting.count("activity", counting.ReportRow(Period("2026-01-01", last)))
    assert len(rows) == days
    lists = {(number.resource, number.period) for number in REPORTS["activity"].numbers}
    assert len([sql for sql in statements if "count(*)" in sql]) == len(lists)


def test_activity_of_a_long_period_is_by_months_and_has_a_limit(api):
    days = report(api, "activity", "?since=2026-01-01&until=2026-03-03")
    assert len(days) == 62
    months = report(api, "activity", "?since=2026-01-15&until=2026-03-18")
    assert list(months) == ["2026-01", "2026-02", "2026-03"]
    assert len(report(api, "activity", "?since=2016-04-01&until=2026-03-31")) == 120
    answer = api.get("/reports/activity?since=2016-03-31&until=2026-03-31")
    assert answer.status_code == 422
    assert answer.json["errors"][0]["code"] == "period_too_long"


@loop_over("name", REPORTS)
def test_csv_has_the_same_numbers_with_a_column_for_each_currency(api, name):
    fill(api)
    answer = api.get(f"/reports/{name}?format=csv")
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}.csv"'
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    rows = api.get(f"/reports/{name}").json["data"]
    assert len(lines) == len(rows) > 0
    for line, row in zip(lines, rows, strict=True):
        cells = {cell: text for cell, text in line.items() if text}
        for field, value in row.items():
            if isinstance(value, list):
                for one in value:
                    cell = cells.pop(f"{field}_{one['currency']}")
                    assert float(cell) == one["amount"]
                    assert cell[-3] == "."
            elif value not in (None, ""):
                assert cells.pop(field) == str(value)
        assert cells == {}


def test_no_cell_of_csv_is_a_formula(api):
    api.create("/leads", name="Марія", phone="+380671234567", source="=1+1")
    cells = api.get("/reports/sources?format=csv").text
    assert "'=1+1," in cells and ",=1+1" not in cells and "\n=1+1" not in cells


def test_only_the_largest_of_many_sources_have_a_row_and_all_are_in_the_total(api, monkeypatch):
    monkeypatch.setattr(counting, "MAX_ROWS", 2)
    for source in ("1", "2", "3", "3"):
        api.create("/leads", name="Марія", phone="+380671234567", source=source)
    answer = api.get("/reports/sources").json
    assert [(row["source"], row["leads"]) for row in answer["data"]] == [("3", 2), ("1", 1)]
    assert answer["total"]["leads"] == 4


# The filters of lists that reports need


def ids(api, query):
    return {deal["title"] for deal in api.read(f"/deals?{query}")}


def test_deals_are_found_by_the_stages_that_they_reached_or_left(api):
    new = api.create("/deals", title="новий")
    api.create("/deals", title="у пропозиції", stage_id="3")
    moved = api.create("/deals", title="повернувся", stage_id="2")
    move(api, moved, stage_id="1")
    won = api.create("/deals", title="виграний")
    move(api, won, status="won")
    assert ids(api, "reached_stage_id=2") == {"у пропозиції", "повернувся", "виграний"}
    assert ids(api, "reached_stage_id=5") == {"виграний"}
    assert ids(api, "left_stage_id=2") == {"повернувся"}
    assert ids(api, "left_stage_id=1") == {"виграний"}
    assert ids(api, "left_stage_id=3") == set() == ids(api, "reached_stage_id=999")
    assert ids(api, "reached_stage_id=x") == set()
    move(api, new, status="lost")
    assert ids(api, "reached_stage_id=6") == set()  # that of lost deals is not on the way


@pytest.mark.parametrize("name", ["funnel", "stage-time"])
def test_a_deal_that_was_closed_in_its_open_stage_stays_there(crm, api, name):
    pipeline = api.create("/pipelines", name="Опт", stages=[{"name": "Запит"}])
    deal = api.create("/deals", title="Стіл", pipeline_id=pipeline)
    move(api, deal, status="won")
    with crm.tenants.session("acme"):
        assert Deal.find(deal).status == "won"
    (row,) = report(api, name, f"?pipeline_id={pipeline}").values()
    assert row["deals"] == {"funnel": 1, "stage-time": 0}[name]
    assert total(api, name, f"?pipeline_id={pipeline}")["deals"] == 1


# Fields of the tenant's own


@pytest.fixture
def wood(api):
    """Leads and deals with a choice, users, flags and budgets of their own."""
    options = [{"key": "oak", "label": "Дуб"}, {"key": "Ash", "label": "Ясен"}]
    fields = {"wood": "choice", "fitter": "user", "urgent": "flag", "budget": "number"}
    for plural in ("leads", "deals"):
        for key, type in fields.items():
            more = {"options": options} if type == "choice" else {}
            sent = {"resource": plural, "key": key, "label": key, "type": type, "filtered": True}
            api.create("/fields", **sent, **more)
    api.create("/fields", resource="leads", key="note", label="Note", type="text", filtered=True)
    api.create("/fields", resource="leads", key="floor", label="Floor", type="flag")
    custom = {"wood": "oak", "fitter": "2", "urgent": True, "budget": 12.0625}
    api.create("/leads", name="А", phone="0671234567", custom=custom)
    api.create("/leads", name="Б", phone="0671234568", custom={"wood": "Ash", "budget": "-1"})
    api.create("/leads", name="В", phone="0671234569")
    won = api.create("/deals", title="Стіл", amount=100, custom={**custom, "budget": "99999999999"})
    move(api, won, status="won")
    api.create("/deals", title="Стілець", custom={"urgent": False})


@pytest.mark.parametrize(
    "key, expected",
    [
        ("wood", {"oak": ("Дуб", 1, 1), "Ash": ("Ясен", 1, 0), None: ("", 1, 0)}),
        ("fitter", {"2": ("Taras", 1, 1), None: ("", 2, 0)}),
        ("urgent", {"true": ("true", 1, 1), None: ("", 2, 0)}),
    ],
)
def test_sources_and_people_are_counted_by_a_field_of_ones_own(api, wood, key, expected):
    for name in ("sources", "people"):
        rows = report(api, name, f"?group_by=custom.{key}", key="value")
        counted = {value: (row["label"], row["leads"], row["won"]) for value, row in rows.items()}
        extra = {"false": ("false", 0, 0)} if (name, key) == ("people", "urgent") else {}
        assert counted == expected | extra
        assert {row[REPORTS[name].key] for row in rows.values()} == {None}
        lists = api.read(f"/leads?custom.{key}={next(iter(expected))}")
        assert len(lists) == expected[next(iter(expected))][1]


def test_the_funnel_is_counted_for_each_value(api, wood):
    rows = api.get("/reports/funnel?group_by=custom.urgent").json["data"]
    assert [(row["value"], row["stage"], row["deals"]) for row in rows][::4] == [
        ("false", "New", 1),
        ("false", "Won", 0),
        ("true", "Negotiation", 1),
    ]
    assert total(api, "funnel", "?group_by=custom.urgent")["deals"] == 2


def test_reports_sum_numbers_of_ones_own(api, wood):
    row = report(api, "sources", "?sum=custom.budget")["api"]
    assert (row["leads"], row["leads_sum"], row["converted_sum"]) == (3, 11.0625, 0)
    assert total(api, "sources", "?sum=custom.budget")["won_sum"] == 99_999_999_999
    for name in ("funnel", "people", "activity"):
        numbers = total(api, name, "?sum=custom.budget")
        assert numbers["deals_sum"] == 99_999_999_999, name
        assert amounts(numbers) == {"UAH": 100}
    assert total(api, "forecast", "?sum=custom.budget")["deals_sum"] == 0  # the open deal has none
    both = "?sum=custom.budget&group_by=custom.wood&format=csv"
    rows = csv.DictReader(io.StringIO(api.get(f"/reports/people{both}").data.decode("utf-8-sig")))
    assert [(one["value"], one["label"], one["leads_sum"]) for one in rows][0] == (
        "oak",
        "Дуб",
        "12.0625",
    )


@pytest.mark.parametrize(
    "name, query, detail",
    [
        ("sources", "group_by=custom.note", "flag, choice, user"),
        ("sources", "group_by=custom.floor", "`filtered`"),
        ("sources", "group_by=custom.wod", "custom.wood"),
        ("sources", "group_by=wood", "custom.wood"),
        ("people", "sum=custom.wood", "number, money"),
        ("lost", "group_by=custom.wood", "no such parameter"),
        ("stage-time", "sum=custom.budget", "no such parameter"),
    ],
)
def test_a_field_that_a_report_cannot_take_is_refused_with_the_reason(
    api, wood, name, query, detail
):
    answer = api.get(f"/reports/{name}?{query}")
    assert answer.status_code == 422
    (error,) = answer.json["errors"]
    assert error["parameter"] == query.partition("=")[0]
    assert detail in error["detail"]


def test_a_seller_counts_own_records_and_no_statement_is_for_a_row(crm, api, wood):
    with crm.tenants.session("acme"):
        seller = users.create({"name": "Solomiya", "role": "seller"}).id
    query = "?group_by=custom.wood&sum=custom.budget"
    own = Api(crm, "acme", key_for(crm, "acme", "*", seller))
    assert report(own, "sources", query, "value") == {}
    api.create("/leads", name="Г", phone="+380671234560", assigned_to=str(seller),
               custom={"wood": "oak", "budget": 3})  # fmt: skip
    (row,) = report(own, "sources", query, "value").values()
    assert (row["value"], row["leads"], row["leads_sum"]) == ("oak", 1, 3)
    with crm.tenants.session("acme"), traced_statements() as statements:
        shown = REPORTS["sources"].customized({"group_by": "custom.wood", "sum": "custom.budget"})
        counting.count("sources", counting.ReportRow(), shown)
    assert len([sql for sql in statements if "count(*)" in sql]) == 4  # leads and won, and sums
