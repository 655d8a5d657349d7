"""Settings, Fields: a tenant's own fields are added, ordered, changed and hidden by owners."""

import html
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from crm.records.custom.types import TYPES
from tests.cabinet.test_pages import AXE_OPTIONS, LOW_CONTROLS
from tests.cases import loop_over
from tests.chromium import NARROW, WIDE, Tab, log_in
from tests.conftest import Api

PATH = "/settings/fields"
WOOD = {"resource": "leads", "label": "Порода", "type": "choice", "options": "Дуб\n\nЯсен"}


def add(api: Api, label: str = "Порода", **sent) -> str:
    return api.create("/fields", **{"resource": "leads", "label": label, "type": "text", **sent})


def labels(api: Api) -> list[str]:
    return [field["label"] for field in api.read("/fields?resource=leads")]


def test_a_form_makes_a_field_of_what_its_type_has(olena, api):
    assert olena.sends(PATH, {**WOOD, "in_form": "1", "filtered": "1"}) == f"{PATH}?resource=leads"
    olena.sends(PATH, {**WOOD, "label": "Опис", "type": "long_text", "filtered": "1"})
    wood, about = api.read("/fields")
    options = [(one["key"], one["label"]) for one in wood["options"]]
    assert options == [("dub", "Дуб"), ("yasen", "Ясен")] and wood["key"] == "poroda"
    assert (wood["in_form"], wood["in_card"], wood["filtered"]) == (True, False, True)
    assert (about["filtered"], about["options"]) == (False, [])
    page = olena.sees(PATH)
    assert page.index("Порода") < page.index("Один варіант зі списку · фільтр")


@pytest.mark.parametrize(
    ("sent", "status", "where"),
    [
        ({"label": " "}, 422, 'id="label-fault"'),
        ({"label": "№"}, 422, 'id="key-fault"'),
        ({"key": "Wood"}, 422, 'id="key-fault"'),
        ({"key": "wood"}, 409, "дайте йому інший"),
        ({"options": "Дуб\nдуб"}, 422, 'id="options-fault"'),
        ({"options": " \n"}, 422, 'id="options-fault"'),
        ({"type": "elm"}, 422, 'id="type-fault"'),
    ],
)
def test_what_is_refused_is_told_at_its_field_and_stays_typed(olena, api, sent, status, where):
    add(api, key="wood")
    page = olena.post(PATH, {**WOOD, "key": "", "help": "Стільниця", **sent})
    assert page.status_code == status and where in page.text and 'value="Стільниця"' in page.text
    assert len(labels(api)) == 1


def test_options_are_renamed_ordered_archived_and_added(olena, api):
    olena.sends(PATH, WOOD)
    sent = {"label": "Дерево", "option_key": ["dub", "yasen"], "option_label": ["Дубок", "Ясен"]}
    sent |= {"archived": "yasen", "options": "Дуб", "shown": ""}
    page = olena.post(f"{PATH}/1/preview", {**sent, "up": "1"}).text
    assert page.index('value="Ясен"') < page.index('value="Дубок"') < page.index('id="preview"')
    assert labels(api) == ["Порода"]
    olena.sends(f"{PATH}/1", sent)
    (field,) = api.read("/fields")
    assert field["label"] == "Дерево"
    assert [[*option.values()] for option in field["options"]] == [
        ["dub", "Дубок", False],
        ["yasen", "Ясен", True],
        ["dub-3", "Дуб", False],
    ]
    del sent["option_key"]
    assert "Хтось тим часом додав варіант" in olena.post(f"{PATH}/1", sent).text


@loop_over("type", TYPES)
def test_each_type_is_shown_as_forms_have_it(olena, type):
    sent = {**WOOD, "type": type, "help": "Стільниця", "in_form": "1"}
    preview = olena.post(f"{PATH}/preview", sent).text.partition('id="preview"')[2]
    assert "Порода" in preview and "Стільниця" in preview
    assert ("Дуб" in preview) == TYPES[type].has_options


def test_fields_are_ordered_hidden_and_shown_again(olena, api):
    first, second, third = (add(api, label) for label in ("A", "B", "C"))
    olena.sends(f"{PATH}/{second}/retire")
    olena.sends(f"{PATH}/{third}/move", {"position": "1"})
    page = olena.sees(PATH)
    assert page.index(f"{PATH}/{third}/move") < page.index(f"{PATH}/{first}/move")
    assert f"{PATH}/{second}/move" not in page and f"{PATH}/{second}/restore" in page
    olena.sends(f"{PATH}/{second}/restore")
    assert f"{PATH}/{second}/move" in olena.sees(PATH)
    assert f"{PATH}/{second}/move" not in olena.sees(f"{PATH}?resource=deals")


def test_a_hidden_field_is_deleted_after_a_question_and_comes_back(olena, api):
    id = add(api)
    lead = api.create("/leads", name="Олена", phone="+380501112233", custom={"poroda": "дуб"})
    assert f"{PATH}/{id}/delete" not in olena.sees(f"{PATH}/{id}")
    assert olena.post(f"{PATH}/{id}/delete").status_code == 409
    olena.sends(f"{PATH}/{id}/retire")
    assert f"{PATH}/{id}/delete" in olena.sees(f"{PATH}/{id}")
    assert "вилучено за 30 днів: 1<" in olena.post(f"{PATH}/{id}/delete").text
    assert labels(api) == ["Порода"]
    olena.confirms(f"{PATH}/{id}/delete")
    page = olena.sees(PATH)
    assert labels(api) == [] and "Порода" not in re.sub(r"(?s)<header.*?</header>", "", page)
    olena.sends(re.search(r"/leads/batches/\d+/undo", page)[0])
    olena.sends(f"{PATH}/{id}/restore")
    assert api.read(f"/leads/{lead}")["custom"] == {"poroda": "дуб"}


def test_a_key_of_other_data_becomes_a_field(olena, api):
    for number, size in enumerate(("120", "140,5", "великий")):
        phone = f"+38050111223{number}"
        api.create("/leads", name="Олена", phone=phone, extra={"Розмір & колір": size})
    link = re.findall(rf"{PATH}/new\?[^\"]*", olena.sees(PATH))[-1]
    fields = olena.form_as_it_is(html.unescape(link), PATH)
    assert (fields["label"], fields["key"]) == ("Розмір & колір", "")
    path = olena.sends(PATH, {**fields, "type": "number"})
    page = olena.sees(path)
    assert re.search(r'<option value="Розмір &amp; колір" selected>', page)
    sent = {"from_extra": "Розмір & колір"}
    question = olena.post(f"{PATH}/1/adopt", sent).text
    assert "Підходять 2 з 3." in question and "великий" in question
    olena.confirms(f"{PATH}/1/adopt", sent)
    sizes = [lead["custom"] for lead in api.read("/leads")]
    assert sizes == [{}, {"rozmir_kolir": 140.5}, {"rozmir_kolir": 120}]


# In a browser


@pytest.fixture(params=[NARROW, pytest.param(768, marks=pytest.mark.deep), WIDE])
def page(crm, served: str, tab: Tab, request) -> Page:
    page = tab(request.param, base_url=served)
    log_in(page, crm, served)
    return page


def check(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    result = Axe().run(page, options=AXE_OPTIONS)
    assert result.violations_count == 0, result.generate_report()
    if page.viewport_size["width"] == NARROW:
        assert page.evaluate(LOW_CONTROLS) == []


def test_the_form_shows_the_field_while_it_is_typed(page, api):
    page.goto(f"{PATH}/new?resource=leads")
    preview = page.locator("#preview")
    page.get_by_label("Назва").fill("Порода")
    expect(preview.get_by_role("textbox", name="Порода")).to_be_visible()
    page.get_by_label("Тип").select_option("choice")
    page.get_by_label("Варіанти").fill("Дуб\nЯсен")
    expect(preview.locator("option")).to_have_text(["—", "Дуб", "Ясен"])
    check(page)
    page.get_by_label("Назва").press("Enter")
    with page.expect_navigation(url="**/settings/fields/*"):  # its script has run, too
        page.get_by_role("link", name="Порода").click()
    page.get_by_role("button", name="Вище: Ясен").click()
    expect(page.locator("#option-0")).to_have_value("Ясен")
    expect(page.locator("#option-0")).to_be_focused()
    check(page)
    page.get_by_role("button", name="Зберегти").last.click()
    expect(page.get_by_role("heading", name="Поля")).to_be_visible()
    page.reload()  # without the message
    check(page)
    (field,) = api.read("/fields")
    assert [option["label"] for option in field["options"]] == ["Ясен", "Дуб"]


def test_without_scripts_a_button_shows_the_field(crm, served, tab, api):
    page = tab(NARROW, base_url=served, java_script_enabled=False)
    log_in(page, crm, served)
    page.goto(f"{PATH}/new?resource=deals")
    page.get_by_label("Назва").fill("Порода")
    page.get_by_label("Тип").select_option("choice")
    page.get_by_role("button", name="Попередній перегляд").click()
    page.get_by_label("Варіанти").fill("Дуб\nЯсен")
    page.get_by_role("button", name="Попередній перегляд").click()
    expect(page.locator("#preview option")).to_have_text(["—", "Дуб", "Ясен"])
    page.get_by_role("button", name="Додати").click()
    page.get_by_role("link", name="Порода").click()
    page.get_by_role("button", name="Вище: Ясен").click()
    page.get_by_role("button", name="Зберегти").last.click()
    (field,) = api.read("/fields?resource=deals")
    assert [option["label"] for option in field["options"]] == ["Ясен", "Дуб"]
