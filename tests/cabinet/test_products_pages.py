"""The pages of products and of the import of a price list; other resources: test_import_pages."""

import html
import io
import re
from pathlib import Path
from typing import Any

import pytest

from crm import spreadsheets
from crm.errors import TooLarge
from crm.outbox import events
from crm.resources.products.csv_columns import COLUMNS, PRODUCTS
from crm.resources.products.record import PRODUCT, PRODUCT_IN, Product, create
from crm.spreadsheets import find_resource, import_file, read_file
from crm.spreadsheets.file_styles import FileStyle
from crm.spreadsheets.reader import MAX_LARGE_FILE_BYTES
from crm.storage import uploads
from crm.storage.session import rows
from tests.conftest import OLENA
from tests.csv_helpers import file_of
from tests.page_client import TOKEN, Person, cells, counts, file, hidden, sent_whole
from tests.waiting_uploads import names_of_uploads

HOSTILE = "<script>alert(1)</script>"
LIST = """sku;name;price;unit;category;description;active
CH-1;Крісло «Їжак»;1 250,50;шт;Крісла;"Сітчаста спинка,
газліфт";так
T-1;Стіл;4300;шт;Столи;;ні
"""
BAD = f"""sku,name,price,active
A-1,Полиця,300,yes
A-2,{HOSTILE},12 грн,yes
,Без артикула,5,yes
A-1,Ще раз,5,no
A-3,Шафа,7,може
A-4,Без ціни,,
A-5,Стіл,1,yes,зайве
"""
REAL = Path(__file__).resolve().parents[1] / "data" / "b2b_pipeline" / "products.csv"


def chair(crm, **fields: Any) -> str:
    """The id of a new product at acme."""
    sent = {"sku": "CH-1", "name": "Крісло", "price": 1250.5, **fields}
    with crm.tenants.session("acme"):
        return str(create(PRODUCT_IN.parse(sent)))


def product(crm, id: str) -> dict[str, Any]:
    with crm.tenants.session("acme"):
        return PRODUCT.one(id)


def skus(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [record.sku for record in Product.every("TRUE ORDER BY id")]


def kinds(crm) -> list[str]:
    with crm.tenants.session("acme"):
        return [kind for (kind,) in rows("SELECT type FROM event ORDER BY sequence")]


def sent(person: Person, text: str | bytes = LIST, **options: Any) -> str:
    """The path of the preview of a file that must be taken."""
    return person.sends("/products/import", file(text, **options))


# The list


def test_the_list_shows_products_by_name(crm, olena):
    chair(crm, sku="B", name="Стіл", price=12.3456)
    chair(crm, sku="A", name="Диван", category="Дивани", unit="шт")
    page = olena.sees("/products")
    assert page.index("Диван") < page.index("Стіл")
    assert "12,3456\u00a0₴" in page  # a price is shown exactly


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["A", "B", "C"]),
        ("?q=&category=&active=&sort=", ["A", "B", "C"]),
        ("?category=Столи", ["B", "C"]),
        ("?active=false", ["C"]),
        ("?category=Столи&active=true", ["B"]),
        ("?q=круглий", ["B"]),
        ("?sort=-id", ["C", "B", "A"]),
        ("?limit=1", ["A"]),
    ],
)
def test_the_filters_are_those_of_the_api(crm, olena, query, expected):
    chair(crm, sku="A", name="1")
    chair(crm, sku="B", name="2", category="Столи", description="Круглий")
    chair(crm, sku="C", name="3", category="Столи", active=False)
    page = olena.sees(f"/products{query}")
    shown = [re.search(r"[ABC]\Z", row[1])[0] for row in cells(page)[1:]]
    assert shown == expected


def test_the_next_page_keeps_the_filters(crm, olena):
    for n in range(3):
        chair(crm, sku=f"S-{n}", name=f"Стіл {n}", category="Столи")
    chair(crm, sku="D", name="Диван", category="Дивани")
    page = olena.sees("/products?category=Столи&limit=2")
    following = html.unescape(re.search(r'rel="next" href="([^"]+)"', page)[1])
    page = olena.sees(following)
    assert [row[1] for row in cells(page)[1:]] == ["Стіл 2 S-2"]
    assert 'rel="next"' not in page


def test_a_filter_that_does_not_fit_is_refused(olena):
    assert olena.get("/products?active=maybe").status_code == 422


def test_the_empty_list_says_how_to_fill_it(olena):
    assert "Товарів ще немає" in olena.sees("/products")
    assert "Нічого не знайдено" in olena.sees("/products?q=стіл")


# One product


def test_a_product_is_made_from_a_form(crm, olena):
    form = {"name": "Крісло", "sku": "CH-1", "price": "1 250,50", "currency": "UAH", "active": "1"}
    path = olena.sends("/products", {**form, "unit": "шт", "category": "Крісла"})
    made = product(crm, path.rpartition("/")[2])
    assert (made["sku"], float(made["price"]), made["unit"]) == ("CH-1", 1250.5, "шт")
    assert made["active"] is True
    assert kinds(crm) == [events.PRODUCT_CREATED]
    assert "Товар додано" in olena.sees(path)


def test_what_does_not_fit_comes_back_as_it_was_typed(crm, olena):
    page = olena.post("/products", {"name": "", "price": "12 грн", "category": HOSTILE})
    assert page.status_code == 422
    assert 'value="12 грн"' in page.text
    assert "Введіть число." in page.text and "Заповніть обов’язкове поле." in page.text
    assert HOSTILE not in page.text and html.escape(HOSTILE) in page.text
    assert not re.search(r'id="active"[^>]*checked', page.text)
    assert skus(crm) == []


def test_the_sku_of_another_product_is_refused(crm, olena):
    chair(crm)
    form = {"name": "Інше", "sku": "CH-1", "price": "5", "currency": "UAH"}
    page = olena.post("/products", form)
    assert page.status_code == 409
    assert "Такий артикул уже має інший товар." in page.text and 'value="Інше"' in page.text
    assert skus(crm) == ["CH-1"]


def test_the_card_shows_what_is_kept(crm, olena):
    id = chair(crm, name=HOSTILE, price=9999.9999, description=f"</textarea>{HOSTILE}")
    page = olena.sees(f"/products/{id}")
    assert 'value="9999,9999"' in page and HOSTILE not in page
    assert 'value="CH-1"' in page and re.search(r'id="active"[^>]*checked', page)


def test_the_price_on_a_card_is_in_the_reader_s_own_spelling(crm, olena):
    olena.client.set_cookie("crm_language", "en", domain=olena.host)
    assert 'value="1250.50"' in olena.sees(f"/products/{chair(crm)}")


def test_a_card_sent_as_it_is_changes_nothing(crm, olena):
    id = chair(crm, price=9999.9999, unit="шт", description="Два\nрядки", external_id="1C-7")
    before = product(crm, id)
    page = olena.sees(f"/products/{id}")
    form = dict(re.findall(r'<input[^>]*name="(\w+)" value="([^"]*)"', page))
    form |= {"active": "1", "description": "Два\r\nрядки"}
    olena.sends(f"/products/{id}", form)
    assert product(crm, id) == before
    assert kinds(crm) == [events.PRODUCT_CREATED]


def test_a_change_is_kept_and_told(crm, olena):
    id = chair(crm)
    form = {"name": "Крісло", "sku": "CH-1", "price": "99,9", "currency": "UAH"}
    olena.sends(f"/products/{id}", form)
    assert float(product(crm, id)["price"]) == 99.9 and product(crm, id)["active"] is False
    assert kinds(crm) == [events.PRODUCT_CREATED, events.PRODUCT_UPDATED]


def test_what_somebody_else_changed_meanwhile_is_not_lost(crm, olena, manager):
    id = chair(crm)
    shown = hidden(olena.sees(f"/products/{id}"), "shown")
    form = {"shown": shown, "name": "Крісло", "price": "1", "currency": "UAH"}
    manager.sends(f"/products/{id}", form)
    page = olena.post(f"/products/{id}", {**form, "price": "2"})
    assert page.status_code == 422 and 'value="2"' in page.text
    assert float(product(crm, id)["price"]) == 1
    assert hidden(page.text, "shown") != shown


def test_a_product_is_taken_off_sale_and_put_back(crm, olena):
    id = chair(crm)
    back = "/products?active=true&q=%D0%BA"
    assert olena.sends(f"/products/{id}/active", {"active": "0", "next": back}) == back
    assert product(crm, id)["active"] is False
    assert olena.sends(f"/products/{id}/active", {"active": "1"}) == f"/products/{id}"
    assert product(crm, id)["active"] is True
    assert kinds(crm)[1:] == [events.PRODUCT_UPDATED] * 2


def test_a_switch_leads_to_no_other_site(crm, olena):
    id = chair(crm)
    for strange in ("//evil.example", "https://evil.example", "/\\evil.example"):
        path = olena.sends(f"/products/{id}/active", {"active": "0", "next": strange})
        assert path == f"/products/{id}"


def test_a_deleted_product_comes_back_by_one_button(crm, olena):
    id = chair(crm)
    assert olena.sends(f"/products/{id}/delete") == "/products"
    page = olena.sees("/products")
    assert "«Крісло» видалено" in page and f'action="/products/{id}/restore"' in page
    assert olena.get(f"/products/{id}").status_code == 404
    assert olena.sends(f"/products/{id}/restore") == f"/products/{id}"
    assert product(crm, id)["name"] == "Крісло"


# The files to take away


def test_the_export_has_the_filters_of_the_list(crm, olena):
    chair(crm, sku="A", category="Столи і стільці")
    chair(crm, sku="B")
    page = olena.sees("/products?category=Столи+і+стільці&limit=1")
    links = [html.unescape(link) for link in re.findall(r'href="(/products/export[^"]*)"', page)]
    for_people, workbook, plain = (olena.get(link) for link in links)
    with crm.tenants.session("acme"):
        condition = ("category = ?", ["Столи і стільці"])
        assert plain.data == file_of("products", *condition)
        assert for_people.data == file_of("products", *condition, style=FileStyle("uk"))
    assert workbook.data.startswith(b"PK")
    assert (
        for_people.data.startswith(b"\xef\xbb\xbf") and b"B" not in plain.data.split(b"\r\n", 1)[1]
    )
    assert plain.headers["Content-Disposition"] == 'attachment; filename="price-list.csv"'
    assert plain.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("dialect", ["", "?dialect=excel"])
def test_an_export_sent_back_changes_nothing(crm, olena, dialect):
    chair(crm, name="-50%", price=1.2345, description="'=1+1")
    chair(crm, sku="T-1", name="Стіл; дубовий", active=False)
    data = olena.get(f"/products/export{dialect}").data
    page = olena.sees(sent(olena, data))
    assert counts(page) == {"created": 0, "updated": 0, "unchanged": 2, "rejected": 0}
    assert "Імпорт нічого не змінить." in page


# Import: the file


def test_the_first_step_names_the_columns_and_offers_a_pattern(manager):
    page = manager.sees("/products/import")
    assert all(f"<code>{name}</code></div></th>" in page for name in COLUMNS)
    assert 'href="/products/export?for=people"' in page and 'href="/products/export"' in page


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Файл порожній"),
        (b"%PDF-1.7", "Це PDF: надішліть таблицю, з якої його зроблено, як .xlsx або CSV."),
        ("sku,name\nA,Стіл".encode() * 50 + b"\xd0", "пошкоджені літери"),
        (b"sku\n" + b"A\n" * 100_001, "щонайбільше 100\u00a0000"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(crm, olena, data, why):
    page = olena.post("/products/import", file(data))
    assert page.status_code == 422
    assert why in page.text and "<script>" not in page.text
    assert not (crm.tenants.config.data / "uploads").exists()


@pytest.mark.parametrize("form", [{}, {"file": "sku,name"}, {"file": (io.BytesIO(b""), "")}])
def test_without_a_file_the_page_asks_for_one(olena, form):
    page = olena.post("/products/import", form)
    assert page.status_code == 422 and "Виберіть файл." in page.text


def of_size(size: int) -> bytes:
    """A price list of that many bytes, with few and long cells."""
    row = b"A," + b"x" * 100_000 + b"\n"
    start = b"sku,description\n" + row * ((size - 20) // len(row))
    return start + b"B," + b"x" * (size - len(start) - 2)


def test_more_than_50_mib_are_413(crm, olena):
    page = sent_whole(olena, "/products/import", of_size(MAX_LARGE_FILE_BYTES + 1))
    assert page.status_code == 413
    assert "не більшим за 50 МБ" in page.text
    assert not (crm.tenants.config.data / "uploads").exists()


def test_exactly_50_mib_are_taken(olena):
    assert sent_whole(olena, "/products/import", of_size(MAX_LARGE_FILE_BYTES)).status_code == 303


def test_a_body_without_a_length_is_not_cut_in_silence(olena):
    environ = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    page = sent_whole(
        olena,
        "/products/import",
        b"sku\n" + b"A\n" * MAX_LARGE_FILE_BYTES,
        environ_overrides=environ,
    )
    assert page.status_code == 413


def test_other_forms_are_much_smaller(olena):
    olena.sees("/products")
    body = f"csrf_token={olena._token}&name={'x' * (1 << 20)}"
    kind = "application/x-www-form-urlencoded"
    assert olena.open("POST", "/products", data=body, content_type=kind).status_code == 413


# Import: the preview


def test_the_preview_tells_how_a_windows_1251_file_of_excel_is_read(olena):
    page = olena.sees(sent(olena, LIST, name="прайс весна.csv", encoding="windows-1251"))
    assert "прайс весна.csv" in page and "Windows-1251" in page and "крапка з комою" in page
    assert counts(page) == {"created": 2, "updated": 0, "unchanged": 0, "rejected": 0}
    assert cells(page)[1:] == [
        ["2", "CH-1", "Крісло «Їжак»", "1\u00a0250,50\u00a0₴", "шт", "Крісла"]
        + ["Сітчаста спинка,\nгазліфт", "Так"],
        ["4", "T-1", "Стіл", "4\u00a0300\u00a0₴", "шт", "Столи", "", "Ні"],
    ]


@pytest.mark.parametrize(
    ("encoding", "delimiter", "shown"),
    [
        ("utf-8-sig", ";", ("UTF-8", "крапка з комою")),
        ("utf-16", "\t", ("UTF-16", "табуляція")),
        ("utf-8", ",", ("UTF-8", "кома")),
    ],
)
def test_the_preview_tells_encoding_and_delimiter(olena, encoding, delimiter, shown):
    text = "sku;name;price\nA;Ґанок;5\n".replace(";", delimiter)
    page = olena.sees(sent(olena, text, encoding=encoding))
    assert all(f"<dd>{item}</dd>" in page for item in shown)
    assert "Одиниця, Категорія, Опис, У продажу" in page  # stay as they are
    assert cells(page)[1][1:3] == ["A", "Ґанок"]


def test_the_preview_shows_ten_rows(olena):
    text = "sku,name,price\n" + "".join(f"S-{n},Стіл,{n}\n" for n in range(25))
    page = olena.sees(sent(olena, text))
    assert [row[0] for row in cells(page)[1:]] == [str(line) for line in range(2, 12)]
    assert "Перші 10 рядків" in page and "Імпортувати 25 записів" in page


def test_the_preview_writes_nothing(crm, olena):
    chair(crm, name="Старе")
    path = sent(olena)
    for _ in range(2):
        page = olena.sees(path)
        assert counts(page) == {"created": 1, "updated": 1, "unchanged": 0, "rejected": 0}
    assert skus(crm) == ["CH-1"] and kinds(crm) == [events.PRODUCT_CREATED]
    with crm.tenants.session("acme"):
        assert rows("SELECT count(*) FROM import_run") == [(0,)]


def test_the_preview_names_each_row_that_would_be_rejected(olena):
    page = olena.sees(sent(olena, BAD))
    assert counts(page) == {"created": 1, "updated": 0, "unchanged": 0, "rejected": 6}
    assert cells(page)[-6:] == [
        ["3", "Ціна", "Це не число: пишіть 1250.00 або 1 250,00. 12 грн"],
        ["4", "Артикул", "Обов’язково в кожному рядку."],
        ["5", "Артикул", "Такий артикул уже є в рядку вище."],
        ["6", "У продажу", "Пишіть «так» або «ні», true або false, 1 або 0. може"],
        ["7", "Ціна", "Для нового товару це обов’язково."],
        ["8", "—", "У рядку більше клітинок, ніж стовпців у заголовку."],
    ]
    assert page.count("table-warning") == 5  # of those shown that have cells
    assert HOSTILE not in page and html.escape(HOSTILE) in page


def test_many_rejected_rows_are_told_in_short(olena):
    text = "sku,price\n" + "".join(f"S-{n},x,\n" for n in range(1500))
    page = olena.sees(sent(olena, text))
    assert "і ще 1300 рядків" in page
    assert len(page) < 200_000


def test_a_semicolon_file_is_read_as_excel_s_unless_told_otherwise(crm, olena):
    path = sent(olena, "sku;name;price\nA;'=Крісло;5\n")
    assert '<td class="wide">=Крісло</td>' in olena.sees(path)
    assert "&#39;=Крісло" in olena.sees(f"{path}?dialect=plain")
    olena.sends(path, {"dialect": "plain"})
    with crm.tenants.session("acme"):
        assert Product.first("sku = 'A'").name == "'=Крісло"


def test_a_file_waits_for_the_session_that_sent_it(crm, olena, manager):
    path = sent(olena)
    for stranger in (manager, Person(crm, user_id=OLENA), Person(crm, "globex", OLENA)):
        assert stranger.get(path).status_code == 303
        assert "строк його зберігання минув" in stranger.sees(stranger.page.location)
        assert stranger.sends(path) == "/products/imports"
        stranger.sends(f"{path}/drop")
    assert skus(crm) == [] and kinds(crm) == []
    assert counts(olena.sees(path))["created"] == 2


def test_a_file_waits_for_an_hour(crm, olena, clock):
    path = sent(olena)
    clock.tick(3600)
    assert olena.get(path).status_code == 303
    assert olena.sends(path) == "/products/imports"
    assert skus(crm) == []


def test_strange_names_lead_nowhere(crm, olena):
    for name in ("x", "..%2f..%2ffront.db", "0" * 32):
        assert olena.get(f"/products/import/{name}").status_code in (303, 404)
        assert olena.post(f"/products/import/{name}").status_code in (303, 404)
    assert kinds(crm) == []


def test_another_file_may_be_sent_instead(crm, olena):
    path = sent(olena)
    assert olena.sends(f"{path}/drop") == "/products/import"
    assert not names_of_uploads(crm.tenants)
    assert olena.get(path).status_code == 303


# Import: the run and its report


def test_the_run_imports_once_and_tells_once(crm, manager):
    path = sent(manager, encoding="windows-1251", name="весна.csv")
    manager.sees(path)
    report = manager.sends(path, {"dialect": "excel"})
    page = manager.sees(report)
    assert counts(page) == {"created": 2, "updated": 0, "unchanged": 0, "rejected": 0}
    assert "весна.csv" in page and "Taras" in page and "Windows-1251" in page
    assert skus(crm) == ["CH-1", "T-1"]
    for again in (report, path):  # reloaded, gone back to
        manager.get(again)
    assert manager.sends(path) == "/products/imports"
    assert kinds(crm) == [events.PRODUCT_IMPORTED]
    assert not names_of_uploads(crm.tenants)


def test_what_the_run_does_is_decided_when_it_runs(crm, olena):
    path = sent(olena)
    assert counts(olena.sees(path))["created"] == 2
    chair(crm, name="Тим часом")
    page = olena.sees(olena.sends(path))
    assert counts(page) == {"created": 1, "updated": 1, "unchanged": 0, "rejected": 0}


def test_rejected_rows_can_be_downloaded_mended_and_sent_again(crm, olena):
    report = olena.sends(sent(olena, BAD))
    page = olena.sees(report)
    assert counts(page)["rejected"] == 6 and HOSTILE not in page
    errors = olena.get(f"{report}/errors.csv")
    header = "error;sku;name;price;active"
    assert errors.mimetype == "text/csv" and errors.data.decode("utf-8-sig").startswith(header)
    assert "attachment" in errors.headers["Content-Disposition"]
    mended = errors.text.replace("12 грн", "12").replace("може", "так").replace(";зайве", "")
    page = olena.sees(olena.sends(sent(olena, mended)))
    assert counts(page) == {"created": 3, "updated": 1, "unchanged": 0, "rejected": 2}


def test_the_rejected_rows_are_kept_for_a_while(crm, olena, clock):
    report = olena.sends(sent(olena, BAD))
    assert f'href="{report}/errors.csv"' in olena.sees(report)
    clock.tick(31 * 86_400)
    olena = Person(crm, user_id=OLENA)
    olena.sends(sent(olena))  # the next import makes room
    page = olena.sees(report)
    assert f"{report}/errors.csv" not in page and "зберігався 30 днів" in page
    assert olena.get(f"{report}/errors.csv").status_code == 404


def test_old_reports_are_listed_newest_first(crm, olena):
    assert "Тут ще нічого не імпортували." in olena.sees("/products/imports")
    reports = [olena.sends(sent(olena, name=f"{HOSTILE}{n}.csv")) for n in range(22)]
    page = olena.sees("/products/imports")
    assert re.findall(r'href="(/products/imports/\d+)"', page) == reports[:1:-1]
    assert HOSTILE not in page and html.escape(HOSTILE) in page
    following = html.unescape(re.search(r'rel="next" href="([^"]+)"', page)[1])
    assert re.findall(r'href="(/products/imports/\d+)"', olena.sees(following)) == reports[1::-1]


def test_an_unknown_report_is_not_found(olena):
    for path in ("/products/imports/7", "/products/imports/x", "/products/imports/7/errors.csv"):
        assert olena.get(path).status_code == 404


def test_the_real_catalogue_is_imported(crm, olena):
    lines = [line.split(",") for line in REAL.read_text("utf-8").splitlines()[1:]]
    text = "sku;category;price;name\r\n"
    text += "".join(f"{n.replace(' ', '')};{series};{price};{n}\r\n" for n, series, price in lines)
    page = olena.sees(olena.sends(sent(olena, text)))
    assert counts(page)["created"] == len(lines) == 7
    assert "GTX Plus Pro" in olena.sees("/products?category=GTX")


def test_the_run_waits_on_when_it_fails(crm, olena, monkeypatch):
    path = sent(olena)
    olena.sees(path)

    def fails(*_, **__):
        raise TooLarge

    with monkeypatch.context() as patch:
        patch.setattr(spreadsheets, "import_file", fails)
        assert olena.post(path).status_code == 413
    assert olena.sends(path) == "/products/imports/1"


# Who may do what


CHANGES = ("/products", "/products/1", "/products/1/active", "/products/1/delete")
IMPORTS = ("/products/import", f"/products/import/{'0' * 32}", f"/products/import/{'0' * 32}/drop")


def test_a_viewer_reads_and_takes_away(crm, olena, viewer):
    id = chair(crm)
    report = olena.sends(sent(olena, BAD))
    page = viewer.sees("/products")
    assert "Імпорт<" not in page and "Новий товар" not in page and "Зняти з продажу" not in page
    page = viewer.sees(f"/products/{id}")
    assert "<fieldset disabled>" in page and "Зберегти" not in page and "Видалити" not in page
    for path in ("/products/export", "/products/imports", report, f"{report}/errors.csv"):
        assert viewer.get(path).status_code == 200


@pytest.mark.parametrize("path", [*CHANGES, *IMPORTS])
def test_a_viewer_changes_nothing(crm, viewer, path):
    id = chair(crm)
    page = viewer.post(path, {"name": "Інше", "price": "1", "active": "0"})
    assert page.status_code == 403
    assert product(crm, id)["name"] == "Крісло" and kinds(crm) == [events.PRODUCT_CREATED]


@pytest.mark.parametrize("path", IMPORTS[:2])
def test_a_viewer_does_not_see_the_steps_of_an_import(viewer, path):
    assert viewer.get(path).status_code == 403


@pytest.mark.parametrize(
    "path", ["/products", "/products/1", "/products/import", "/products/export"]
)
def test_a_stranger_is_sent_to_the_login(crm, path):
    page = Person(crm).get(path)
    assert page.status_code == 302 and page.location.startswith("/login")


@pytest.mark.parametrize("path", [*CHANGES, *IMPORTS])
def test_a_form_of_another_site_does_nothing(crm, olena, path):
    chair(crm)
    page = olena.open("POST", path, data={"name": "Інше", "price": "1"})
    assert page.status_code == 400
    assert kinds(crm) == [events.PRODUCT_CREATED]


def test_another_tenant_sees_nothing(crm, olena):
    chair(crm)
    report = olena.sends(sent(olena, BAD))
    ivan = Person(crm, "globex", OLENA)
    assert "CH-1" not in ivan.sees("/products") and "CH-1" not in ivan.get("/products/export").text
    for path in ("/products/1", report, f"{report}/errors.csv"):
        assert ivan.get(path).status_code == 404


def test_every_form_has_its_token(crm, olena):
    id = chair(crm)
    for path in ("/products", f"/products/{id}", "/products/import", sent(olena)):
        page = olena.sees(path)
        assert len(TOKEN.findall(page)) == page.count('method="post"')


def test_a_file_that_waits_is_small_and_few(crm, olena):
    paths = [sent(olena, f"sku,name,price\nS-{n},Стіл,1\n") for n in range(5)]
    assert len(names_of_uploads(crm.tenants)) == uploads.MAX_PER_SESSION
    assert olena.get(paths[-1]).status_code == 200


def test_the_list_of_imports_is_of_price_lists(olena, crm):
    with crm.tenants.session("acme"):
        import_file(read_file(LIST.encode(), PRODUCTS), "price.csv")
        import_file(read_file(b"name,phone\n", find_resource("leads")), "leads.csv")
    page = olena.sees("/products/imports")
    assert "price.csv" in page
    assert "leads.csv" not in page
