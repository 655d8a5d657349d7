"""A tenant's own fields in forms, cards, lists, filters and changes of many records."""

import re

import pytest

from crm.records.custom import fields as custom_fields
from crm.resources import users
from crm.storage import session
from tests.cabinet.test_page_costs import counted_calls
from tests.cabinet.test_pages import check
from tests.chromium import NARROW, WIDE, log_in
from tests.conftest import OLENA, TARAS, Api
from tests.page_client import Person, hidden

LEAD = {"name": "Марія", "phone": "+380671234567"}
OPTIONS = [
    {"key": "oak", "label": "Дуб"},
    {"key": "ash", "label": "Ясен"},
    {"key": "elm", "label": "В'яз", "archived": True},
]
# By type: what a form sends, the value then, what a page shows of it, and more of the definition.
TYPES = {
    "text": ("червоний", "червоний", "червоний", {}),
    "long_text": ("раз\r\nдва", "раз\nдва", "раз\nдва", {"filtered": False}),
    "number": ("1 250,5", 1250.5, "1\xa0250,5", {}),
    "money": ("99,90", 99.9, "99,90\xa0₴", {}),
    "date": ("2026-12-01", "2026-12-01", "1 груд. 2026", {}),
    "flag": ("1", True, "Так", {}),
    "choice": ("oak", "oak", "Дуб", {"options": OPTIONS}),
    "choices": (["ash", "oak"], ["oak", "ash"], "Дуб, Ясен", {"options": OPTIONS}),
    "url": ("https://example.com/a", "https://example.com/a", 'href="https://example.com/a"', {}),
    "user": (str(TARAS), str(TARAS), "Taras", {}),
    "client": ("1", "1", '<a href="/clients/1">ТОВ Ромашка</a>', {}),
}
# In the address of a list: what finds the lead, and the chip.
FILTERS = {
    "text": ("custom.x=червоний", "Поле: червоний"),
    "number": ("custom.x_from=1 250,5", "Поле від 1 250,5"),
    "money": ("custom.x_to=99,90", "Поле до 99,90"),
    "date": ("custom.x_from=2026-12-01", "Поле від 1 груд. 2026"),
    "flag": ("custom.x=true", "Поле: Так"),
    "choice": ("custom.x=oak", "Поле: Дуб"),
    "choices": ("custom.x=ash", "Поле: Ясен"),
    "url": ("has_custom.x=true", "Заповнено «Поле»: Так"),
    "user": (f"custom.x={TARAS}", "Поле: Taras"),
    "client": ("custom.x=ТОВ Ромашка", "Поле: ТОВ Ромашка"),
}


@pytest.fixture
def fields(api: Api) -> dict[str, str]:
    """The ids of a field of each type, by the type, which is its key, too."""
    api.create("/clients", name="ТОВ Ромашка")
    shown = ("number", "url", "client")
    return {
        type: add(api, type, key=type, label=type.title(), in_list=type in shown) for type in TYPES
    }


def add(api: Api, type: str, **more) -> str:
    more = {
        "resource": "leads",
        "key": "x",
        "label": "Поле",
        "filtered": True,
        "in_list": True,
    } | more
    return api.create("/fields", type=type, **(more | TYPES[type][3]))


def sent_form(names=TYPES) -> dict:
    return LEAD | {f"custom.{type}": TYPES[type][0] for type in names}


def values(names=TYPES) -> dict:
    return {type: TYPES[type][1] for type in names}


def read(api: Api, id: str = "1") -> dict:
    return api.read(f"/leads/{id}")["custom"]


def test_a_form_has_a_field_of_each_type_and_keeps_what_is_not_edited(api, olena, fields):
    page = olena.sees("/leads/new")
    assert "В&#39;яз" not in page and ">Дуб<" in page
    assert olena.sends("/leads", sent_form()) == "/leads/1"
    assert read(api) == values()
    form = olena.form_as_it_is("/leads/1/edit")
    assert form["custom.number"] == "1250,5" and form["custom.client-name"] == "ТОВ Ромашка"
    sent = form | sent_form() | {"custom.flag": "", "custom.text": " синій "}
    api.patch("/leads/1", {"custom": {"choice": "ash"}})  # by another person, meanwhile
    sent["custom.choice"] = "oak"
    olena.sends("/leads/1/edit", sent)
    assert read(api) == values() | {"flag": False, "text": "синій", "choice": "ash"}
    assert "Тим часом хтось інший змінив це (Choice)" in olena.sees("/leads/1")
    sent = olena.form_as_it_is("/leads/1/edit") | {"custom.date": "", "custom.client-name": ""}
    # A form that is older than a field: its value stays as it is.
    sent["shown"] = sent["shown"].replace("custom.text:", "none:")
    del sent["custom.text"]
    olena.sends("/leads/1/edit", sent)
    assert read(api).keys() == values().keys() - {"date", "client"}


def test_a_value_that_two_people_edit_is_saved_by_the_second_who_insists(api, olena, fields):
    api.create("/leads", **LEAD, custom={"choice": "oak", "number": 5})
    form = olena.form_as_it_is("/leads/1/edit") | {"custom.number": "7"}
    api.patch("/leads/1", {"custom": {"number": 6}})
    page = olena.post("/leads/1/edit", form)
    assert page.status_code == 422 and "Хтось інший змінив це на «6»." in page.text
    olena.sends("/leads/1/edit", form | {"shown": hidden(page.text, "shown")})
    assert read(api) == {"choice": "oak", "number": 7}


def test_what_is_not_filled_in_is_nothing(api, olena, fields):
    olena.sends("/leads", LEAD)
    assert read(api) == {"flag": False}
    version = api.read("/leads/1")["version"]
    olena.sends("/leads/1/edit", olena.form_as_it_is("/leads/1/edit"))
    assert api.read("/leads/1")["version"] == version


@pytest.mark.parametrize("type", TYPES)
def test_card_list_and_history_show_a_value_as_people_read_it(api, olena, type):
    api.create("/clients", name="ТОВ Ромашка")
    add(api, type)
    sent, value, shown, _ = TYPES[type]
    api.create("/leads", **LEAD)
    name = {"custom.x-name": "ТОВ Ромашка"} if type == "client" else {}
    form = olena.form_as_it_is("/leads/1/edit")
    olena.sends("/leads/1/edit", form | {"custom.x": sent} | name)
    assert read(api) == {"x": value}
    card = olena.sees("/leads/1")
    assert re.search(rf"<dt>Поле</dt><dd[^>]*>.*{re.escape(shown)}", card)
    plain = re.sub(r'<[^>]*>|href=|"', "", shown)
    assert re.search(rf"<b>Поле</b>: — .*?{re.escape(plain)}", card, re.S)
    assert re.search(rf'class="col-own own-[a-z-]+">.*{re.escape(shown)}', olena.sees("/leads"))
    assert "col-own" not in olena.sees("/leads?columns=name")


@pytest.mark.parametrize("type", FILTERS)
def test_a_filter_finds_records_and_is_told(api, olena, type):
    api.create("/clients", name="ТОВ Ромашка")
    add(api, type)
    api.create("/leads", **LEAD, custom={"x": TYPES[type][1]})
    api.create("/leads", name="Зоряна", phone=LEAD["phone"])
    query, chip = FILTERS[type]
    page = olena.sees(f"/leads?{query}")
    assert "Марія" in page and "Зоряна" not in page and f">{chip} <svg" in page
    assert f'name="{query.partition("=")[0]}"' in olena.sees("/leads")
    page = olena.sees("/leads?has_custom.x=false")
    assert "Марія" not in page and "Зоряна" in page and "Заповнено «Поле»: Ні" in page


def test_a_view_keeps_filters_and_columns(api, olena, fields):
    api.create("/leads", **LEAD, custom=values())
    query = re.search(r'name="query" value="(.*?)"', olena.sees("/leads?custom.client=ТОВ Ромашка"))
    sent = {
        "resource": "leads",
        "name": "Мої",
        "query": query[1],
        "columns": ["name", "custom.choice"],
    }
    page = olena.sees(olena.sends("/views", sent))
    assert "Марія" in page and ">Дуб</td>" in page and "own-decimal" not in page
    assert api.read("/views")[0]["query"]["custom.client"] == ["1"]


def test_a_client_who_is_not_found_or_one_of_several_is_chosen(api, olena, fields):
    api.create("/clients", name="ТОВ Ромашка", phone="+380501112233")
    sent = LEAD | {"custom.client": "", "custom.client-name": "ТОВ Ромашка"}
    page = olena.post("/leads", sent)
    assert page.status_code == 422 and "Виберіть одного з цих клієнтів" in page.text
    assert '<option value="2">ТОВ Ромашка · 050' in page.text.replace("\n", "").replace("  ", "")
    assert "Клієнта не знайдено" in olena.post("/leads", sent | {"custom.client-name": "Ні"}).text
    olena.sends("/leads", sent | {"custom.client": "2"})
    assert read(api)["client"] == "2"


def test_a_required_field_binds_forms_alone(api, olena, fields):
    api.patch(f"/fields/{fields['choices']}", {"required_in_workspace": True})
    page = olena.post("/leads", sent_form() | {"custom.choices": []})
    assert page.status_code == 422 and 'id="custom.choices-fault">Заповніть' in page.text
    assert olena.post("/leads", LEAD).status_code == 422
    api.create("/leads", **LEAD)
    sent = olena.form_as_it_is("/leads/1/edit")
    assert olena.post("/leads/1/edit", sent).status_code == 422
    olena.sends("/leads/1/status", {"status": "qualified"})
    olena.sends("/leads/1/edit", sent | {"custom.choices": ["oak"]})


def test_a_wrong_value_is_told_at_its_field(olena, fields):
    wrong = {"number": "багато", "url": "сайт", "client-name": "Ні"}
    page = olena.post("/leads", sent_form() | {f"custom.{key}": wrong[key] for key in wrong})
    assert page.status_code == 422 and 'value="багато"' in page.text
    assert all(f'id="custom.{key}-fault"' in page.text for key in wrong)


def test_a_view_by_a_field_that_was_hidden_is_shown_without_it(api, olena):
    id = add(api, "choice")
    view = {"resource": "leads", "query": "custom.x=oak", "name": "Дубові"}
    address = olena.sends("/views", view)
    api.post(f"/fields/{id}/retire")
    assert olena.get(address).location == "/leads?saved=1"
    page = olena.sees("/leads?saved=1")
    assert "Одного з фільтрів більше немає" in page and 'action="/views/1/delete"' in page
    assert olena.get("/leads?sort=-custom.x&q=a").location == "/leads?q=a"


def test_a_field_that_was_hidden_meanwhile_is_not_set_in_many_records(olena):
    sent = {"ids": ["1"], "do": "own", "own": "custom.x"}
    assert olena.post("/leads/bulk", sent).status_code == 303


def test_an_archived_option_stays_where_it_is_chosen(api, olena, fields):
    api.create("/leads", **LEAD, custom={"choice": "elm", "choices": ["elm"]})
    page = olena.sees("/leads/1/edit")
    assert '<option value="elm" selected>' in page and 'value="elm" checked' in page
    olena.sends("/leads/1/edit", olena.form_as_it_is("/leads/1/edit") | {"custom.choices": "elm"})
    assert read(api) == {"choice": "elm", "choices": ["elm"]}


@pytest.mark.parametrize("type", TYPES)
def test_many_records_get_a_value_after_two_questions(api, olena, type):
    api.create("/clients", name="ТОВ Ромашка")
    add(api, type)
    ids = [api.create("/leads", **LEAD) for _ in range(2)]
    sent, value, _, _ = TYPES[type]
    page = olena.post("/leads/bulk", {"ids": ids, "do": "own", "own": "custom.x"}).text
    assert "Яким буде поле «Поле»?" in page and 'name="custom.x"' in page
    fields = {"ids": ids, "do": "custom.x", "custom.x": sent}
    page = olena.post("/leads/bulk", fields).text
    assert "Змінити 2 записи?" in page and "<b>Поле: " in page
    olena.sends("/leads/bulk", fields | {"expect": "2"})
    assert [read(api, id) for id in ids] == [{"x": value}] * 2
    assert "Зміна кількох записів: Поле" in olena.sees("/leads/batches")
    if type != "flag":
        olena.sends("/leads/bulk", fields | {"custom.x": "", "expect": "2"})
        assert [read(api, id) for id in ids] == [{}] * 2


def test_other_nouns_have_them_in_forms_and_where_they_are_shown(api, olena):
    for plural in ("clients", "deals", "products", "tasks"):
        add(api, "choice", resource=plural)
    sent = {"name": "Стіл", "title": "Стіл", "price": "5", "description": "", "custom.x": "oak"}
    sent |= {"type": "person", "currency": "UAH"}
    for plural in ("clients", "deals", "products", "tasks"):
        olena.sends(f"/{plural}", sent | {"type": "call"} if plural == "tasks" else sent)
        assert api.read(f"/{plural}/1")["custom"] == {"x": "oak"}
        assert "Поле" in olena.sees(f"/{plural}/1")
        edit = "/edit" if plural in ("clients", "deals") else ""
        form = olena.form_as_it_is(f"/{plural}/1{edit}", f"/{plural}/1{edit}")
        olena.sends(f"/{plural}/1{edit}", form | {"custom.x": "ash"})
        assert api.read(f"/{plural}/1")["custom"] == {"x": "ash"}
        for path in (f"/{plural}?view=list&custom.x=ash", f"/{plural}?custom.x=ash"):
            page = olena.sees(path + "&assigned_to=all" * (plural == "tasks"))
            assert "Стіл" in page and "Поле: Ясен" in page
            assert f'href="/{plural}/1"' not in olena.sees(path.replace("ash", "oak"))


def test_lists_are_sorted_by_filtered_numbers_and_dates(api, olena):
    add(api, "number")
    for name, number in (("А", 5), ("Б", 30), ("В", 7)):
        api.create("/leads", **(LEAD | {"name": name}), custom={"x": number})
    page = olena.sees("/leads?sort=-custom.x")
    assert re.findall(r'<a href="/leads/\d">(.)</a>', page) == ["Б", "В", "А"]
    assert 'aria-sort="descending"' in page and 'href="/leads?sort=custom.x"' in page


def test_a_seller_sets_them_and_keeps_what_cannot_be_chosen(crm, api, fields):
    with crm.tenants.session("acme"):
        users.update(TARAS, {"role": "seller"})
    seller = Person(crm, "acme", TARAS)
    assert seller.sends("/leads", sent_form(TYPES.keys() - {"client"})) == "/leads/1"
    api.patch("/clients/1", {"assigned_to": str(OLENA)})
    api.patch("/leads/1", {"custom": {"client": "1", "user": str(OLENA)}})
    form = seller.form_as_it_is("/leads/1/edit") | {"custom.choices": "oak", "custom.text": "новий"}
    seller.sends("/leads/1/edit", form)
    assert read(api) | {"choices": []} == values() | {
        **{"text": "новий", "user": str(OLENA), "choices": []}
    }


def test_a_tenant_without_fields_pays_no_query_and_no_markup(api, olena):
    api.create("/leads", **LEAD)
    for path in ("/leads", "/leads/1", "/leads/1/edit", "/leads/new"):
        with counted_calls() as calls:
            page = olena.sees(path)
        assert calls[custom_fields.current.__code__]
        assert not calls[custom_fields._read.__code__] + calls[custom_fields._read_digest.__code__]
        assert "custom." not in page and "own" not in re.findall(r'(?:id|name)="([^"]*)"', page)


def test_rows_of_a_list_cost_no_query_each(api, olena, fields):
    counts = set()
    for rows in (2, 3):
        while len(api.read("/leads")) < rows:
            api.create("/leads", **LEAD, custom=values())
        query = "&".join(f"columns=custom.{type}" for type in TYPES)
        with counted_calls() as calls:
            olena.sees(f"/leads?{query}")
        counts.add(sum(calls[one.__code__] for one in (session.row, session.rows)))
    assert len(counts) == 1


@pytest.mark.parametrize(
    "width", [NARROW, *(pytest.param(x, marks=pytest.mark.deep) for x in (768, WIDE))]
)
def test_pages_with_all_types_fit_and_are_accessible(crm, api, served, tab, fields, width):
    api.patch(f"/fields/{fields['flag']}", {"required_in_workspace": True, "help": "Чи везти?"})
    api.create("/leads", **LEAD, custom=values())
    page = tab(width, base_url=served)
    log_in(page, crm, served)
    for path in ("/leads/1/edit", "/leads/1", "/leads?custom.choice=oak", "/leads/new"):
        page.goto(path)
        check(page, path)
    page.locator("[name='custom.client-name']").fill("Ром")
    page.get_by_role("option", name="ТОВ Ромашка").click()
    assert page.locator("[name='custom.client']").input_value() == "1"
    page.locator(".form-panel button.btn-primary").click()
    page.locator("#trouble").wait_for()
    check(page, "a refused form")
    page.goto("/leads?has_custom.flag=true")
    page.locator(".list-filters > summary").click()
    check(page, "filters")
