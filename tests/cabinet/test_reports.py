"""The pages of the reports: plots against tables, tiles against the period before, choices."""

import html
import re
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from crm.cabinet.reports import TITLES, Bar, Plot
from crm.resources import users
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL_IN, DEAL_PATCH
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD_IN
from crm.resources.pipelines import record as pipelines
from crm.resources.reports.declarations import REPORTS
from crm.resources.tasks import TASK_IN
from crm.resources.tasks import create as create_task
from crm.storage.session import transaction
from tests.conftest import OLENA, TARAS
from tests.page_client import Person, cells

SVG = re.compile(r'<svg class="plot".*?</svg>', re.S)


def lead(at=None, **more):
    data = {"name": "Марія", "phone": "+380501234567", **more}
    return leads.create(LEAD_IN.parse({**data, **({"created_at": at} if at else {})}))


def deal(at=None, **more):
    data = {"title": "Стіл", "assigned_to": str(OLENA), **more}
    return deals.create(DEAL_IN.parse({**data, **({"created_at": at} if at else {})}))


@pytest.fixture
def filled(acme):
    """Something in each report, this month and before."""
    with transaction():
        for at in ("2026-02-01T10:00:00Z", "2026-02-20T10:00:00Z", "2026-03-01T10:00:00Z"):
            won = deal("2026-01-10T10:00:00Z", amount=1200.5, source="site")
            deals.update(won, DEAL_PATCH.parse({"status": "won", "closed_at": at}))
            lost = {"status": "lost", "closed_at": at, "currency": "USD", "amount": 300}
            deal("2026-01-10T10:00:00Z", **lost, lost_reason="задорого")
            lead(at, source="site")
        deal(expected_close_date="2026-03-20", amount=10_000)
        deal()
        call = {"title": "Дзвінок", "type": "call", "status": "done", "duration_seconds": 720}
        create_task(TASK_IN.parse(call | {"assigned_to": str(OLENA)}))


def draw(crm, bars, series=(), text="x"):
    """The root of a plot's SVG."""
    template = crm.jinja_env.get_template("reports/_plots.html")
    return ElementTree.fromstring(template.module.draw(Plot(text, text, bars, series)))


def test_bars_are_as_long_as_their_counts(crm):
    root = draw(crm, [Bar("a", [8]), Bar("b", [2]), Bar("c", [0])])
    bars = root.findall(".//rect[@class='plot-bar']")
    assert [bar.get("width") for bar in bars] == ["100%", "25%", "0%"]
    assert root.get("viewBox") is None  # as wide as the page, with texts of one size


def test_standing_bars_are_as_high_as_their_counts_and_stand_on_the_floor(crm):
    bars = [Bar("Jan", (4, 1), mark="J"), Bar("Feb", (0, 2), mark="F")]
    root = draw(crm, bars, [("Won", "plot-won"), ("Lost", "plot-lost")])
    for kind, heights in (("plot-won", [160, 0]), ("plot-lost", [40, 80])):
        bars = root.findall(f".//g/rect[@class='{kind}']")
        assert [float(bar.get("height")) for bar in bars] == heights
        assert {float(bar.get("y")) + float(bar.get("height")) for bar in bars} == {170}


@pytest.mark.parametrize("bars", [[], [Bar("x", [0], mark="x")]])
def test_a_plot_of_nothing_is_drawn(crm, bars):
    assert draw(crm, bars, [("n", "plot-bar")]).tag == "svg"
    assert draw(crm, []).tag == "svg"


def told_by(svg):
    """[(name, count)] of a plot's bars, as their titles tell, and its name."""
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "group"
    assert root.find("title").get("id") == root.get("aria-labelledby")
    titles = [title.text for title in root.iterfind(".//*/title")]
    return root.find("title").text, [tuple(title.rsplit(": ", 1)) for title in titles]


def tile(text, name):
    """The texts of a tile."""
    (record,) = (
        match
        for match in re.findall(r'<li class="panel tile">(.*?)</li>', text, re.S)
        if f">{name}<" in match
    )
    return " ".join(Markup(record.replace("<", " <")).striptags().split())


def table(text):
    """{heading of the row: {heading of the column: text}}, and the total as "Разом"."""
    heads, *rows = cells(text)
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize("name", [name for name in REPORTS if name != "received"])
def test_every_plot_has_the_same_numbers_as_the_table(filled, olena, name):
    text = olena.sees(f"/reports/{name}")
    rows, drawn = table(text), SVG.findall(text)
    assert drawn
    for svg in drawn:
        assert not re.search(r"\sstyle=|<style|<script|\son\w+=", svg)
        title, bars = told_by(svg)
        assert any(count not in ("0", "—") for _, count in bars), title
        for bar, count in bars:
            series, _, row = bar.rpartition(", ")
            column = series or (title if name == "activity" else None)
            if name == "stage-time":
                column = "У середньому"
            elif name == "people":
                column = "Виграні"
            shown = rows[row]
            assert count == shown[column or next(iter(shown))] or (count, name) == (
                "—",
                "stage-time",
            )


def test_the_first_report_is_the_funnel_and_others_are_a_click_away(olena):
    text = olena.sees("/reports?period=year&of=me")
    assert 'aria-current="page">Воронка</a>' in text
    for name in TITLES:
        path = f"/reports/{name}?period=year&amp;of=me"
        assert f'href="{path}"' in text.replace("?of=me&amp;period=year", "?period=year&amp;of=me")
    assert olena.get("/reports/nothing").status_code == 404


def test_tiles_tell_the_period_before_and_the_change(filled, olena):
    # It is the 2nd of March: before are the first two days of February.
    text = olena.sees("/reports/sources")
    assert tile(text, "Нові ліди") == "Нові ліди 1 ±0 · 1 за попередній період"
    text = olena.sees("/reports/sources?period=last_month")
    assert tile(text, "Нові ліди") == "Нові ліди 2 +2 · 0 за попередній період"
    won = "Виграні 2 2 401 ₴ +2 · 0 за попередній період"
    assert tile(text, "Виграні") == won
    text = olena.sees("/reports/lost?since=2026-03-01&until=2026-03-02")
    assert tile(text, "Угоди") == "Угоди 1 300 USD +1 · 0 за попередній період"
    text = olena.sees("/reports/lost?since=2026-03-02&until=2026-03-03")
    assert tile(text, "Угоди") == "Угоди 0 −1 · 1 за попередній період 300 USD"


def test_who_won_most_is_first(filled, olena):
    for _ in range(4):
        lead("2026-03-01T10:00:00Z", assigned_to=str(TARAS))
    assert [*table(olena.sees("/reports/people"))][:2] == ["Olena", "Taras"]


def test_times_and_shares_are_as_people_write_them(filled, olena):
    text = olena.sees("/reports/people")
    assert table(text)["Olena"]["Час дзвінків"] == "12 хв"
    text = olena.sees("/reports/stage-time?since=2026-02-01&until=2026-02-20")
    assert table(text)["New"] == {"Угоди": "2", "У середньому": "31,5 дн."}
    assert table(text)["Proposal"] == {"Угоди": "0", "У середньому": ""}
    assert "62\u00a0%" in olena.sees("/reports/funnel?period=quarter")


def test_names_in_pages_are_text(acme, olena):
    evil = "<script>alert(1)</script>"
    with transaction():
        pipelines.Pipeline.default().save_changes({"name": evil})
        pipelines.create({"name": "Опт"})
        pipelines.Stage.find(1).save_changes({"name": evil})
        deal(status="lost", lost_reason=evil)
        deal()
    for name in ("funnel", "lost"):
        text = olena.sees(f"/reports/{name}")
        assert evil not in text
        assert html.escape(evil) in text


def test_own_dates_are_kept_on_the_way_to_another_report(filled, olena):
    text = olena.sees("/reports/lost?since=2026-02-01&until=2026-02-10&of=all")
    assert tile(text, "Угоди").startswith("Угоди 1 ")
    path = html.unescape(re.search(r'href="(/reports/sources\?[^"]*)"', text)[1])
    assert tile(olena.sees(path), "Нові ліди").startswith("Нові ліди 1 ")
    assert 'name="since" value="2026-02-01"' in text
    assert 'name="of" value="all"' in text
    # A named period takes the place of the dates.
    month = html.unescape(re.search(r'href="([^"]*period=month[^"]*)"', text)[1])
    assert "since" not in month and "of=all" in month


def test_a_pipeline_is_chosen_where_there_are_several(acme, olena):
    assert 'name="pipeline_id"' not in olena.sees("/reports/funnel")
    with transaction():
        second = pipelines.create({"name": "Опт", "stages": [{"name": "Запит"}]})
        deal(pipeline_id=str(second))
    text = olena.sees("/reports/funnel")
    select = re.search(r'<select[^>]*name="pipeline_id".*?</select>', text, re.S)[0]
    assert 'value="1" selected' in select and 'value=""' not in select
    assert tile(text, "Угоди").startswith("Угоди 0")
    text = olena.sees(f"/reports/funnel?pipeline_id={second}")
    assert list(table(text)) == ["Запит", "Разом"]
    text = olena.sees("/reports/people")
    assert '<option value="" selected' in text or '<option value="">Усі</option>' in text
    assert table(text)["Olena"]["Угоди"] == "1"
    assert "Даних ще немає." in olena.sees("/reports/people?pipeline_id=1")


def test_managers_see_their_own_and_may_see_all_viewers_see_all(filled, crm):
    with transaction():
        viewer = users.create({"name": "Дарина", "role": "viewer"}).id
        lead(assigned_to=str(TARAS))
    taras = Person(crm, "acme", TARAS)
    assert tile(taras.sees("/reports/people"), "Нові ліди").startswith("Нові ліди 1 ")
    assert tile(taras.sees("/reports/people?of=all"), "Нові ліди").startswith("Нові ліди 2 ")
    text = Person(crm, "acme", viewer).sees("/reports/people")
    assert tile(text, "Нові ліди").startswith("Нові ліди 2 ")
    assert "of=me" not in text


def test_a_field_of_ones_own_is_chosen_and_its_numbers_link_to_its_lists(filled, api, olena):
    assert 'name="group_by"' not in olena.sees("/reports/sources")
    for type, key in (("flag", "urgent"), ("number", "size")):
        for plural in ("leads", "deals"):
            sent = {"resource": plural, "key": key, "label": key.title(), "type": type}
            api.create("/fields", **sent, filtered=True)
    lead(custom={"urgent": True, "size": 2.5})
    deal(custom={"urgent": False})
    text = olena.sees("/reports/sources?group_by=custom.urgent&sum=custom.size")
    assert '<option value="custom.urgent" selected>Urgent</option>' in text
    rows = table(text)
    assert [*rows] == ["Так", "Без значення", "Разом"]
    assert (rows["Так"]["Нові ліди"], rows["Так"]["Нові ліди · Size"]) == ("1", "2,5")
    path = html.unescape(re.search(r'href="(/leads\?[^"]*custom.urgent=true[^"]*)"', text)[1])
    assert "Марія" in olena.sees(path)
    assert [*table(olena.sees("/reports/funnel?group_by=custom.urgent"))][:2] == [
        "Ні · New",
        "Ні · Qualified",
    ]
    # Reports that cannot be counted by it are shown as they are.
    assert "Urgent" not in olena.sees("/reports/lost?group_by=custom.urgent&sum=custom.urgent")
