"""Today: what waits for whom, and the first steps of a new business."""

import re

import pytest

from crm.resources import users
from crm.resources.task_figures import STEP_OF_DEAL
from crm.storage.session import rows, transaction
from tests.conftest import OLENA, TARAS
from tests.page_client import Person

STEPS = ("/clients/import", "/products/import", "/settings/users")
SECTION = re.compile(r'<section class="panel agenda" aria-labelledby="(\w+)">(.*?)</section>', re.S)
ROW = re.compile(r"<li>(.*?)</li>", re.S)
NAME = re.compile(r'<a class="agenda-name" href="([^"]*)"')


def waiting(text):
    """The rows of each list of the page, by the id of its heading."""
    return {id: ROW.findall(rest) for id, rest in SECTION.findall(text)}


def paths(text, id):
    return [NAME.search(row)[1] for row in waiting(text)[id]]


def test_own_tasks_that_are_overdue_or_due_today_come_in_their_order(api, olena):
    # The clock of the tests stands at 2026-03-02 11:00 in Kyiv.
    due = ("2026-03-02T21:59:59Z", "2026-03-02T22:00:00Z", "2026-02-27T09:00:00Z", None)
    ids = [api.create("/tasks", title=f"Крок {at}", due_at=at) for at in due]
    other = api.create("/tasks", title="Чуже", due_at=due[0], assigned_to=str(TARAS))
    done = api.create("/tasks", title="Готове", due_at=due[0], status="done")
    assert paths(olena.sees("/"), "tasks") == [f"/tasks/{ids[2]}", f"/tasks/{ids[0]}"]
    everybody = paths(olena.sees("/?of=all"), "tasks")
    assert f"/tasks/{other}" in everybody and f"/tasks/{done}" not in everybody
    late, today = waiting(olena.sees("/"))["tasks"]
    assert 'class="agenda-when late"' in late and "23:59" in today


def test_a_task_names_its_client_or_lead_with_a_button_that_calls(api, olena):
    client = api.create(
        "/clients",
        name="ТОВ Ромашка",
        contacts=[
            {"name": "Ганна", "phone": "+380501111111"},
            {"name": "Ольга", "phone": "+380502222222", "is_primary": True},
        ],
    )
    deal = api.create("/deals", title="Кухня", client_id=client)
    lead = api.create("/leads", name="Марія", phone="+380503333333")
    due = {"due_at": "2026-03-02T10:00:00Z"}
    api.create("/tasks", title="Угода", deal_id=deal, **due)
    api.create("/tasks", title="Лід", lead_id=lead, **due)
    api.create("/tasks", title="Ні про кого", **due)
    of_deal, of_lead, of_nobody = waiting(olena.sees("/"))["tasks"]
    assert f'/clients/{client}">ТОВ Ромашка' in of_deal and "tel:+380502222222" in of_deal
    assert f'/leads/{lead}">Марія' in of_lead and "tel:+380503333333" in of_lead
    assert "tel:" not in of_nobody
    api.delete(f"/leads/{lead}")
    assert "Марія" not in waiting(olena.sees("/"))["tasks"][1]


def test_new_leads_are_ones_own_and_those_of_nobody(api, olena, crm):
    nobody, own, others = (
        api.create("/leads", name="Марія", phone="+380501234567", assigned_to=user)
        for user in (None, str(OLENA), str(TARAS))
    )
    api.create("/leads", name="Ганна", phone="+380501234568", status="in_progress")
    assert paths(olena.sees("/"), "leads") == [f"/leads/{own}", f"/leads/{nobody}"]
    assert len(paths(olena.sees("/?of=all"), "leads")) == 3
    # Only an owner may ask for everybody's.
    taras = Person(crm, "acme", TARAS)
    assert paths(taras.sees("/?of=all"), "leads") == [f"/leads/{others}", f"/leads/{nobody}"]


def test_a_deal_has_a_next_step_as_long_as_a_task_is_to_do(api, olena):
    own = {"assigned_to": str(OLENA)}
    deal = api.create("/deals", title="Кухня", **own)
    won = api.create("/deals", title="Шафа", status="won", **own)
    assert paths(olena.sees("/"), "idle") == [f"/deals/{deal}"]
    task = api.create("/tasks", title="Замір", deal_id=deal)
    assert paths(olena.sees("/"), "idle") == []
    api.call("POST", f"/tasks/{task}/complete")
    assert paths(olena.sees("/"), "idle") == [f"/deals/{deal}"] != [f"/deals/{won}"]


def test_a_task_left_from_the_lead_is_the_next_step_of_its_deal_and_client(api, olena):
    lead = api.create("/leads", name="Марія", phone="+380501234567", assigned_to=str(OLENA))
    task = api.create("/tasks", title="Замір", lead_id=lead, due_at="2026-03-03T10:00:00Z")
    converted = api.post(f"/leads/{lead}/convert", {"assigned_to": str(OLENA)}).json
    deal, client = f"/deals/{converted['deal_id']}", f"/clients/{converted['client_id']}"
    for path in (deal, client):
        step = re.search(r'id="next-step".*?</section>', olena.sees(path), re.S)[0]
        assert f'/tasks/{task}">Замір' in step, path
    card = re.search(r'<article class="deal".*?</article>', olena.sees("/deals"), re.S)[0]
    assert "12:00" in card and "без кроку" not in card
    assert api.get("/deals?has_open_task=true").json["data"][0]["id"] == converted["deal_id"]
    assert paths(olena.sees("/"), "idle") == []
    api.call("POST", f"/tasks/{task}/complete")
    assert paths(olena.sees("/"), "idle") == [deal]
    assert api.get("/deals?has_open_task=true").json["data"] == []
    assert "без кроку" in olena.sees("/deals") and "Наступного кроку немає" in olena.sees(deal)


@pytest.mark.files
def test_next_steps_are_found_by_the_indexes_of_their_records(crm):
    sql = f"SELECT id FROM deal WHERE NOT EXISTS ({STEP_OF_DEAL})"
    with crm.tenants.session("acme"):
        plan = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {sql}")]
    used = {match[1] for step in plan if (match := re.search(r"INDEX (\w+)", step))}
    assert {"task_deal_time", "lead_deal", "task_lead_time"} <= used
    assert "task_status" not in used  # all open tasks, read again for each deal


def test_the_menu_counts_what_waits(api, olena):
    def count(path, text):
        link = re.search(rf'<li><a class="menu-link" href="{path}".*?</a>', text, re.S)[0]
        found = re.search(r'<b class="menu-count( late)?">([^<]*)</b>', link)
        return found and (found[2], bool(found[1]))

    assert count("/leads", olena.sees("/")) is None
    for status in ("new", "qualified", "unqualified"):
        api.create("/leads", name="Марія", phone="+380501234567", status=status)
    api.create("/deals", title="Кухня")
    api.create("/tasks", title="Вчора", due_at="2026-03-01T09:00:00Z")
    api.create("/tasks", title="Сьогодні", due_at="2026-03-02T20:00:00Z")
    text = olena.sees("/products")
    assert count("/", text) == ("2", True)
    assert count("/leads", text) == ("2", False)
    assert count("/deals", text) == ("1", False)
    assert count("/tasks", text) == ("1", True)


def test_the_whole_lists_have_what_the_page_has(api, olena):
    planned = api.create("/deals", title="Є крок", expected_close_date="2026-03-20")
    api.create("/tasks", title="Дзвінок", deal_id=planned)
    idle = api.create("/deals", title="Без кроку", expected_close_date="2026-03-06")
    page = olena.sees("/?of=all")
    for id in ("idle", "closing"):
        (whole,) = re.findall(
            rf'aria-labelledby="{id}".*?class="agenda-all" href="(.*?)"', page, re.S
        )
        listed = re.findall(r'<a href="(/deals/\d+)">', olena.sees(whole.replace("&amp;", "&")))
        assert listed == paths(page, id) == [f"/deals/{idle}"]


def steps(text):
    """{path: is it done} of the list of first steps."""
    (record,) = re.findall(r'<ol class="first-steps">(.*?)</ol>', text, re.S) or [""]
    items = re.findall(r"<li>(.*?)</li>", record, re.S)
    return {re.search(r'<a href="([^"]*)"', item)[1]: "готово" in item for item in items}


def test_an_empty_tenant_sees_first_steps(crm):
    with crm.tenants.session("globex"), transaction():
        users.User.find(1).save_changes({"email": None, "phone": None})
    ivan = Person(crm, "globex", 1)
    text = ivan.sees("/")
    # Who could not log in again is told so first.
    assert steps(text) == dict.fromkeys(("/settings/profile", *STEPS), False)
    assert list(steps(text))[0] == "/settings/profile"
    for path in steps(text):
        ivan.sees(path)


def test_a_step_that_was_taken_has_a_check_mark_and_all_of_them_end_the_list(api, olena):
    done = dict.fromkeys(STEPS, False) | {"/settings/users": True}  # the cast has done this
    assert steps(olena.sees("/")) == done
    api.create("/leads", name="Марія", phone="+380501234567")
    assert steps(olena.sees("/")) == done | {"/clients/import": True}
    api.create("/products", name="Стіл", price=10)
    assert not steps(olena.sees("/"))


def test_people_see_the_steps_that_they_may_take(crm, api):
    assert list(steps(Person(crm, "acme", TARAS).sees("/"))) == list(STEPS[:2])
    with crm.tenants.session("acme"), transaction():
        id = users.create({"name": "Олег", "role": "viewer"}).id
    viewer = Person(crm, "acme", id)
    text = viewer.sees("/")
    assert not steps(text)
    with crm.tenants.session("acme"), transaction():
        id = users.create({"name": "Соломія", "role": "seller"}).id
    seller = Person(crm, "acme", id)
    assert list(steps(seller.sees("/"))) == ["/leads/new"]
    seller.sees("/leads/new")


def test_who_may_change_a_phone_is_told_to_who_may_not(olena, manager):
    hint = "Телефон може змінити власник"
    assert hint not in olena.sees("/settings/profile")
    assert hint in manager.sees("/settings/profile")
