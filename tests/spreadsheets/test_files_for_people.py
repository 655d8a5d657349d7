"""Files for people: in their language, as Excel shows it, and back without a change."""

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest
from xlsxwriter import Workbook

from crm import create_app
from crm.cabinet.labels import CHOICES
from crm.cabinet.languages import catalog
from crm.records import fields
from crm.spreadsheets import all_resources, exporter, find_resource
from crm.spreadsheets.labels import LANGUAGES, choice_value, header
from crm.storage.session import execute, transaction
from tests.cases import loop_over
from tests.conftest import Api
from tests.csv_helpers import HOSTILE, send, workbook_rows
from tests.full_tenant import Clock, fill_tenant
from tests.installations import config_for
from tests.page_client import Person

NAMES = [resource.plural for resource in all_resources()]
STYLES = ["for=people", "format=xlsx"]
CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# The second time is one that the end of summer time repeats, the third the beginning of a day.
TIMES = ("2026-03-31T11:30:00Z", "2026-10-25T01:30:15Z", "2026-10-25T00:30:00Z")
TIMES += ("2026-06-30T21:00:00Z", "9999-12-31T23:30:00Z", "1970-01-01T00:00:00Z")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A tenant with data of every kind, hostile texts and strange times among them."""
    clock = Clock()
    crm = create_app(config_for(tmp_path_factory.mktemp("people")), clock, sends=False)
    api = Api(crm, "acme", fill_tenant(crm, clock))
    for number, text in enumerate(HOSTILE):
        lead = {"name": text, "email": f"x{number}@example.com", "comment": text, "source": text}
        assert api.call("POST", "/leads", json=lead | {"tags": [text]}).status_code == 201
        product = {"sku": f"{text}-{number}", "name": text, "price": f"{number}.1234"}
        assert api.call("POST", "/products", json=product).status_code == 201
        client = {"name": text, "contacts": [{"name": text, "phone": "+48221234567"}]}
        response = api.call("POST", "/clients", json=client)
        item = {"name": text, "quantity": "0.001", "price": "1250.5", "comment": text}
        deal = {"title": text, "client_id": response.json["client_id"]}
        id = api.call("POST", "/deals", json=deal).json["deal_id"]
        items = {"items": [item, item | {"quantity": "2"}]}
        response = api.call("POST", f"/deals/{id}/items", json=items)
        assert response.status_code == 201, response.text
    for text in TIMES:
        task = {"title": text, "due_at": text, "status": "open"}
        assert api.call("POST", "/tasks", json=task).status_code == 201
    yield api
    crm.tenants.forget_idle()


def export(api: Api, plural: str, query: str) -> Any:
    response = api.get(f"/{plural}/export?{query}")
    assert response.status_code == 200, response.text
    return response


def csv_rows(data: bytes) -> list[list[str]]:
    assert data.startswith(b"\xef\xbb\xbf")
    text = data.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=";"))


@pytest.mark.process
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("plural", NAMES)
def test_what_is_exported_for_people_comes_in_again_without_a_change(
    full: Api, plural: str, language: str, style: str
) -> None:
    before = full.read(f"/{plural}")
    for_programs, for_people = (
        report(full, send(full, plural, export(full, plural, query).data))
        for query in ("", f"{style}&language={language}")
    )
    assert (for_people["created"], for_people["updated"]) == (0, 0), for_people["errors"]
    assert for_people["unchanged"] == for_programs["unchanged"] > 5
    faults = [(error["code"], error["column"]) for error in for_programs["errors"]]
    assert [(error["code"], error["column"]) for error in for_people["errors"]] == faults
    assert not faults
    assert full.read(f"/{plural}") == before


@pytest.mark.parametrize("plural", ["clients", "leads"])
def test_cards_come_in_again_without_a_change(full: Api, plural: str) -> None:
    before = full.read(f"/{plural}")
    result = report(full, send(full, plural, export(full, plural, "format=vcf").data))
    assert (result["created"], result["updated"], result["errors"]) == (0, 0, [])
    assert result["unchanged"] == len(before)
    assert full.read(f"/{plural}") == before


def report(api: Api, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return api.get(answer.headers["Location"].partition("/api/v1")[2]).json


@loop_over("plural", NAMES)
def test_each_column_has_a_header_of_its_own_in_every_language(plural: str) -> None:
    columns = [column for column in find_resource(plural).all_columns if column.sql]
    for language in LANGUAGES:
        headers = [header(column.name, column.label, language) for column in columns]
        assert len(set(headers)) == len(headers)
        if language == "uk":
            latin = {text for text in headers if text.isascii()}
            assert {text for text in latin if not text.startswith("utm_")} <= {"IBAN"}
    names: dict[str, set[str]] = {column.name: {column.name} for column in columns}
    for column in columns:
        for language in LANGUAGES:
            text = header(column.name, column.label, language).lower()
            names.setdefault(text, set()).add(column.name)
    assert {text for text, meant in names.items() if len(meant) > 1} == set()


def test_each_choice_can_be_read_in_every_language() -> None:
    for resource in all_resources():
        for model in filter(None, (resource.record, resource.part_record)):
            for column in resource.all_columns:
                if not isinstance(column.field, fields.Choice):
                    continue
                name = column.name.removeprefix(f"{model.noun}_")
                labels = CHOICES.get((model.noun, name), {})
                for value in column.field.choices if labels else ():
                    for language in LANGUAGES:
                        label = catalog(language).gettext(labels[value])
                        assert choice_value(model.noun, name, label.upper()) == value
                    assert choice_value(model.noun, name, value) == value
    assert ("item", "discount_type") in CHOICES


@pytest.fixture
def acme(api: Api) -> Api:
    lead = {"name": "Олена", "phone": "0671234567", "amount": "12500.5", "status": "qualified"}
    api.create("/leads", **lead, comment="=1+1", tags=["опт", "vip"])
    api.create("/leads", name="+1", phone="+48221234567", amount="7", company="http://x.example")
    client = api.create("/clients", name="Ромашка", contacts=[{"name": "Ігор", "is_primary": True}])
    deal = {"title": "Меблі", "client_id": client, "expected_close_date": "2026-04-15"}
    api.create("/deals", **deal)
    api.create("/tasks", title="Дзвінок", type="call", due_at="2026-03-31T11:30:00Z")
    return api


def table(api: Api, plural: str, query: str) -> list[dict[str, Any]]:
    data = export(api, plural, query).data
    names, *rows = workbook_rows(data) if "xlsx" in query else csv_rows(data)
    return [
        {name: cell for name, cell in zip(names, row, strict=True) if cell != ""} for row in rows
    ]


@loop_over(
    "language, expected",
    [
        ("uk", {"Ім’я": "Олена", "Телефон": "067 123 45 67", "Стан": "Підходить",
                "Сума": "12500,50", "Коментар": "'=1+1", "Створено": "02.03.2026 11:00"}),
        ("en", {"Full name": "Олена", "Phone": "067 123 45 67", "Status": "Qualified",
                "Amount": "12500.50", "Comment": "'=1+1", "Created": "2026-03-02 11:00"}),
    ],
)  # fmt: skip
def test_csv_is_as_excel_there_shows_it(acme: Api, language: str, expected: dict) -> None:
    first, second = table(acme, "leads", f"for=people&language={language}")
    assert first | expected == first
    assert "'+48221234567" in second.values() and "'+1" in second.values()


def test_cells_of_a_workbook_are_typed_and_none_is_a_formula(acme: Api) -> None:
    first, second = table(acme, "leads", "format=xlsx")
    assert first["Сума"] == 12500.5 and first["Створено"] == datetime(2026, 3, 2, 11)
    assert first["Телефон"] == "067 123 45 67" and second["Телефон"] == "+48221234567"
    assert (first["Коментар"], second["Ім’я"]) == ("=1+1", "+1")
    assert isinstance(first["ІД"], str)
    (deal,) = table(acme, "deals", "format=xlsx&language=en")
    assert deal["Expected close date"] == date(2026, 4, 15)
    (task,) = table(acme, "tasks", "format=xlsx&language=en")
    assert (task["Due"], task["Type"]) == (datetime(2026, 3, 31, 14, 30), "Call")
    with zipfile.ZipFile(io.BytesIO(export(acme, "leads", "format=xlsx").data)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
        assert b"<f>" not in sheet and b"hyperlink" not in sheet.lower()
        assert b"<v>12500.50</v>" in sheet  # as a float it may have 16 digits


@loop_over(
    "path, name",
    [
        ("leads/export?for=people", "leads-2026-03-02.csv"),
        ("leads/export?format=xlsx&status=new&q=Стіл&sort=name", "leads-2026-03-02.xlsx"),
    ],
)
def test_the_name_tells_the_day(api: Api, path: str, name: str) -> None:
    response = api.get(f"/{path}")
    assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    kind = CONTENT_TYPE if name.endswith("xlsx") else "text/csv; charset=utf-8"
    assert response.headers["Content-Type"] == kind


def test_beyond_the_rows_of_a_workbook_csv_is_named(
    acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "MAX_WORKBOOK_ROWS", 1)
    assert len(table(acme, "deals", "format=xlsx")) == 1
    acme.post("/deals/1/items", {"items": [{"name": "Стіл", "price": 1}] * 2})
    for export in ("leads/export?", "leads/export?assigned_to=none&", "deals/export?"):
        refused = acme.get(f"/{export}format=xlsx")
        assert (refused.status_code, refused.json["code"]) == (422, "too_many_rows")
        assert "csv" in refused.json["detail"]
    assert len(table(acme, "leads", "for=people")) == 2
    assert len(table(acme, "leads", "format=xlsx&tag=vip")) == 1


def test_what_people_change_in_their_file_is_changed(acme: Api) -> None:
    text = export(acme, "leads", "for=people").data.decode("utf-8-sig")
    text = text.replace("Підходить", "Новий").replace("067 123 45 67", "050 111 22 33")
    assert send(acme, "leads", text.replace("12500,50", "1 000,5")).json["updated"] == 1
    lead = acme.get("/leads/1").json
    assert (lead["status"], lead["phone"]) == ("new", "+380501112233")
    assert lead["amount"] == 1000.5
    rows = "Назва;Термін\r\nПідписати;01.04.2026 09:15\r\nПодзвонити;2026-04-02 09:15:30\r\n"
    assert send(acme, "tasks", rows).json["created"] == 2
    due = [task["due_at"] for task in acme.read("/tasks")]
    assert {"2026-04-01T06:15:00Z", "2026-04-02T06:15:30Z"} <= set(due)


GUARDED = (
    "00123",
    "4820000000000",
    "1E5",
    "+48221234567",
    "12.05",
    "=1",
    "'=1",
    "#N/A",
    "5%",
    "''5 x",
)


@pytest.mark.process
@pytest.mark.parametrize("mark", [";", ","])
def test_texts_that_programs_would_change_are_guarded_and_come_back(api: Api, mark: str) -> None:
    for text in GUARDED:
        assert api.call("POST", "/products", json={"sku": text, "name": text, "price": 1})
    (header, *rows) = csv_rows(export(api, "products", "for=people").data)
    assert {cell for row in rows for cell in row[:2]} >= {f"'{text}" for text in GUARDED[:6]}
    again = "\n".join(mark.join(f'"{cell}"' for cell in row) for row in (header, *rows))
    assert report(api, send(api, "products", again))["unchanged"] == len(GUARDED)
    doubled = re.sub("\"'(?=[^'])", "\"''", again)
    assert report(api, send(api, "products", doubled))["unchanged"] == len(GUARDED)
    workbook = io.BytesIO()
    with Workbook(workbook) as written:
        sheet = written.add_worksheet()
        for number, row in enumerate((header, *rows)):
            for at, cell in enumerate(row):
                sheet.write_string(number, at, cell)
    assert report(api, send(api, "products", workbook.getvalue()))["unchanged"] == len(GUARDED)


def test_rejected_rows_keep_their_guards_however_often_they_come_back(api: Api) -> None:
    api.create("/products", sku="00123", name="Стіл", price=5)
    data = "Артикул;Назва;Ціна\n'00123;Стіл;x\n"
    for _ in range(3):
        answer = send(api, "products", data)
        assert report(api, answer)["rejected"] == 1
        path = f"{answer.headers['Location'].partition('/api/v1')[2]}/errors.csv"
        data = api.get(path).data.decode("utf-8-sig")
        assert data.startswith("error;Артикул;Назва;Ціна")
        assert report(api, send(api, "products", data.replace(";x", ";5")))["unchanged"] == 1


@loop_over(
    "plural, name, header, key",
    [
        ("products", "sku", "Артикул;Назва;Ціна", ""),
        ("clients", "external_id", "Номер у попередній системі;Ім’я або назва;Тип", ""),
        ("clients", "tax_number", "ЄДРПОУ або ІПН;Ім’я або назва;Тип", "?key=tax_number"),
    ],
)
def test_numbers_that_lost_their_zeros_are_told(
    api: Api, plural: str, name: str, header: str, key: str
) -> None:
    row = "Стіл;5" if plural == "products" else "Стіл;Компанія"
    send(api, plural, f"{header}\n00123;{row}\n124;{row}\n00124;{row}\n125;{row}\n")
    rows = "".join(f"{number};{row}\n" for number in ("123", "125.0", "00123", "124"))
    again = report(api, send(api, plural, f"{header}\n{rows}", key))
    assert (again["created"], again["updated"], again["unchanged"]) == (0, 0, 2)
    for error, stored in zip(again["errors"], ("00123", "125"), strict=True):
        assert error["code"] == "lost_zeros"
        assert error["message"].startswith(f"{name}: there is “{stored}”")


def test_a_known_record_keeps_the_zeros_of_its_tax_number(api: Api) -> None:
    api.create("/clients", name="Ромашка", type="company", tax_number="00123456")
    data = export(api, "clients", "for=people").data.decode("utf-8-sig")
    (error,) = report(api, send(api, "clients", data.replace("'00123456", "123456")))["errors"]
    assert (error["code"], error["column"]) == ("lost_zeros", "tax_number")


def test_products_without_an_sku_come_back_by_their_name(api: Api) -> None:
    for name in ("Стіл", "Шафа", "Шафа"):
        api.create("/products", name=name, price=1)
    text = "sku,name,price\n,Стіл,2\n,Стіл,3\n,Шафа,2\n,Нове,2\n"
    again = report(api, send(api, "products", text))
    assert (again["created"], again["updated"], again["rejected"]) == (0, 1, 3)
    assert {error["code"] for error in again["errors"]} == {"required"}
    assert [product["price"] for product in api.read("/products")].count(2) == 1


def test_times_are_those_of_the_tenants_zone(acme: Api) -> None:
    with acme.crm.tenants.session("acme"), transaction():
        execute("UPDATE tenant SET time_zone = 'America/New_York'")
    (task,) = table(acme, "tasks", "for=people")
    assert task["Термін"] == "31.03.2026 07:30"
    answer = send(acme, "tasks", export(acme, "tasks", "for=people").data)
    assert (answer.json["updated"], answer.json["skipped"]) == (0, 1)


@pytest.mark.process
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("plural", ["leads", "deals"])
def test_no_question_is_asked_about_such_a_file(
    acme: Api, olena: Person, plural: str, style: str
) -> None:
    data = olena.get(f"/{plural}/export?{style}").data
    sent = olena.post(f"/{plural}/import", {"file": (io.BytesIO(data), "file")})
    assert sent.status_code == 303, sent.text
    assert sent.headers["Location"].startswith(f"/{plural}/import/")
    assert not sent.headers["Location"].endswith("/columns")
    files = {"file": (io.BytesIO(data), "file")}
    columns = acme.call("POST", f"/{plural}/import/preview", data=files).json["columns"]
    names = [column.name for column in find_resource(plural).all_columns if column.sql]
    assert [column["field"] for column in columns] == names
