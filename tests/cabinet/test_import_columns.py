"""The step "Columns" of an import: a file of another program, matched by a person once."""

import html
import io
import re
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from crm.storage.session import rows
from tests.cases import loop_over
from tests.page_client import Person, counts, file
from tests.tables import read_rows

FOLDER = Path(__file__).parent.parent / "data" / "foreign"
LEADS = "Хто;Чим;Колір\nОлена;067 123 45 67;синій\nІгор;050 123 45 67;\n"


def chosen(page: str) -> dict[str, str]:
    """The fields of the form of the step as a browser would send them."""
    hidden = r'<input type="hidden" name="(unknown\|[^"]*|header_line|sheet)" value="([^"]*)"'
    fields = dict(re.findall(hidden, page))
    for name, options in re.findall(
        r'<select [^>]*?name="([^"]*)"[^>]*>(.*?)</select>', page, re.S
    ):
        selected = re.search(r'<option value="([^"]*)" selected', options)
        fields[name] = selected[1] if selected else ""
    fields = {html.unescape(name): html.unescape(value) for name, value in fields.items()}
    names = re.findall(r'name="column" value="([^"]*)"', page)
    return {**fields, "column": [html.unescape(name) for name in names]}


def sends_file(person: Person, plural: str, data: str | bytes, name: str = "файл.csv") -> str:
    return person.sends(f"/{plural}/import", file(data, name=name))


def field_of(form: dict[str, Any], column: str) -> str:
    return f"field-{form['column'].index(column)}"


def answers(person: Person, path: str, **answered: str) -> tuple[str, dict[str, Any]]:
    """Send the step as it is shown, with these columns as these fields; the page after it."""
    form = chosen(person.sees(path))
    for column, field in answered.items():
        name = field_of(form, column) if column in form["column"] else column
        form[name] = field
    return person.sends(path, form), form


def test_a_foreign_file_goes_through_the_step_to_its_report(crm, olena):
    path = sends_file(olena, "leads", LEADS)
    assert path.endswith("/columns")
    page = olena.sees(path)
    assert 'aria-current="step"><span>2</span> Стовпці' in page
    assert "Не вибрано стовпець для: Ім’я, Телефон або е-пошта" in page
    assert "067 123 45 67" in page and "синій" in page
    check, _ = answers(olena, path, Хто="name", Чим="phone", Колір="")
    page = olena.sees(check)
    assert counts(page) == {"created": 2, "updated": 0, "unchanged": 0, "rejected": 0}
    assert "Пропущені стовпці: Колір" in page
    report = olena.sees(olena.sends(check))
    assert counts(report)["created"] == 2 and "Пропущені стовпці: Колір" in report
    with crm.tenants.session("acme"):
        assert rows("SELECT name, phone, extra FROM lead ORDER BY id") == [
            ("Олена", "+380671234567", None),
            ("Ігор", "+380501234567", None),
        ]


def test_a_choice_is_kept_for_the_next_file_with_the_same_columns(crm, olena, manager):
    path = sends_file(olena, "leads", LEADS)
    answers(olena, path, Хто="name", Чим="phone", title="Наш Excel")
    path = sends_file(manager, "leads", LEADS.replace("Олена", "Оля"))
    assert counts(manager.sees(path))["created"] == 2
    form = chosen(manager.sees(f"{path}/columns"))
    assert [form[f"field-{n}"] for n in range(3)] == ["name", "phone", ""]
    with crm.tenants.session("acme"):
        assert rows("SELECT noun, name FROM column_mapping") == [("lead", "Наш Excel")]
    assert read_rows(crm.tenants, "globex", "SELECT name FROM column_mapping") == []
    assert chosen(manager.sees(sends_file(manager, "clients", LEADS)))["field-0"] == ""


def test_a_kept_choice_can_be_forgotten(crm, olena):
    answers(olena, sends_file(olena, "leads", LEADS), Хто="name", Чим="phone", title="Наш Excel")
    path = f"{sends_file(olena, 'leads', LEADS)}/columns"
    assert "Вибрано раніше як «Наш Excel»" in olena.sees(path)
    saved = re.search(r'name="saved" value="(\d+)"', olena.sees(path))
    assert saved and olena.sends(f"{path}/forget", {"saved": saved[1]}) == path
    assert "Вибрано раніше" not in olena.sees(path)
    assert sends_file(olena, "leads", LEADS).endswith("/columns")
    assert read_rows(crm.tenants, "acme", "SELECT name FROM column_mapping") == []


def test_a_kept_choice_is_taken_for_other_columns_by_its_name(crm, olena):
    answers(olena, sends_file(olena, "leads", LEADS), Хто="name", Чим="phone", title="Наш Excel")
    path = sends_file(olena, "leads", LEADS.replace("Колір", "Вага;Пошта").replace("синій", ";"))
    page = olena.sees(path)
    assert [chosen(page)[f"field-{n}"] for n in range(4)] == ["", "", "email", ""]
    (link,) = re.findall(rf'href="({path}\?saved=\d+)"', page)
    page = olena.sees(link)
    assert chosen(page)["field-0"] == "name" and chosen(page)["field-1"] == "phone"
    for other in (f"{path}?saved=99", f"{path}?saved=x"):
        assert chosen(olena.sees(other))["field-0"] == ""
    clients = sends_file(olena, "clients", LEADS)
    assert "Наш Excel" not in olena.sees(clients)
    olena.sends(f"{clients}/forget", {"saved": link.rpartition("=")[2]})
    assert "Наш Excel" in olena.sees(path)


def test_empty_cells_clear_fields_on_request(crm, olena):
    answers_to = {"Хто": "name", "Чим": "phone", "Колір": "comment", "known": "update"}
    for text in (LEADS, LEADS.replace("синій", "")):
        check, _ = answers(
            olena, sends_columns(olena, "leads", text), **answers_to, on_empty="clear"
        )
        olena.sends(check)
    with crm.tenants.session("acme"):
        assert rows("SELECT comment FROM lead WHERE name = 'Олена'") == [(None,)]


def sends_columns(person: Person, plural: str, data: str | bytes, name: str = "файл.csv") -> str:
    path = sends_file(person, plural, data, name)
    return path if path.endswith("/columns") else f"{path}/columns"


def test_the_names_of_columns_may_stand_on_another_line(olena):
    path = sends_columns(olena, "leads", f"Ім'я;Телефон;Сума\nЗвіт;за;рік\n{LEADS}")
    assert 'name="header_line" min="1" max="999" value="1"' in olena.sees(path)
    path += "?header_line=3"
    page = olena.sees(path)
    assert chosen(page)["column"] == ["Хто", "Чим", "Колір"] and 'value="3"' in page
    check, _ = answers(olena, path, Хто="name", Чим="phone")
    assert counts(olena.sees(check))["created"] == 2


@pytest.mark.process
def test_another_sheet_of_a_workbook_may_be_chosen(olena):
    data = workbook({"Звіт": [["Разом"], [5]], "Ліди": [["Хто", "Чим"], ["Олена", "0671234567"]]})
    path = sends_columns(olena, "leads", data, "книга.xlsx")
    refused = olena.get(f"{path}?sheet=Немає")
    assert refused.status_code == 303 and "Звіт, Ліди" in olena.sees(refused.location)
    path += "?sheet=Ліди"
    assert chosen(olena.sees(path))["column"] == ["Хто", "Чим"]
    check, _ = answers(olena, path, Хто="name", Чим="phone")
    assert counts(olena.sees(check))["created"] == 1


@pytest.mark.process
def test_hidden_rows_are_counted_and_one_click_reads_them(olena):
    lines = [["name", "phone"], ["Олена", "0671234567"], ["Ігор", "0501234567"]]
    path = sends_file(olena, "leads", workbook({"Ліди": lines}, hidden_row=1), "книга.xlsx")
    page = olena.sees(path)
    assert "1 прихований рядок пропущено." in page and counts(page)["created"] == 1
    assert "1 прихований рядок пропущено." in olena.sees(olena.sends(path))
    path = sends_file(olena, "leads", workbook({"Ліди": lines}, hidden_row=1), "книга.xlsx")
    path = path.removesuffix("/columns")
    page = olena.sees(f"{path}?hidden_rows=read")
    assert counts(page)["updated"] + counts(page)["created"] == 2
    report = olena.sees(olena.sends(path, {"hidden_rows": "read"}))
    assert counts(report) == counts(page) and "прихований" not in report


def workbook(sheets: dict[str, list[list[Any]]], hidden_row: int | None = None) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        for name, lines in sheets.items():
            sheet = book.add_worksheet(name)
            for number, line in enumerate(lines):
                sheet.write_row(number, 0, line)
            if hidden_row is not None:
                sheet.set_row(hidden_row, options={"hidden": True})
    return file.getvalue()


def test_our_own_columns_and_the_labels_of_our_pages_need_no_step(olena):
    for header in ("name,phone", "Ім’я;Телефон", "ПІБ;Телефон", "Full name,Phone"):
        mark = ";" if ";" in header else ","
        path = sends_file(olena, "leads", f"{header}\nОлена{mark}067 123 45 67\n")
        assert not path.endswith("/columns"), header
        assert counts(olena.sees(path))["created"] == 1
    path = sends_file(olena, "products", "Артикул;Назва;Ціна\nA;Стіл;12 500,00 ₴\n")
    assert not path.endswith("/columns")
    assert counts(olena.sees(path))["created"] == 1


@loop_over(
    ("plural", "data", "missing"),
    [
        ("clients", b"<script>\n", "Ім’я або назва"),
        ("products", b"sku,sku\n", "Назва, Ціна"),
    ],
)
def test_a_header_that_does_not_fit_leads_to_the_step_that_says_what_is_missing(
    olena, plural, data, missing
):
    page = olena.sees(sends_file(olena, plural, data))
    assert f"Не вибрано стовпець для: {missing}." in page and "<script>\n" not in page


def test_a_known_phone_proposes_to_change_the_record(crm, olena):
    olena.sends(sends_file(olena, "leads", "name,phone\nОлена,0671234567\n"))
    for known, changed in (("update", 1), ("", 0)):
        path = sends_file(olena, "leads", f"ПІБ;Телефон;{known}\nОля;067 123 45 67;\n")
        assert path.endswith("/columns") and chosen(olena.sees(path))["known"] == "update"
        assert counts(olena.sees(answers(olena, path, known=known)[0]))["updated"] == changed


def test_two_columns_for_one_field_are_refused_at_the_second(olena):
    path = sends_file(olena, "leads", LEADS)
    form = chosen(olena.sees(path)) | {"field-0": "name", "field-1": "name"}
    page = olena.post(path, form)
    assert page.status_code == 422 and "«Хто» — те саме поле" in page.text
    assert chosen(page.text)["field-0"] == "name"


def test_the_order_of_dates_is_asked_only_where_nothing_tells_it(olena):
    text = "ПІБ;Телефон;Дата створення\nОлена;067 123 45 67;03/04/2024\n"
    path = sends_file(olena, "leads", text)
    assert 'name="date_order"' in olena.sees(path)
    page = olena.post(path, chosen(olena.sees(path)))
    assert page.status_code == 422 and "Що стоїть першим: день чи місяць?" in page.text
    check, _ = answers(olena, path, date_order="month")
    assert "04.03.2024" in olena.sees(check) or "4 бер" in olena.sees(check)
    path = sends_file(olena, "leads", text.replace("03/04", "13/04").replace("ПІБ", "Контакт"))
    assert 'name="date_order"' not in olena.sees(f"{path.removesuffix('/columns')}/columns")


@loop_over("header", ["sku,name,price", "Код,Товар,Ціна"])
def test_what_a_comma_is_in_numbers_is_asked_where_no_column_tells(olena, header):
    text = f'{header}\nA,Стіл,"1,250"\n'
    path = sends_file(olena, "products", text)
    page = olena.post(path, chosen(olena.sees(path)))
    assert page.status_code == 422 and "Кома тут відділяє" in page.text
    check, _ = answers(olena, path, decimal_mark="point")
    assert "1\N{NO-BREAK SPACE}250\N{NO-BREAK SPACE}₴" in olena.sees(check)
    assert not sends_file(olena, "products", text).endswith("/columns")  # it is asked once


STAGES = "Назва угоди;Клієнт;Етап;Менеджер;Воронка;Телефон\n"
STAGES += "Меблі;Ромашка;Погоджено;Хтось;Опт;\nДвері;;;;;067 123 45 67\n"
UNKNOWN = ("unknown|assigned_to|Хтось", "unknown|stage|Погоджено", "unknown|client|Ромашка")
UNKNOWN += ("unknown|pipeline|Опт", "unknown|client|+380671234567")


def test_unknown_colleagues_stages_and_clients_are_asked_about_once(crm, olena):
    path = sends_file(olena, "deals", STAGES)
    page = olena.sees(path)
    form = chosen(page)
    assert {name for name in form if name.startswith("unknown|")} == {*UNKNOWN}
    refused = olena.post(path, form)
    assert refused.status_code == 422 and "Вкажіть, що робити з цими назвами" in refused.text
    said = dict(zip(UNKNOWN, ("=2", "create", "skip", "=1", "create"), strict=True))
    check, _ = answers(olena, path, **said)
    olena.sends(check)
    with crm.tenants.session("acme"):
        deals = rows("SELECT title, assigned_to, client_id FROM deal ORDER BY id")
        assert deals == [("Меблі", 2, None), ("Двері", None, 1)]
        assert rows("SELECT count(*) FROM stage WHERE name = 'Погоджено'") == [(1,)]


def test_a_manager_creates_no_colleagues_and_no_stages(crm, manager):
    path = sends_file(manager, "deals", STAGES)
    page = manager.sees(path)
    assert page.count('value="create"') == 2  # of the clients
    form = chosen(page) | dict.fromkeys(UNKNOWN, "create")
    assert manager.post(path, form).status_code == 422
    assert read_rows(crm.tenants, "acme", "SELECT 1 FROM \"user\" WHERE name = 'Хтось'") == []


@pytest.mark.parametrize("status", ["Стадія заявки", "Стан"])  # the second is ours
def test_words_that_mean_no_status_are_asked_about(crm, olena, status):
    text = f"Ім’я;Телефон;{status}\nОлена;067 123 45 67;Продаж\nІгор;050 123 45 67;Новий\n"
    path = sends_file(olena, "leads", text)
    form = chosen(olena.sees(path))
    form[field_of(form, status)] = "status"
    page = olena.post(path, form)
    assert page.status_code == 422
    form = chosen(page.text)
    assert "unknown|status|Продаж" in form and "unknown|status|Новий" not in form
    form["unknown|status|Продаж"] = "=qualified"
    olena.sends(olena.sends(path, form))
    with crm.tenants.session("acme"):
        assert rows("SELECT status FROM lead ORDER BY id") == [("qualified",), ("new",)]


def test_lines_that_are_no_records_are_counted_in_the_check(olena):
    path = sends_file(olena, "products", (FOLDER / "05-bas-price-list.csv").read_bytes())
    check, _ = answers(olena, path)
    page = olena.sees(check)
    assert "3 рядки є заголовками" in page
    assert counts(page) == {"created": 2, "updated": 0, "unchanged": 0, "rejected": 1}


def test_hostile_headers_and_cells_are_shown_as_text(olena):
    path = sends_file(olena, "leads", '<script>,"a""b",x|y\n<b>1</b>,"""><i>",2\n')
    page = olena.sees(path)
    assert "<script>," not in page and "<b>1" not in page and "<i>" not in page
    form = chosen(page)
    assert form["column"] == ["<script>", 'a"b', "x|y"]


WOODS = "Хто;Чим;Порода\n" + "".join(
    f"Олена;067 123 45 6{n};{wood}\n" for n, wood in enumerate(("Дуб", "Ясен", "дуб", "ясен"))
)


def test_an_owner_makes_a_new_field_of_a_column(crm, olena, manager):
    assert "new_field" not in manager.sees(sends_file(manager, "leads", WOODS))
    path = sends_file(olena, "leads", WOODS)
    assert "Нове поле: один варіант зі списку" in olena.sees(path)
    check, _ = answers(olena, path, Хто="name", Чим="phone", Порода="new_field")
    page = olena.sees(check)
    assert counts(page)["created"] == 4 and "Порода" in page
    assert rows_of_acme(crm, "SELECT key FROM custom_field") == []
    olena.sends(check)
    assert rows_of_acme(crm, "SELECT key, type FROM custom_field") == [("poroda", "choice")]
    woods = rows_of_acme(crm, "SELECT custom FROM lead ORDER BY id LIMIT 2")
    assert woods == [('{"poroda":"dub"}',), ('{"poroda":"yasen"}',)]
    # The choice that is kept names the field; the next file needs no person.
    path = sends_file(manager, "leads", WOODS.replace("Олена", "Ігор"))
    assert counts(manager.sees(path))["created"] == 4
    manager.sends(path)
    page = olena.sees(olena.sends("/leads/batches/1/undo", {}))
    assert 'href="/settings/fields"' in page and "відтоді з цим працювали" in page


def test_a_kept_choice_names_the_columns_whose_field_has_gone(crm, olena):
    path = sends_file(olena, "leads", WOODS)
    answers(olena, path, Хто="name", Чим="phone", Порода="new_field")  # nothing is imported
    page = olena.sees(sends_file(olena, "leads", WOODS))
    assert "більше немає: Порода" in page
    assert chosen(page)["field-0"] == "name" and chosen(page)["field-2"] == ""


def rows_of_acme(crm: Any, sql: str) -> list[tuple[Any, ...]]:
    with crm.tenants.session("acme"):
        return rows(sql)
