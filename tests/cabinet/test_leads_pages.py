"""The pages of leads: the list, the card, the way into a deal, and undoing a deletion (D5, D17)."""

import html
import re

from crm.cabinet.records import lists
from crm.resources import leads, users
from crm.resources.clients import record as clients
from crm.resources.leads.record import LEAD, create
from crm.resources.tasks import TASK
from crm.storage.session import transaction
from tests.conftest import OLENA, TARAS
from tests.page_client import Person

MARIA = {"name": "Марія", "phone": "+380671234567"}


def lead(crm, **fields):
    with crm.tenants.session("acme"):
        return str(create({**MARIA, **fields}))


def one(crm, id="1"):
    with crm.tenants.session("acme"):
        return LEAD.one(id)


# The list


def test_pages_follow_each_other_with_their_filters(crm, olena):
    def link(page, rel):
        return html.unescape(page.partition(f'rel="{rel}" href="')[2].partition('"')[0])

    def names(page):
        return re.findall(r">(Лід-\d+)</a>", page)

    with crm.tenants.session("acme"), transaction():
        for number in range(101):
            create({**MARIA, "name": f"Лід-{number:03}", "source": "fair"})
    first = olena.sees("/leads?source=fair&status=")
    assert names(first) == [f"Лід-{number:03}" for number in range(100, 50, -1)]
    assert link(first, "prev") == "" and "source=fair" in link(first, "next")
    second = olena.sees(link(first, "next"))
    assert names(second) == [f"Лід-{number:03}" for number in range(50, 0, -1)]
    third = olena.sees(link(second, "next"))
    assert names(third) == ["Лід-000"] and link(third, "next") == ""
    # And back, page by page.
    assert names(olena.sees(link(third, "prev"))) == names(second)
    assert names(olena.sees(link(second, "prev"))) == names(first)
    assert "cursor" not in link(second, "prev") and "source=fair" in link(second, "prev")


# The card


def test_a_list_is_counted_up_to_a_number_and_by_the_api_exactly(crm, api, olena, monkeypatch):
    monkeypatch.setattr(lists, "MAX_TOTAL", 3)
    with crm.tenants.session("acme"):
        users.update(TARAS, {"role": "seller"})
    taras = Person(crm, user_id=TARAS)
    counted = re.compile(r'class="head-note">([^<]*)<')

    def shown(person, query=""):
        return counted.search(person.sees(f"/leads{query}"))[1]

    for number in range(6):
        assert (shown(olena), shown(taras)) == ((str(number),) * 2 if number <= 3 else ("3+",) * 2)
        assert shown(olena, "?source=fair") == ("3+" if number > 3 else str(number))
        assert shown(taras, "?source=fair&status=") == ("3+" if number > 3 else str(number))
        answer = api.get("/leads?total=true&status=new&status=in_progress&status=qualified")
        assert answer.json["meta"]["total"] == number
        assert bool(re.search(r"3\+[^<]*</label>", olena.page.text)) == (number > 3)
        lead(crm, assigned_to=TARAS, source="fair")
    api.patch("/leads/1", {"comment": "A change, after which all are counted anew"})
    assert shown(olena, "?status=all") == "3+"
    assert api.get("/leads?total=true").json["meta"]["total"] == 6
    assert shown(olena, "?status=all") == "3+"


def test_a_card_shows_every_field(crm, olena):
    shown = {
        "email": "maria@example.com",
        "company": "ТОВ Ромашка",
        "position": "директорка",
        "source": "Instagram",
        "comment": "Передзвонити",
        "lost_reason": "задорого",
        "utm_source": "google",
        "utm_medium": "cpc",
        "utm_campaign": "spring",
        "utm_content": "banner",
        "utm_term": "стіл",
        "page_url": "https://example.com/tables",
        "referrer": "https://example.org/",
        "external_id": "1C-7",
    }
    lead(crm, **shown, tags='["vip"]', extra='{"floor": 3, "who": {"а": 1}}', amount=125_000)
    page = html.unescape(olena.sees("/leads/1"))
    for value in (*shown.values(), "vip", "floor", "3", '{"а":1}', "12.50 ₴", "Марія"):
        assert value in page.replace("\xa0", " ").replace("12,50", "12.50"), value
    assert 'href="https://example.com/tables"' in page
    lead(crm, page_url="javascript:alert(1)")
    assert 'href="javascript:' not in olena.sees("/leads/2")


def test_a_source_is_filtered_and_edited_by_its_words(api, olena):
    for name, source in (("Анна", "site-form"), ("Інна", "Instagram"), ("Яна", "facebook")):
        api.create("/leads", name=name, phone="+380671234567", source=source)
    page = olena.sees("/leads?source=Форма на сайті")
    assert "Анна" in page and "Яна" not in page and '<option value="Форма на сайті">' in page
    page = olena.sees("/leads?source=site-form")
    assert 'value="Форма на сайті"' in page and "Джерело: Форма на сайті" in page
    page = olena.sees("/leads?source=Facebook")
    assert "Яна" in page and "Анна" not in page
    assert 'value="Форма на сайті"' in olena.sees("/leads/1/edit")
    olena.sends(
        "/leads/2/edit", olena.form_as_it_is("/leads/2/edit") | {"source": "форма на сайті"}
    )
    assert [api.read(f"/leads/{id}")["source"] for id in "123"] == ["site-form"] * 2 + ["facebook"]


def test_possible_duplicates_are_hinted_at(crm, olena):
    lead(crm)
    lead(crm, name="Маша")
    with crm.tenants.session("acme"):
        clients.create({"name": "Марія Шевчук", "phone": MARIA["phone"]})
    page = olena.sees("/leads/1")
    assert 'href="/leads/2">Маша' in page and 'href="/clients/1">Марія Шевчук' in page
    lead(crm, name="Інша", phone="+380509990011")
    assert "Можливі дублікати" not in olena.sees("/leads/3")


# Changes and their history


def test_who_has_left_stays_responsible_after_an_edit(crm, olena):
    lead(crm, assigned_to=TARAS)
    with crm.tenants.session("acme"), transaction():
        users.update(TARAS, {"active": 0})
    assert 'value="2" selected>Taras' in olena.sees("/leads/1/edit")
    assert ">Taras</option>" not in olena.sees("/leads")


def test_status_buttons_change_the_status(crm, olena):
    lead(crm)
    page = olena.sees("/leads/1")
    current = re.findall(r'<button[^>]* value="(\w+)"\s+aria-current="step"', page)
    assert 'value="qualified"' in page and current == ["new"]
    assert olena.sends("/leads/1/status", {"status": "qualified"}) == "/leads/1"
    assert one(crm)["status"] == "qualified"
    assert olena.post("/leads/1/status", {"status": "strange"}).status_code == 422


def test_history_reads_as_sentences(api, taras, crm, olena):
    lead(crm, assigned_to=OLENA)
    olena.sends("/leads/1/status", {"status": "in_progress"})
    taras.patch("/leads/1", {"assigned_to": "2", "amount": 100, "tags": ["vip"], "extra": {"a": 1}})
    page = olena.sees("/leads/1")
    result = " ".join(html.unescape(strip(page.partition('id="timeline"')[2])).split())
    assert "Стан: Новий змінено на В роботі" in result
    assert "Відповідальний: Olena змінено на Taras" in result
    assert "Сума: — змінено на 100 ₴" in result.replace("\xa0", " ")
    assert "Теги: — змінено на vip" in result
    assert 'Інші дані: — змінено на {"a":1}' in result
    assert "Taras через ключ API «tests»" in result
    assert result.index("Відповідальний") < result.index("Стан")


def test_older_changes_have_their_pages(crm, olena):
    lead(crm)
    assert 'rel="next"' not in olena.sees("/leads/1")
    with crm.tenants.session("acme"), transaction():
        for number in range(60):
            leads.update(1, {"comment": f"крок-{number:02}"})
    page = olena.sees("/leads/1")
    assert "крок-59" in page and "крок-20" not in page
    following = html.unescape(re.search(r'rel="next"\s+href="([^"]*)', page)[1])
    page = olena.sees(following)
    assert "крок-20" in page and "крок-59" not in page and 'rel="next"' not in page


def strip(page):
    return re.sub(r"<[^>]+>", "", page)


# Notes and tasks, for all cards


def test_a_quick_task_is_the_leads(api, crm, olena):
    lead(crm)
    olena.sees("/leads/1")
    page = olena.post("/tasks", {"title": "", "lead_id": "1", "back": "/leads/1"})
    assert page.status_code == 422
    assert 'name="lead_id" value="1"' in page.text and 'name="back" value="/leads/1"' in page.text
    sent = {"title": "Подзвонити", "type": "call", "assigned_to": "2", "priority": "normal"}
    more = {"due_at": "2026-03-03T12:00", "lead_id": "1", "back": "/leads/1"}
    assert olena.sends("/tasks", sent | more) == "/leads/1"
    with crm.tenants.session("acme"):
        task = TASK.one("1")
    assert (task["lead_id"], task["assigned_to"]) == ("1", "2")
    assert task["due_at"] == "2026-03-03T10:00:00Z"
    assert "Подзвонити" in olena.sees("/leads/1")
    assert olena.sends("/tasks/1/complete", {"back": "/leads/1"}) == "/leads/1"
    assert "Подзвонити" in olena.sees("/leads/1")
    assert api.kinds() == ["lead.created", "task.created", "task.completed"]


# Into a deal


def test_a_lead_becomes_a_deal(api, crm, olena):
    lead(crm, amount=125_000_000, assigned_to=TARAS)
    page = olena.sees("/leads/1/convert")
    assert 'value="12500"' in page and 'value="2" selected>Taras' in page
    sent = {"title": "Крісла", "stage_id": "2", "amount": "13 000,50", "assigned_to": "1"}
    assert olena.sends("/leads/1/convert", sent) == "/deals/1"
    deal = api.read("/deals/1")
    assert (deal["title"], deal["stage_id"], deal["amount"]) == ("Крісла", "2", 13000.5)
    assert (deal["assigned_to"], deal["client_name"], deal["lead_id"]) == ("1", "Марія", "1")
    kinds = ["lead.created", "client.created", "deal.created", "lead.converted"]
    assert api.kinds() == kinds
    page = olena.sees("/leads/1")
    assert 'href="/deals/1"' in page and 'href="/clients/1"' in page
    assert 'class="stages"' not in page and "/leads/1/convert" not in page


def test_a_known_client_is_hinted_at_and_taken(api, crm, olena):
    lead(crm, company="ТОВ Ромашка")
    assert "ТОВ Ромашка" in olena.sees("/leads/1/convert")
    with crm.tenants.session("acme"):
        clients.create({"name": "Інша", "phone": "+380509990011"})
        clients.create({"name": "Марія Шевчук", "phone": MARIA["phone"]})
    assert 'value="2" selected>Марія Шевчук' in olena.sees("/leads/1/convert")
    olena.sends("/leads/1/convert", {"client_id": "2", "stage_id": "1"})
    assert api.read("/deals/1")["client_id"] == "2"
    assert len(api.read("/clients")) == 2


def test_a_refused_conversion_changes_nothing_and_loses_nothing(api, crm, olena):
    lead(crm)
    page = olena.post("/leads/1/convert", {"title": "Крісла", "stage_id": "1", "amount": "багато"})
    assert page.status_code == 422
    assert 'value="Крісла"' in page.text and 'value="багато"' in page.text
    assert "amount-fault" in page.text
    assert (one(crm)["status"], api.kinds()) == ("new", ["lead.created"])


# Deleted and back


def test_a_return_that_cannot_be_is_told(crm, olena):
    lead(crm, external_id="A-1")
    olena.sees("/leads/1")
    olena.sends("/leads/1/delete")
    lead(crm, external_id="A-1")
    assert olena.post("/leads/1/restore").status_code == 409
    assert "зовнішн" in olena.page.text.lower()
