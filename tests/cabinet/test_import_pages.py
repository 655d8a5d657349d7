"""The pages of imports and exports of all nouns that have files."""

import csv
import html
import io
import re
from typing import Any

import pytest
from python_calamine import load_workbook

from crm.cabinet.spreadsheets import imports, resource_pages
from crm.errors import TooLarge
from crm.outbox import events
from crm.spreadsheets import all_resources, find_resource
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES
from crm.storage.session import rows
from tests.cases import loop_over
from tests.conftest import OLENA
from tests.csv_helpers import load
from tests.page_client import Person, cells, counts, file, sent_whole
from tests.tables import SEQUENCES, read_rows, read_tables
from tests.waiting_uploads import names_of_uploads

HOSTILE = "<script>alert(1)</script>"
NBSP = "\u00a0"
# Of each noun a file with one good record; the deal has two rows.
FILES = {
    "leads": "external_id,name,phone,amount,tags,assigned_to,created_at\n"
    'L-1,Марія Коваль,067 123 45 67,"1 250,50","опт, vip",Taras,2024-03-01\n',
    "clients": "external_id,type,name,contact_name,contact_is_primary\n"
    "C-1,company,ТОВ Ромашка,Ігор,так\n",
    "deals": "external_id,title,stage,item_name,item_quantity,item_price\n"
    "D-1,Меблі,Won,Стіл,2,100\nD-1,,,Доставка,1,350\n",
    "tasks": "external_id,title,type,due_at\nT-1,Передзвонити,call,2026-03-05\n",
    "products": "sku,name,price,active\nCH-1,Крісло,1250.50,так\n",
}
KINDS = {
    "deals": [events.DEAL_CREATED, events.DEAL_WON, events.DEAL_ITEMS_CHANGED],
    "products": [events.PRODUCT_IMPORTED],
}
BAD = f"""external_id,name,phone,email,status,assigned_to,amount,created_at
L-1,Добра,067 123 45 67,,new,Taras,5,2024-03-01
L-2,{HOSTILE},ніякий,,new,,12 кг,
L-3,Без зв’язку,,,,,,
L-1,Ще раз,067 123 45 68,,,,,
L-4,Четверта,067 123 45 69,,готово,,,
L-5,П’ята,067 123 45 60,,,Хтось,,
L-6,Шоста,067 123 45 61,,,,,2099-01-01
L-7,Сьома,067 123 45 62,,,,,,зайве
"""
NAMES = [resource.plural for resource in all_resources()]
# The pages are the same for all: with several rows for a record, and by a key of its own.
each_noun = pytest.mark.parametrize("noun", ["deals", "products"])


def sent(person: Person, noun: str, text: str | bytes | None = None, **options: Any) -> str:
    """The path of the check of a file that must be taken."""
    options = {"name": f"{noun}.csv", **options}
    return person.sends(f"/{noun}/import", file(text or FILES[noun], **options))


def label(crm: Any, noun: str, name: str) -> str:
    """What the pages call a column."""
    with crm.test_request_context("/"):
        return resource_pages.column_label(find_resource(noun), name)


def everything(crm: Any) -> list[Any]:
    """What an import could write at acme."""
    tables = ("client", "contact", "deal", "deal_item", "lead", "product", "event", "import_run")
    with crm.tenants.session("acme"):
        results = [rows(f"SELECT * FROM {table}") for table in tables]
    ids = read_tables(crm.tenants, "acme").get(SEQUENCES, [])
    return [*results, [row for row in ids if row["name"] != "session"]]


def kinds(crm: Any) -> list[str]:
    with crm.tenants.session("acme"):
        return [kind for (kind,) in rows("SELECT type FROM event ORDER BY sequence")]


# The file


@pytest.mark.parametrize("noun", FILES)
def test_the_first_step_tells_every_column_the_limit_and_the_order(crm, manager, noun):
    page = manager.sees(f"/{noun}/import")
    results = {row[0]: row[1] for row in cells(page) if len(row) == 2}
    expected = set(find_resource(noun).column_names)
    names = set(re.findall(r"<code>([\w.]+)</code>", page))
    assert names == expected
    assert results.keys() - {"Стовпець"} == {f"{label(crm, noun, name)}{name}" for name in expected}
    assert all(results.values())
    assert f"100{NBSP}000 рядків" in page
    order = re.findall(r"<li><[^>]*>([^<]+)</", page[page.index('id="order"') :])
    assert order == ["Товари", "Клієнти", "Угоди", "Ліди", "Завдання"]
    assert f'href="/{noun}/export?for=people"' in page
    assert f'href="/{noun}/import/sample.csv"' in page


def test_each_sample_makes_a_record(crm, manager):
    for noun in NAMES:
        answer = manager.get(f"/{noun}/import/sample.csv")
        assert f'filename="{noun}-sample.csv"' in answer.headers["Content-Disposition"]
        assert answer.data.startswith(b"\xef\xbb\xbf")
        header, row = csv.reader(io.StringIO(answer.data.decode("utf-8-sig")), delimiter=";")
        expected = {label(crm, noun, name) for name in find_resource(noun).column_names}
        assert set(header) <= expected and len(row) == len(header)
        page = manager.sees(manager.sends(sent(manager, noun, answer.data)))
        assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 0}, noun
    with crm.tenants.session("acme"):
        assert rows("SELECT title, amount FROM deal") == [("Крісла для офісу", 112_500_000)]
        assert rows("SELECT product_id FROM deal_item") == rows("SELECT id FROM product")


@loop_over(
    ("data", "why"),
    [
        (None, "Виберіть файл."),
        (b"", "Файл порожній"),
        (b"%PDF-1.7", "Це PDF: надішліть таблицю, з якої його зроблено, як .xlsx або CSV."),
        (b"PK\x03\x04\0\0", "Це не електронна таблиця, або вона пошкоджена чи завелика"),
        (b"\x89PNG\r\n\x1a\n\0\0", "Це не текстовий файл"),
        ("external_id\nЛід".encode() * 50 + b"\xd0", "пошкоджені літери"),
        (b"external_id\n" + b"A\n" * 100_001, f"щонайбільше 100{NBSP}000"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(crm, olena, data, why):
    page = olena.post("/leads/import", {} if data is None else file(data))
    assert page.status_code == 422
    assert why in page.text and "<script>" not in page.text
    assert not (crm.tenants.config.data / "uploads").exists()


def of_size(size: int) -> bytes:
    """A file of that many bytes, with few and long cells."""
    row = b"A," + b"x" * 100_000 + b"\n"
    start = b"sku,description\n" + row * ((size - 20) // len(row))
    return start + b"B," + b"x" * (size - len(start) - 2)


@pytest.mark.parametrize("has_length", [True, False])
def test_more_than_50_mib_are_413(crm, olena, has_length):
    environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    options = {} if has_length else {"environ_overrides": environ}
    data = of_size(MAX_LARGE_FILE_BYTES + (1 if has_length else 1 << 20))
    page = sent_whole(olena, "/products/import", data, **options)
    assert page.status_code == 413 and "до 50 МБ" in page.text
    assert not (crm.tenants.config.data / "uploads").exists()


@pytest.mark.deep
def test_exactly_50_mib_are_taken(olena):
    page = sent_whole(olena, "/products/import", of_size(MAX_LARGE_FILE_BYTES))
    assert page.status_code == 303


def test_other_forms_are_much_smaller(olena):
    olena.sees("/products")
    body = f"csrf_token={olena._token}&name={'x' * (1 << 20)}"
    kind = "application/x-www-form-urlencoded"
    assert olena.open("POST", "/products", data=body, content_type=kind).status_code == 413


# The check


@each_noun
def test_the_check_tells_what_would_be_and_writes_nothing(crm, manager, noun):
    before = everything(crm)
    path = sent(manager, noun)
    for _ in range(2):
        page = manager.sees(path)
        assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 0}
        assert "Імпортувати 1 запис" in page and f"{noun}.csv" in page
    assert everything(crm) == before


def test_the_first_rows_are_shown_as_they_are_read(olena):
    (row,) = cells(olena.sees(sent(olena, "leads")))[1:]
    assert row == [
        *("2", "L-1", "Марія Коваль", f"067{NBSP}123{NBSP}45{NBSP}67", "Taras"),
        *(f"1{NBSP}250,50{NBSP}₴", "опт, vip"),
        "1 бер. 2024, 00:00",
    ]


def test_the_check_names_columns_that_are_there_and_that_are_not(olena):
    page = olena.sees(sent(olena, "tasks"))
    facts = page[page.index('id="read"') : page.index('id="first"')]
    assert "Номер у попередній системі, Назва, Тип, Термін" in facts
    assert "не зміниться: Стан, Пріоритет, Відповідальний" in facts and "ID" not in facts


def test_each_rejected_row_has_its_reason_and_its_cells_are_marked(olena):
    page = olena.sees(sent(olena, "leads", BAD))
    assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 7}
    people = "Такого колеги тут немає: вкажіть повне ім’я, е-пошту або телефон."
    statuses = "Новий, В роботі, Підходить, Не підходить, Став угодою"
    assert cells(page)[-9:] == [
        [
            "3",
            "Телефон",
            "Введіть номер телефону повністю: 067 123 45 67 чи +48 22 123 45 67.",
        ],
        ["3", "Сума", "Це не число: пишіть 1250.00 або 1 250,00. 12 кг"],
        ["4", "Телефон", "Вкажіть телефон або е-пошту."],
        ["4", "Е-пошта", "Вкажіть телефон або е-пошту."],
        ["5", "Номер у попередній системі", "Цей самий запис уже є в рядку вище."],
        ["6", "Стан", f"Пишіть одне з цих слів: {statuses}."],
        ["7", "Відповідальний", f"{people} Хтось"],
        ["8", "Створено", "Це не може бути в майбутньому."],
        ["9", "—", "У рядку більше клітинок, ніж стовпців у заголовку."],
    ]
    marked = re.findall(r'Неправильно:</span> <code class="cell">([^<]*)<', page)
    assert marked == ["ніякий", "12 кг", "L-1", "готово", "Хтось", "2099-01-01"]
    assert page.count('<tr class="table-warning"') == 6  # of those shown that have cells
    assert HOSTILE not in page and html.escape(HOSTILE) in page


def test_a_record_of_several_rows_is_rejected_as_a_whole(olena):
    text = FILES["deals"] + "D-2,Інша,,Стіл,1,7\nD-2,,,Полиця,багато,7\n"
    page = olena.sees(sent(olena, "deals", text))
    assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 1}
    assert page.count('<tr class="table-warning"') == 1
    assert cells(page)[-1][:2] == ["5", "Позиція: Кількість"]


@loop_over(
    ("noun", "row", "column", "why"),
    [
        ("deals", "title,client\nА,Ніхто\n", "client", "спершу імпортуйте клієнтів. Ніхто"),
        ("deals", "title,item_sku\nА,X\n", "item_sku", "Товару з таким артикулом немає"),
        ("leads", "name,phone,deal_id\nА,0671234567,7\n", "deal_id", "спершу імпортуйте угоди. 7"),
        ("clients", "type\ncompany\n", "name", "Для нового запису це обов’язково."),
        ("clients", "name,contact_id,contact_name\nА,7,Б\n", "contact_id", "номером немає"),
        ("products", "sku,name,price,active\nA,Б,1,може\n", "active", "«так» або «ні»"),
    ],
)
def test_a_reason_names_the_cell_and_the_way_out(crm, olena, noun, row, column, why):
    item = cells(olena.sees(sent(olena, noun, row)))[-1]
    assert item[:2] == ["2", label(crm, noun, column)]
    assert why in item[2]


def test_many_rejected_rows_are_told_in_short(olena):
    bad = "".join(f"А,ні{n}\n" for n in range(1500))
    page = olena.sees(sent(olena, "leads", f"name,phone\n{bad}"))
    assert "Це не всі: решта — у файлі." in page and len(page) < 200_000


def test_semicolons_mean_a_spreadsheet(olena):
    text = "name;phone\nМарія;067 123 45 67\n"
    page = olena.sees(sent(olena, "leads", text, name="список.csv", encoding="windows-1251"))
    assert "<dd>Windows-1251</dd>" in page and "крапка з комою" in page and "список.csv" in page
    assert counts(page)["created"] == 1 and counts(page)["rejected"] == 0


def test_the_dialect_is_the_person_s_choice(crm, olena):
    path = sent(olena, "leads", "name;phone\n'=Ігор;0671234567\n")
    assert cells(olena.sees(path))[1][1] == "=Ігор"
    assert cells(olena.sees(f"{path}?dialect=plain"))[1][1] == "'=Ігор"
    olena.sends(path, {"dialect": "plain"})
    assert read_rows(crm.tenants, "acme", "SELECT name FROM lead") == [("'=Ігор",)]


# The doing and its report


@each_noun
def test_the_steps_lead_to_a_report_and_no_further(crm, manager, noun):
    path = sent(manager, noun, name=f"{HOSTILE}.csv")
    manager.sees(path)
    report = manager.sends(path, {"dialect": "plain"})
    assert report == f"/{noun}/imports/1"
    page = manager.sees(report)
    assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 0}
    assert "Taras" in page and HOSTILE not in page and html.escape(HOSTILE) in page
    assert kinds(crm) == KINDS[noun]
    before = everything(crm)
    assert manager.sends(path, {"dialect": "plain"}) == f"/{noun}/imports"  # sent once more
    assert manager.get(path).status_code == 303
    assert "строк його зберігання минув" in manager.sees(report)
    assert everything(crm) == before
    assert not names_of_uploads(crm.tenants)
    assert f'href="{report}"' in manager.sees(f"/{noun}/imports")


@each_noun
def test_an_export_sent_back_changes_nothing(crm, olena, noun):
    olena.sends(sent(olena, noun))
    before = everything(crm)
    for dialect in ("", "?dialect=excel"):
        page = olena.sees(sent(olena, noun, olena.get(f"/{noun}/export{dialect}").data))
        assert counts(page) == {"created": 0, "updated": 0, "unchanged": 1, "rejected": 0}
        assert "Імпорт нічого не змінить." in page
    assert everything(crm) == before


def test_rejected_rows_can_be_downloaded_mended_and_sent_again(crm, olena):
    report = olena.sends(sent(olena, "leads", BAD))
    page = olena.sees(report)
    assert counts(page)["rejected"] == 7 and HOSTILE not in page
    errors = olena.get(f"{report}/errors.csv")
    assert errors.mimetype == "text/csv" and "attachment" in errors.headers["Content-Disposition"]
    mended = errors.text.replace("12 кг", "12").replace("ніякий", "0671234501")
    mended = mended.replace("готово", "qualified").replace("Хтось", "Olena")
    page = olena.sees(olena.sends(sent(olena, "leads", mended)))
    assert counts(page) == {"created": 3, "updated": 1, "unchanged": 0, "rejected": 3}


def test_rejected_rows_are_no_formulas(api, olena):
    """Although a program sent them: a person opens them in a spreadsheet."""
    file = (io.BytesIO(b"external_id,name\nA-1,=1+1\n"), "a.csv")
    assert api.post("/leads/import", data={"file": file}).json["skipped"] == 1
    assert "A-1,=1+1" in api.get("/imports/1/errors.csv").text  # exact for programs
    assert "A-1;'=1+1" in olena.get("/leads/imports/1/errors.csv").text


@each_noun
def test_a_report_is_shown_to_its_own_noun_only(crm, olena, noun):
    with crm.tenants.session("acme"):
        load(noun, FILES[noun], file_name="наш.csv")
    for other in NAMES:
        status = 200 if other == noun else 404
        assert olena.get(f"/{other}/imports/1").status_code == status
        assert olena.get(f"/{other}/imports/1/errors.csv").status_code == status
        assert ("наш.csv" in olena.sees(f"/{other}/imports")) is (other == noun)
    for path in ("imports/7", "imports/x", "imports/7/errors.csv"):
        assert olena.get(f"/{noun}/{path}").status_code == 404


def test_a_file_is_good_for_its_noun_only(crm, olena):
    path = sent(olena, "leads", "external_id\nA\n").removeprefix("/leads")
    for other in ("clients", "deals", "tasks", "products"):
        assert olena.get(f"/{other}{path}").status_code == 303
        assert olena.sends(f"/{other}{path}") == f"/{other}/imports"
    assert counts(olena.sees(f"/leads{path}"))["rejected"] == 1
    assert kinds(crm) == []


def test_a_file_waits_for_the_session_that_sent_it(crm, olena, manager):
    """For an hour, and by its name alone: tests/api/test_uploads.py."""
    path = sent(olena, "leads")
    for stranger in (manager, Person(crm, user_id=OLENA), Person(crm, "globex", OLENA)):
        assert stranger.get(path).status_code == 303
        assert "строк його зберігання минув" in stranger.sees(stranger.page.location)
        assert stranger.sends(path) == "/leads/imports"
    assert counts(olena.sees(path))["created"] == 1


def test_the_file_waits_on_when_the_import_fails(crm, olena, monkeypatch):
    path = sent(olena, "leads")
    olena.sees(path)

    def fails(*_, **__):
        raise TooLarge

    with monkeypatch.context() as patch:
        patch.setattr(imports, "import_file", fails)
        assert olena.post(path).status_code == 413
    assert olena.sends(path) == "/leads/imports/1"


def test_what_the_run_does_is_decided_when_it_runs(crm, olena):
    path = sent(olena, "clients")
    assert counts(olena.sees(path))["created"] == 1
    with crm.tenants.session("acme"):
        load("clients", FILES["clients"].replace("Ромашка", "Тим часом"))
    page = olena.sees(olena.sends(path))
    assert counts(page) == {"created": 0, "updated": 1, "unchanged": 0, "rejected": 0}


def test_the_check_shows_ten_rows(olena):
    text = "sku,name,price\n" + "".join(f"S-{n},Стіл,{n}\n" for n in range(25))
    page = olena.sees(sent(olena, "products", text))
    assert [row[0] for row in cells(page)[1:]] == [str(line) for line in range(2, 12)]
    assert "Перші 10 рядків" in page and "Імпортувати 25 записів" in page


def test_old_reports_are_listed_newest_first(crm, olena):
    assert "Тут ще нічого не імпортували." in olena.sees("/products/imports")
    with crm.tenants.session("acme"):
        for number in range(22):
            load("products", FILES["products"], file_name=f"{HOSTILE}{number}.csv")
    reports = [f"/products/imports/{id}" for id in range(22, 0, -1)]
    page = olena.sees("/products/imports")
    assert re.findall(r'href="(/products/imports/\d+)"', page) == reports[:20]
    assert HOSTILE not in page and html.escape(HOSTILE) in page
    following = html.unescape(re.search(r'rel="next" href="([^"]+)"', page)[1])
    assert re.findall(r'href="(/products/imports/\d+)"', olena.sees(following)) == reports[20:]


# The files to take away


@pytest.fixture
def busy(crm) -> None:
    """Some records of each noun at acme."""
    texts = {
        "clients": "external_id,name,tags\nC-1,Ромашка,vip\nC-2,Мрія,\n",
        "deals": "external_id,title,status,stage\nD-1,Меблі,won,Won\nD-2,Стіл,open,New\n",
        "leads": "external_id,name,phone,status,source\n"
        "L-2,Яна,0671234567,new,сайт і чат\nL-1,Ада,0671234568,qualified,\n",
        "tasks": "external_id,title,status,assigned_to\n"
        "T-1,Моє,open,Olena\nT-2,Нічиє,in_progress,\nT-3,Зроблене,done,Olena\n"
        "T-4,Чуже,open,Taras\n",
    }
    with crm.tenants.session("acme"):
        for noun, text in texts.items():
            assert load(noun, text).rejected == 0


def ways(page: str) -> list[str]:
    """The paths of the exports on a page: for people, as a workbook, and for programs."""
    return [html.unescape(path) for path in re.findall(r'href="(/\w+/export[^"]*)"', page)]


@loop_over(
    ("path", "expected"),
    [
        ("/leads", ["L-2", "L-1"]),
        ("/leads?status=new&limit=1", ["L-2"]),
        ("/leads?sort=name", ["L-1", "L-2"]),
        ("/clients?tag=VIP", ["C-1"]),
        ("/deals?view=list", ["D-2"]),
        ("/deals?view=list&status=won", ["D-1"]),
        ("/tasks", ["T-1"]),
        ("/tasks?assigned_to=all", ["T-1", "T-2", "T-4"]),
        ("/tasks?status=done&assigned_to=all", ["T-3"]),
    ],
)
def test_an_export_has_the_filters_of_its_list(busy, viewer, olena, path, expected):
    person = olena if path.startswith("/tasks") else viewer
    for_people, workbook, *cards, plain = ways(person.sees(path))
    answer = person.get(plain)
    external_ids = [row["external_id"] for row in csv.DictReader(io.StringIO(answer.data.decode()))]
    assert external_ids == expected
    name = find_resource(plain.split("/")[1]).file_name
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer.mimetype == "text/csv" and answer.headers["X-Content-Type-Options"] == "nosniff"
    spreadsheet = person.get(for_people).data
    assert spreadsheet.startswith(b"\xef\xbb\xbf")
    rows = csv.DictReader(io.StringIO(spreadsheet.decode("utf-8-sig")), delimiter=";")
    assert [row["Номер у попередній системі"] for row in rows] == expected
    sheet = load_workbook(io.BytesIO(person.get(workbook).data)).get_sheet_by_index(0)
    header, *cells = sheet.to_python()
    assert [row[header.index("Номер у попередній системі")] for row in cells] == expected
    assert len(cards) == (path.startswith(("/leads", "/clients")))
    assert all(person.get(way).text.count("VERSION:3.0") == len(expected) for way in cards)


def test_only_an_owner_s_export_tells_how_users_are_reached(olena, viewer, api):
    api.create("/leads", name="Марія", phone="0671234567", assigned_to="1")
    theirs, hers = (item.get("/leads/export").text for item in (viewer, olena))
    assert "olena@acme.example" in hers
    assert "olena@acme.example" not in theirs
    assert hers.replace("olena@acme.example", "1") == theirs


# Who may do what


@each_noun
def test_a_viewer_reads_reports_and_exports_and_is_led_to_no_import(
    crm, olena, viewer, manager, noun
):
    report = olena.sends(sent(olena, noun, FILES[noun] + "X-1\n"))
    for path in (f"/{noun}/export", f"/{noun}/imports", report, f"{report}/errors.csv"):
        assert viewer.get(path).status_code == 200
    page = "/deals?view=list" if noun == "deals" else f"/{noun}"
    assert f'href="/{noun}/imports"' in viewer.sees(page)
    for path in (page, report):
        assert f'href="/{noun}/import"' not in viewer.sees(path)
        assert f'href="/{noun}/import"' in manager.sees(path)
