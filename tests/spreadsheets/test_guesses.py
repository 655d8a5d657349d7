"""Guesses of columns: none is wrong for other programs, and our own words are known (D9)."""

import itertools
from pathlib import Path

import pytest

from crm.cabinet import labels
from crm.records.columns import declared
from crm.spreadsheets import all_resources, find_resource
from crm.spreadsheets.foreign import headers
from crm.spreadsheets.foreign.aliases import aliases_of, fields_of, normalise
from crm.spreadsheets.foreign.headers import read_table
from tests.cases import loop_over

FOLDER = Path(__file__).parent.parent / "data" / "foreign"
# The headers that mean a field, looked at by eye; a column with another one must have no guess. Of
# two columns of a file for one field the one that stands first here has it.
PEOPLE = {
    "external_id": ["ID", "Record ID", "Person - ID", "Record Id", "Customer ID", "Код"],
    "created_at": [
        "Дата оформлення",
        "Create Date",
        "Person - Person created",
        "Дата создания",
        "Created Time",
        "Дата створення",
        "Date Added",
    ],
    "last_name": ["Прізвище", "Last Name", "Фамилия", "Family Name", "Person - Last name"],
    "first_name": ["Ім'я", "First Name", "Имя", "Given Name", "Person - First name"],
    "middle_name": ["По батькові", "Middle Name", "Отчество", "Additional Name"],
    "phone": [
        "Телефон",
        "Phone Number",
        "Phone 1 - Value",
        "Person - Phone - Mobile",
        "Mobile Phone",
        "Рабочий телефон",
        "Phone",
        "Person - Phone",
    ],
    "email": [
        "Email",
        "E-mail 1 - Value",
        "Person - Email - Work",
        "E-mail Address",
        "Рабочий e-mail",
        "Person - Email (Work)",
    ],
    "amount": ["Сума", "Сумма"],
    "currency": ["Валюта"],
    "assigned_to": [
        "Менеджер",
        "Contact owner",
        "Person - Owner",
        "Ответственный",
        "Lead Owner",
        "Основний менеджер",
        "Company owner",
    ],
    "comment": ["Коментар", "Notes", "Комментарий", "Description", "Note", "Нотатка"],
    "source": ["Джерело", "Original Source", "Источник", "Lead Source"],
    "utm_source": ["utm_source"],
    "status": ["Lead Status"],
    "company": [
        "Associated Company",
        "Organization Name",
        "Person - Organization",
        "Company",
        "Название компании",
        "Organization 1 - Name",
        "Organization - Name",
        "Default Address Company",
        "Компанія",
        "Company name",
    ],
    "position": ["Job Title", "Organization Title", "Должность", "Organization 1 - Title"],
    "tags": ["Labels", "Person - Label", "Tag", "Group Membership", "Tags"],
    "name": ["Person - Name", "Full Name", "Name", "Повне ім'я", "Найменування"],
    "address": [
        "Address 1 - Formatted",
        "Default Address Address1",
        "Business Street",
        "Юридична адреса",
        "Address 1",
        "Organization - Address",
    ],
    "website": ["Website 1 - Value", "Web Page", "Company Domain Name"],
    "tax_number": ["Код за ЄДРПОУ"],
    "requisites.legal_name": ["Повне найменування"],
}
DEALS = {
    "external_id": ["ID", "Deal - ID", "Id", "Record ID"],
    "created_at": [
        "Дата оформлення",
        "Deal - Deal created",
        "Дата создания сделки",
        "Created at",
        "Create Date",
    ],
    "last_name": ["Прізвище", "Person - Last name"],
    "first_name": ["Ім'я", "Person - First name"],
    "middle_name": ["По батькові"],
    "amount": ["Сума", "Deal - Value", "Бюджет", "Total", "Amount"],
    "currency": ["Валюта", "Deal - Currency of Value", "Currency"],
    "assigned_to": ["Менеджер", "Deal - Owner", "Ответственный", "Deal owner"],
    "comment": ["Коментар", "Примечание", "Notes"],
    "source": ["Джерело", "Source"],
    "title": ["Deal - Title", "Название сделки", "Deal Name"],
    "client": [
        "Deal - Organization",
        "Компания",
        "Billing Name",
        "Associated Company",
        "Organization - Name",
    ],
    "pipeline": ["Deal - Pipeline", "Воронка", "Pipeline"],
    "contact": ["Deal - Contact person", "Полное имя контакта", "Person - Name"],
    "stage": ["Deal - Stage", "Этап сделки", "Deal Stage"],
    "tags": ["Deal - Label", "Теги сделки", "Tags", "Теги"],
    "status": ["Deal - Status", "Статус"],
    "won_at": ["Deal - Won time"],
    "lost_at": ["Deal - Lost time"],
    "closed_at": ["Deal - Deal closed on"],
    "lost_reason": ["Deal - Lost reason", "Closed Lost Reason"],
    "expected_close_date": ["Deal - Expected close date", "Close Date"],
    "item_quantity": ["Lineitem quantity"],
    "item_name": ["Lineitem name"],
    "item_price": ["Lineitem price"],
    "item_sku": ["Lineitem sku"],
}
PRODUCTS = {
    "sku": ["Код_товару", "Артикул", "SKU", "Variant SKU"],
    "name": [
        "Назва_позиції_укр",
        "Номенклатура",
        "Назва (UA)",
        "Name",
        "Title",
        "Назва",
        "Название (UA)",
        "Найменування",
    ],
    "description": [
        "Опис_укр",
        "Опис товару (UA)",
        "Description",
        "Body (HTML)",
        "Описание товара (UA)",
        "Опис",
    ],
    "price": [
        "Ціна",
        "Ціна роздрібна, грн",
        "Regular price",
        "Variant Price",
        "Price",
        "Цена",
        "Ціна продажу",
    ],
    "currency": ["Валюта"],
    "unit": ["Одиниця_виміру", "Од.", "Одиниця виміру"],
    "category": [
        "Назва_групи",
        "Розділ",
        "Categories",
        "Product Category",
        "Категорія",
        "Product category",
        "Раздел",
        "Група",
    ],
    "active": ["Відображати", "Published", "Published on online store", "Отображать"],
    "handle": ["Handle", "URL handle"],
}
MEANINGS = {"leads": PEOPLE, "clients": PEOPLE, "deals": DEALS, "products": PRODUCTS}
FURTHER = {
    "phone": ["Phone 2 - Value", "Person - Phone - Work", "Business Phone"],
    "email": ["E-mail 2 Address", "Person - Email (Home)"],
    "client_phone": ["Billing Phone", "Phone", "Person - Phone", "Телефон"]
    + ["Рабочий телефон (контакт)", "Мобильный телефон (контакт)"],
    "client_email": ["Email", "Person - Email (Work)", "Person - Email (Home)"]
    + ["Рабочий email (контакт)"],
}
OTHER_DATA = ["Assistant's Phone", "Business Fax", "E-mail Display Name", "Default Address Phone"]
FILES = {  # by the numbers that begin their names
    "leads": ("01", "06", "08", "20", "24", "27", "29", "35", "38", "43"),
    "deals": ("01", "21", "28", "33", "36", "38", "41"),
    "products": ("03", "05", "23", "25", "26", "31", "34", "39", "40", "42"),
    "clients": ("06", "08", "11", "20", "22", "24", "30", "32", "35", "37", "38"),
}


def columns_of(path: Path, plural: str) -> dict[str, str]:
    """The columns of a file that mean a field of the resource."""
    resource = find_resource(plural)
    table, _ = read_table(path.read_bytes(), resource)
    columns = table.columns
    filled = {columns[at] for _, cells in table.rows for at, cell in enumerate(cells) if cell}
    fields = FURTHER.keys() & fields_of(resource).keys()
    further = {name: field for field in fields for name in FURTHER[field] if name in filled}
    other = {name: f"extra.{name}" for name in OTHER_DATA if name in filled}
    one_each = {
        next(header for header in names if header in columns): field
        for field, names in MEANINGS[plural].items()
        if field in fields_of(resource) and not set(names).isdisjoint(columns)
    }
    return other | further | one_each


COLUMNS = {
    (path.stem, plural): columns_of(path, plural)
    for plural, numbers in FILES.items()
    for path in FOLDER.glob("*.csv")
    if path.stem[:2] in numbers
}


def guesses_of(plural: str, header: list[str], *rows: list[str]) -> dict[str, str | None]:
    return {g.file: g.field for g in headers.guess(find_resource(plural), header, rows)}


@loop_over(("name", "plural"), sorted(COLUMNS))
def test_every_guess_of_a_program_s_file_is_right(name, plural):
    resource = find_resource(plural)
    table, _ = read_table((FOLDER / f"{name}.csv").read_bytes(), resource)
    guesses = headers.guess(resource, table.columns, [cells for _, cells in table.rows])
    assert {guess.file: guess.field for guess in guesses if guess.field} == COLUMNS[name, plural]


def test_every_file_is_tried():
    assert {name for name, _ in COLUMNS} == {path.stem for path in FOLDER.glob("*.csv")}


@pytest.mark.parametrize("spoken", ["uk", "en"])
@loop_over("resource", all_resources())
def test_the_labels_of_our_own_pages_are_known(crm, resource, spoken):
    with crm.test_request_context("/", headers={"Cookie": f"crm_language={spoken}"}):
        for name, field in declared(resource.record).items():
            is_own = field.label and name in resource.column_names and not name.endswith("_id")
            if is_own and name != "amount_mode":  # whose label is that of the amount
                label = labels.field(resource.singular, name)
                assert guesses_of(resource.plural, [label]) == {label: name}, label


@loop_over("resource", all_resources())
def test_an_alias_names_no_two_fields_of_equal_rank(resource):
    """Else the order of the columns, not the header, would decide."""
    for (one, texts), (other, others) in itertools.combinations(aliases_of(resource).items(), 2):
        for text in set(texts) & set(others):
            assert texts.index(text) != others.index(text), (text, one, other)


@loop_over(
    ("header", "normal"),
    [
        ("Person - E-mail:", "e mail"),
        ("  Ім’я *", "ім'я"),
        ("Імʼя", "ім'я"),
        ("НАЗВА_ПОЗИЦІЇ", "назва позиції"),
        ("Ｐｈｏｎｅ", "phone"),
        ("№ замовлення", "no замовлення"),
    ],
)
def test_headers_are_compared_without_their_spelling(header, normal):
    assert normalise(header) == normal


@loop_over(
    ("plural", "header", "field"),
    [
        ("clients", "Ел. пошта", "email"),
        ("clients", "Хто веде", "assigned_to"),
        ("clients", "Code", "external_id"),
        ("clients", "Tax Identifier/Code", "tax_number"),
        ("products", "Ціна роздр., грн", "price"),
        ("products", "Од. виміру", "unit"),
        ("deals", "Товар", "item_name"),
        ("deals", "К-сть", "item_quantity"),
        ("deals", "Ціна", "item_price"),
        ("deals", "Знижка", "item_discount"),
    ],
)
def test_headers_of_tables_by_hand_and_of_tryton_are_known(plural, header, field):
    assert guesses_of(plural, [header]) == {header: field}


@loop_over(
    ("plural", "header", "cell"),
    [
        ("leads", "Phone", "Mobile"),
        ("leads", "Name", "+380671234567"),
        ("leads", "Сума", "дві тисячі"),
        ("products", "Ціна", "за запитом"),
        ("products", "Валюта", "9.5"),
        ("leads", "Код", "олена@приклад.укр"),
        ("leads", "Штрихкод", "4820000000017"),
    ],
)
def test_cells_that_contradict_leave_a_column_unknown(plural, header, cell):
    assert guesses_of(plural, [header], [cell]) == {header: None}


def test_a_first_name_alone_is_the_whole_name():
    assert guesses_of("leads", ["Ім'я", "Телефон"])["Ім'я"] == "name"
    assert guesses_of("leads", ["Ім'я", "Прізвище"])["Ім'я"] == "first_name"


def test_a_column_with_content_goes_before_an_empty_one():
    rows = ["", "067 123 45 67"], ["", "067 123 45 68"]
    assert guesses_of("leads", ["Мобільний телефон", "Робочий телефон"], *rows) == {
        "Мобільний телефон": None,
        "Робочий телефон": "phone",
    }
