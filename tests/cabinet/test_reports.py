"""The reports' figures against a count by hand, its plots against their tables; the search."""

import random
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from markupsafe import Markup

from crm.cabinet import figures
from crm.cabinet.figures import Calendar
from crm.cabinet.plots import Bar, Plot
from crm.resources import tasks, tenant, users
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL, DEAL_IN
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD, LEAD_IN, Lead
from crm.resources.pipelines import record as pipelines
from crm.resources.tasks import TASK_IN, Task
from crm.storage.session import now, transaction
from tests.conftest import OLENA
from tests.page_client import Person

KYIV = "Europe/Kyiv"
SVG = re.compile(r'<svg class="plot".*?</svg>', re.S)
TABLE = re.compile(r"<table class=\"table table-sm\">.*?</table>", re.S)


@pytest.fixture
def acme(crm):
    """Inside acme, where nothing is yet."""
    with crm.tenants.session("acme") as session:
        yield session


def lead(at=None, **more):
    data = {"name": "Марія", "phone": "+380501234567", **more}
    return leads.create(LEAD_IN.parse({**data, **({"created_at": at} if at else {})}))


def deal(at=None, **more):
    data = {"title": "Стіл", **more}
    return deals.create(DEAL_IN.parse({**data, **({"created_at": at} if at else {})}))


def task(clock, due, made=-30 * 86_400):
    """A task made and due so many seconds from now."""
    clock.tick(made)
    id = tasks.create(TASK_IN.parse({"title": "Подзвонити", "due_at": moment(clock, due - made)}))
    clock.tick(-made)
    return id


def moment(clock, seconds=0.0):
    return f"{datetime.fromtimestamp(clock() + seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def local(text, zone=KYIV):
    return datetime.fromisoformat(text).astimezone(ZoneInfo(zone))


def here(zone=KYIV):
    return Calendar(zone, now())


def set_clock(clock, text):
    clock.moment = datetime.fromisoformat(text).timestamp()


@pytest.fixture
def made(acme, clock):
    """A year of leads and deals, some of them deleted, by chance that is always the same."""
    dice = random.Random(5)

    def ago(days):
        return moment(clock, -dice.randrange(days * 86_400))

    names = [f"source {number}" for number in range(12)] + [None]
    currencies = ("UAH", "UAH", "USD", "EUR")
    with transaction():
        pipelines.create({"name": "Repairs"})
        for number in range(160):
            id = lead(ago(120), source=dice.choice(names[: 1 + number % 13]))
            if number % 9 == 0:
                Lead.find(id).remove()
        for number in range(120):
            opened = ago(400)
            status = dice.choice(("open", "won", "lost"))
            closed = {}
            if status != "open":
                # From the opening until now, no later.
                seconds = int(clock() - datetime.fromisoformat(opened).timestamp())
                closed = {"closed_at": moment(clock, -dice.randrange(seconds + 1))}
            amount = dice.choice((None, dice.randrange(10**7) / 100))
            money = {"currency": dice.choice(currencies), "amount": amount}
            pipeline = {"pipeline_id": dice.choice((1, 2))}
            id = deal(opened, status=status, **pipeline, **money, **closed)
            if number % 10 == 0:
                deals.Deal.find(id).remove()


def sums(found):
    """What deals as the API shows them come to, in 1/100 by currency."""
    total = Counter()
    for item in found:
        total[item["currency"]] += round(float(item["amount"] or 0) * 100)
    return {currency: sum for currency, sum in total.items() if sum}


def all_of(shape):
    return shape.every("deleted_at IS NULL")


def test_leads_are_counted_by_the_days_of_the_tenant(made):
    by_day = Counter(local(record["created_at"]).date() for record in all_of(LEAD))
    today = local(now()).date()
    days = [today - timedelta(back) for back in range(29, -1, -1)]
    assert figures.leads_by_day(here()) == [(day, by_day[day]) for day in days]
    assert sum(count for _, count in figures.leads_by_day(here())) > 20


def test_new_leads_stand_against_the_same_stretch_a_week_before(made):
    results = [local(record["created_at"]) for record in all_of(LEAD)]
    at = local(now())
    first = datetime.combine(at.date() - timedelta(6), datetime.min.time(), at.tzinfo)
    this = sum(first <= record <= at for record in results)
    week = timedelta(7)
    before = sum(first - week <= record <= at - week for record in results)
    assert figures.new_leads(here()) == (this, before)
    assert this and before


def test_sources_are_the_eight_that_brought_most_and_the_rest(made):
    first = local(now()).date() - timedelta(89)
    counts = Counter(
        record["source"] for record in all_of(LEAD) if local(record["created_at"]).date() >= first
    )
    most, others = figures.sources(here())
    expected = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0] or ""))
    assert most == expected[:8]
    assert others == sum(count for _, count in expected[8:]) > 0


def test_a_lead_without_a_source_is_counted_as_such(acme):
    with transaction():
        lead(source=None)
        lead(source="site")
        lead(source="site")
    assert figures.sources(here()) == ([("site", 2), (None, 1)], 0)


def test_a_funnel_has_what_is_open_in_each_stage(made):
    results = [record for record in all_of(DEAL) if record["status"] == "open"]
    funnels = figures.funnels()
    assert [funnel["name"] for funnel in funnels] == ["Sales", "Repairs"]
    for funnel in funnels:
        stages = [record.name for record in pipelines.Pipeline.find(funnel["id"]).list_stages()]
        assert [stage["name"] for stage in funnel["stages"]] == stages[:4]
        here = funnel["stages"][0]["deals"]
        own = [record for record in results if record["pipeline_id"] == funnel["id"]]
        assert (here.count, here.sums) == (len(own), sums(own))
        assert here.count


def test_deals_in_work_are_those_of_all_pipelines_and_as_they_stood_a_week_ago(made, clock):
    result = all_of(DEAL)
    now_open = [item for item in result if item["status"] == "open"]
    then = moment(clock, -7 * 86_400)
    then_open = [
        item
        for item in result
        if item["created_at"] <= then and (item["closed_at"] or "9999") > then
    ]
    work, before = figures.in_work(here(), figures.funnels())
    assert (work.count, work.sums) == (len(now_open), sums(now_open))
    assert before == len(then_open) != len(now_open)
    assert set(work.sums) == {"UAH", "USD", "EUR"}


def test_closed_deals_are_counted_by_month_and_currency(made):
    results = [record for record in all_of(DEAL) if record["closed_at"]]
    months = figures.closed_by_month(here())
    assert [month for month, *_ in months][::11] == ["2025-04", "2026-03"]
    for month, won, lost in months:
        for status, shown in (("won", won), ("lost", lost)):
            own = [
                record
                for record in results
                if f"{local(record['closed_at']):%Y-%m}" == month and record["status"] == status
            ]
            assert (shown.count, shown.sums) == (len(own), sums(own))
    assert sum(won.count for _, won, _ in months) > 10


def test_what_was_won_stands_against_the_month_before_up_to_this_day(made, clock):
    set_clock(clock, "2026-02-12T09:00:00Z")
    won = [record["closed_at"] for record in all_of(DEAL) if record["status"] == "won"]
    this, before = figures.won(here())
    assert this.count == sum("2026-01-31T22:00:00Z" <= at <= now() for at in won)
    then = ("2025-12-31T22:00:00Z", "2026-01-12T09:00:00Z")
    assert before.count == sum(then[0] <= at <= then[1] for at in won)


def test_a_longer_month_stands_against_all_of_a_shorter_one():
    calendar = Calendar(KYIV, "2026-03-30T09:00:00Z")
    assert calendar.month_until_then() == ("2026-01-31T22:00:00Z", "2026-02-28T22:00:00Z")
    calendar = Calendar(KYIV, "2026-03-28T09:00:00Z")
    assert calendar.month_until_then() == ("2026-01-31T22:00:00Z", "2026-02-28T09:00:01Z")


@pytest.mark.parametrize(
    ("zone", "midnight"),
    [(KYIV, "2026-02-28T22:00:00Z"), ("Asia/Kathmandu", "2026-02-28T18:15:00Z"), ("UTC", "")],
)
def test_the_second_of_midnight_begins_the_day_and_the_month(acme, zone, midnight):
    midnight = midnight or "2026-03-01T00:00:00Z"
    before = datetime.fromisoformat(midnight) - timedelta(seconds=1)
    with transaction():
        for at in (before.isoformat(), midnight):
            lead(at)
            deal("2026-01-05T09:00:00Z", status="won", closed_at=at, amount=100)
            deal("2026-01-05T09:00:00Z", status="lost", closed_at=at, amount=100)
    days = dict(figures.leads_by_day(here(zone)))
    assert days[date(2026, 2, 28)] == days[date(2026, 3, 1)] == 1
    months = {
        month: (won.count, lost.count) for month, won, lost in figures.closed_by_month(here(zone))
    }
    assert months["2026-02"] == months["2026-03"] == (1, 1)
    assert figures.won(here(zone))[0].count == 1


def test_a_day_that_clocks_shorten_is_a_day(acme, clock):
    set_clock(clock, "2026-03-30T10:00:00Z")  # in Kyiv the 29th has 23 hours
    with transaction():
        for at in ("2026-03-28T22:00:00Z", "2026-03-29T20:59:59Z", "2026-03-29T21:00:00Z"):
            lead(at)
    days = figures.leads_by_day(here())
    assert days[-2:] == [(date(2026, 3, 29), 2), (date(2026, 3, 30), 1)]


def test_what_happens_in_this_second_counts(acme):
    with transaction():
        lead()
        deal(status="won", amount=5)
    assert figures.new_leads(here()) == (1, 0)
    assert figures.won(here())[0].count == 1
    assert figures.leads_by_day(here())[-1][1] == 1


def test_sums_of_the_largest_amounts_are_exact(acme):
    with transaction():
        for _ in range(100):
            deal(amount=9_999_999_999_999.99)
    work, _ = figures.in_work(here(), figures.funnels())
    assert work.sums == {"UAH": 99_999_999_999_999_900}


def test_tasks_are_due_today_or_overdue_and_stand_against_yesterday(acme, clock):
    hour, day = 3600, 86_400  # it is 11 in Kyiv
    task(clock, 0)
    task(clock, 13 * hour - 1)
    task(clock, 13 * hour)  # tomorrow
    task(clock, -hour)
    task(clock, -day + hour)  # was for the rest of yesterday, is overdue
    task(clock, -day - hour)  # was overdue yesterday, still is
    task(clock, -2 * hour, made=-3 * hour)  # wasn't there yesterday
    done = task(clock, -day + 2 * hour)
    with transaction():
        tasks.complete(done)
        Task.find(task(clock, hour)).remove()
    long_done = task(clock, -3 * day)
    clock.tick(-2 * day)
    with transaction():
        tasks.complete(long_done)
    clock.tick(2 * day)
    assert figures.tasks(here()) == ((1 + 1, 2), (4, 1))


def draw(crm, bars, series=(), text="x"):
    """The root of a plot's SVG."""
    template = crm.jinja_env.get_template("reports/_plots.html")
    return ElementTree.fromstring(template.module.draw(Plot(text, text, text, (), bars, series)))


def test_bars_are_as_long_as_their_counts(crm):
    root = draw(crm, [Bar("a", [8]), Bar("b", [2]), Bar("c", [0])])
    bars = root.findall(".//rect[@class='plot-bar']")
    assert [float(bar.get("width")) for bar in bars] == [360, 90, 0]


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


def test_names_in_plots_are_text(crm):
    evil = '<script>"&'
    root = draw(crm, [Bar(evil, [1], notes=[evil])], text=evil)
    assert root.find("title").text == root.find("desc").text == evil
    assert [text.text for text in root.findall(".//text")] == [evil, "1", evil]


def test_long_names_are_cut_in_the_picture_and_whole_in_its_title(crm):
    root = draw(crm, [Bar("ш" * 100, [12])])
    assert root.find(".//g/title").text == f"{'ш' * 100}: 12"
    assert len(root.find(".//text").text) < 50


def told_by(svg):
    """[(name, count)] of a plot's bars, as their titles tell, and its name."""
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "group"
    labels = root.get("aria-labelledby").split()
    assert [root.find("title").get("id"), root.find("desc").get("id")] == labels
    titles = [title.text for title in root.iterfind(".//*/title")]
    return root.find("title").text, [tuple(title.rsplit(": ", 1)) for title in titles]


def cells(table):
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)[1:]
    return [
        [Markup(cell).striptags() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def test_every_plot_has_the_same_numbers_as_its_table(made, olena):
    text = olena.sees("/reports")
    drawn, tables = SVG.findall(text), TABLE.findall(text)
    assert len(drawn) == len(tables) == 5  # two funnels, days, months, sources
    for svg, table in zip(drawn, tables, strict=True):
        assert not re.search(r"\sstyle=|<style|<script|\son\w+=", svg)
        name, bars = told_by(svg)
        rows = cells(table)
        if "12" in name:
            sides = ("Виграні", "Програні")
            results = [
                (f"{side}, {row[0]}", row[n]) for row in rows for n, side in enumerate(sides, 1)
            ]
            assert bars == results
        else:
            assert bars == [(row[0], row[1]) for row in rows]
            assert any(count != "0" for _, count in bars)


def test_the_page_has_no_style_of_its_own(made, olena):
    assert not re.search(r"\sstyle=|<style", olena.sees("/reports"))


def tile(text, name):
    """The texts of a tile."""
    (record,) = (
        match
        for match in re.findall(r'<li class="panel tile">(.*?)</li>', text, re.S)
        if name in match
    )
    return " ".join(Markup(record.replace("<", " <")).striptags().split())


def test_tiles_tell_the_change_in_words(acme, olena, clock):
    with transaction():
        for days in (0, 1, 8, 9, 9):
            lead(moment(clock, -days * 86_400))
        deal("2026-01-05T09:00:00Z", amount=1200.5)
        deal(amount=300, currency="USD")
        deal("2026-01-05T09:00:00Z", status="won", closed_at="2026-02-02T08:00:00Z", amount=70)
    text = olena.sees("/reports")
    assert tile(text, "Нові ліди") == "Нові ліди за 7 днів 2 −1 за тиждень"
    expected = "Угоди в роботі 2 1 200,50 ₴ 300 USD +1 за тиждень"
    assert tile(text, "Угоди в роботі") == expected
    won = "Виграно цього місяця 0 −1 проти тих самих днів минулого місяця Тоді: 70 ₴"
    assert tile(text, "Виграно") == won
    assert tile(text, "Прострочені") == "Прострочені завдання 0"  # as before


def test_the_reports_speak_english_too(acme, olena):
    with transaction():
        users.User.find(OLENA).save_changes({"language": "en"})
        lead()
    text = olena.sees("/reports")
    assert tile(text, "New leads") == "New leads in 7 days 1 +1 from the week before"
    assert told_by(SVG.search(text)[0])[0] == "Leads per day, 30 days"


def test_the_reports_show_only_the_own_tenant(made, crm):
    text = Person(crm, "globex", 1).sees("/reports")
    assert tile(text, "Нові ліди").startswith("Нові ліди за 7 днів 0")
    assert not SVG.search(text)


def test_a_pipeline_named_as_a_script_is_text(acme, olena):
    with transaction():
        pipelines.Pipeline.default().save_changes({"name": "<script>alert(1)</script>"})
        deal()
    text = olena.sees("/reports")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def found(text):
    """{noun: [texts that lead to records]} of the page of the search."""
    text = re.sub("</?mark>", "", text)
    sections = re.findall(r'aria-labelledby="found-(\w+)"(.*?)</section>', text, re.S)
    return {
        noun: re.findall(rf'<li><a href="/{noun}/\d+">(.*?)</a>', section)
        for noun, section in sections
    }


@pytest.fixture
def stocked(api):
    api.create("/leads", name="Марія Стельмах", phone="+380671112233")
    api.create("/clients", name="ТОВ «Стеля»", phone="+380441112233")
    api.create("/deals", title="Стелаж")
    api.create("/products", name="Стелаж сосновий", sku="ST-1", price=1250)
    api.create("/tasks", title="Подзвонити Стельмах")
    api.create("/leads", name="Іван", email="ivan@example.com")


def test_a_search_finds_every_noun_in_any_case(stocked, olena):
    assert found(olena.sees("/search", query_string={"q": "стел"})) == {
        "leads": ["Марія Стельмах"],
        "clients": ["ТОВ «Стеля»"],
        "deals": ["Стелаж"],
        "products": ["Стелаж сосновий"],
        "tasks": ["Подзвонити Стельмах"],
    }


@pytest.mark.parametrize("q", ["0671112233", "(067) 111-22-33", "+38067 1112233", "67111"])
def test_digits_find_a_phone(stocked, olena, q):
    assert found(olena.sees("/search", query_string={"q": q})) == {"leads": ["Марія Стельмах"]}


def test_ten_are_shown_and_a_link_leads_to_all(api, olena):
    for number in range(12):
        api.create("/leads", name=f"Іван & {number}", phone="+380671112233")
        api.create("/deals", title=f"Іван & {number}")
        api.create("/tasks", title=f"Іван & {number}")
    text = olena.sees("/search", query_string={"q": "іван &"})
    assert {noun: len(item) for noun, item in found(text).items()} == {
        "leads": 10,
        "deals": 10,
        "tasks": 10,
    }
    q = "%D1%96%D0%B2%D0%B0%D0%BD%20%26"
    for path in (f"/leads?q={q}", f"/deals?view=list&amp;q={q}", f"/search?only=tasks&amp;q={q}"):
        assert f'href="{path}"' in text.replace("&q=", "&amp;q=")
        every = re.sub("</?mark>", "", olena.sees(path.replace("&amp;", "&")))
        assert all(f"Іван &amp; {number}<" in every for number in range(12))


def test_all_tasks_come_in_pages(acme, olena):
    with transaction():
        for number in range(60):
            tasks.create(TASK_IN.parse({"title": f"Подзвонити {number}"}))
    first = olena.sees("/search", query_string={"q": "подзвонити", "only": "tasks"})
    following = Markup(re.search(r'rel="next" href="([^"]*)"', first)[1]).unescape()
    both = [found(first)["tasks"], found(olena.sees(following))["tasks"]]
    assert [len(item) for item in both] == [50, 10]
    assert len({*both[0], *both[1]}) == 60


def test_a_search_for_nothing_shows_the_form(olena):
    for q in ("", "   "):
        text = olena.sees("/search", query_string={"q": q})
        assert 'name="q"' in text and not found(text) and "Нічого не знайдено" not in text
    assert "Нічого не знайдено" in olena.sees("/search", query_string={"q": "бегемот"})


def test_a_search_that_is_too_long_is_kept_and_told(stocked, olena):
    assert olena.sees("/search", query_string={"q": "я" * 200})
    text = olena.sees("/search", 422, query_string={"q": "я" * 201})
    assert f'value="{"я" * 201}"' in text
    assert 'id="q-fault"' in text
    assert "Нічого не знайдено" not in text


def test_what_was_searched_and_found_is_text(api, olena):
    api.create("/leads", name="<script>alert(1)</script>", phone="+380671112233")
    text = olena.sees("/search", query_string={"q": "<script>"})
    assert "<script>" not in text
    assert found(text) == {"leads": ["&lt;script&gt;alert(1)&lt;/script&gt;"]}


def test_a_search_finds_nothing_deleted_and_nothing_of_others(stocked, api, crm):
    api.delete("/leads/1")
    assert "leads" not in found(Person(crm, "acme", OLENA).sees("/search?q=стел"))
    assert not found(Person(crm, "globex", 1).sees("/search?q=стел"))


@pytest.mark.parametrize("path", ["/", "/search?q=1"])
def test_who_has_not_logged_in_sees_no_figures(crm, path):
    page = Person(crm, "acme").get(path)
    assert page.status_code in (302, 303)
    assert "/login" in page.location


def test_the_clock_of_the_tenant_counts(acme, olena):
    with transaction():
        tenant.update(time_zone="Pacific/Auckland")  # where it is the evening of the same day
        lead("2026-03-01T10:59:59Z")
        lead("2026-03-01T11:00:00Z")  # the 2nd of March begins there
    rows = cells(TABLE.search(olena.sees("/reports"))[0])
    assert [row[1] for row in rows[-2:]] == ["1", "1"]
