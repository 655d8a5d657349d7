"""Guesses of columns: none is wrong for other programs, and our own words are known (D9)."""

import itertools
from pathlib import Path

import pytest

from crm.cabinet import labels
from crm.records.columns import declared
from crm.spreadsheets import all_resources, find_resource
from crm.spreadsheets.foreign import headers
from crm.spreadsheets.foreign.aliases import aliases_of, fields_of, normalise, word_key, words_of
from crm.spreadsheets.foreign.headers import read_table
from tests.cases import loop_over

FOLDER = Path(__file__).parent.parent / "data" / "foreign"
# What each column is, looked at by eye; a column that is not listed must have no guess.
COLUMNS: dict[tuple[str, str], dict[str, str]] = {
    ("01-salesdrive-orders", "leads"): {
        "ID": "external_id",
        "Дата оформлення": "created_at",
        "Прізвище": "last_name",
        "Ім'я": "first_name",
        "По батькові": "middle_name",
        "Телефон": "phone",
        "Email": "email",
        "Сума": "amount",
        "Валюта": "currency",
        "Менеджер": "assigned_to",
        "Коментар": "comment",
        "Джерело": "source",
        "utm_source": "utm_source",
    },
    ("03-prom-products", "products"): {
        "Код_товару": "sku",
        "Назва_позиції_укр": "name",
        "Опис_укр": "description",
        "Ціна": "price",
        "Валюта": "currency",
        "Одиниця_виміру": "unit",
        "Назва_групи": "category",
    },
    ("05-bas-price-list", "products"): {
        "Артикул": "sku",
        "Номенклатура": "name",
        "Од.": "unit",
        "Ціна роздрібна, грн": "price",
    },
    ("06-hubspot-contacts", "leads"): {
        "Record ID": "external_id",
        "First Name": "first_name",
        "Last Name": "last_name",
        "Email": "email",
        "Phone Number": "phone",
        "Contact owner": "assigned_to",
        "Lead Status": "status",
        "Create Date": "created_at",
        "Associated Company": "company",
        "Job Title": "position",
        "Original Source": "source",
    },
    ("08-google-contacts", "clients"): {
        "First Name": "first_name",
        "Middle Name": "middle_name",
        "Last Name": "last_name",
        "Organization Name": "company",
        "Notes": "comment",
        "Labels": "tags",
        "E-mail 1 - Value": "email",
        "Phone 1 - Value": "phone",
        "Address 1 - Formatted": "address",
        "Website 1 - Value": "website",
    },
    ("11-shopify-customers", "clients"): {
        "Customer ID": "external_id",
        "First Name": "first_name",
        "Last Name": "last_name",
        "Email": "email",
        "Default Address Company": "company",
        "Default Address Address1": "address",
        "Phone": "phone",
        "Note": "comment",
        "Tags": "tags",
    },
    ("20-pipedrive-people", "leads"): {
        "Person - Name": "name",
        "Person - Label": "tags",
        "Person - Organization": "company",
        "Person - Email - Work": "email",
        "Person - Phone - Mobile": "phone",
        "Person - Owner": "assigned_to",
        "Person - ID": "external_id",
        "Person - Person created": "created_at",
    },
    ("21-pipedrive-deals", "deals"): {
        "Deal - ID": "external_id",
        "Deal - Title": "title",
        "Deal - Owner": "assigned_to",
        "Deal - Value": "amount",
        "Deal - Currency of Value": "currency",
        "Deal - Organization": "client",
        "Deal - Pipeline": "pipeline",
        "Deal - Contact person": "contact",
        "Deal - Stage": "stage",
        "Deal - Label": "tags",
        "Deal - Status": "status",
        "Deal - Deal created": "created_at",
        "Deal - Deal closed on": "closed_at",
        "Deal - Lost reason": "lost_reason",
        "Deal - Expected close date": "expected_close_date",
    },
    ("22-keycrm-buyers", "clients"): {
        "ID": "external_id",
        "Повне ім'я": "name",
        "Компанія": "company",
        "Менеджер": "assigned_to",
        "Нотатка": "comment",
        "Телефон": "phone",
        "Email": "email",
        "Дата створення": "created_at",
    },
    ("23-horoshop-products", "products"): {
        "Артикул": "sku",
        "Назва (UA)": "name",
        "Розділ": "category",
        "Ціна": "price",
        "Валюта": "currency",
        "Відображати": "active",
        "Опис товару (UA)": "description",
    },
    ("24-outlook-contacts", "leads"): {
        "First Name": "first_name",
        "Middle Name": "middle_name",
        "Last Name": "last_name",
        "Company": "company",
        "Job Title": "position",
        "Mobile Phone": "phone",
        "E-mail Address": "email",
        "Notes": "comment",
    },
    ("25-woocommerce-products", "products"): {
        "SKU": "sku",
        "Name": "name",
        "Published": "active",
        "Description": "description",
        "Regular price": "price",
        "Categories": "category",
    },
    ("26-shopify-products", "products"): {
        "Handle": "handle",
        "Title": "name",
        "Body (HTML)": "description",
        "Product Category": "category",
        "Published": "active",
        "Variant SKU": "sku",
        "Variant Price": "price",
    },
    ("27-bitrix24-leads", "leads"): {
        "ID": "external_id",
        "Имя": "first_name",
        "Отчество": "middle_name",
        "Фамилия": "last_name",
        "Рабочий телефон": "phone",
        "Рабочий e-mail": "email",
        "Название компании": "company",
        "Должность": "position",
        "Комментарий": "comment",
        "Источник": "source",
        "Сумма": "amount",
        "Валюта": "currency",
        "Дата создания": "created_at",
        "Ответственный": "assigned_to",
    },
    ("28-amocrm-deals", "deals"): {
        "ID": "external_id",
        "Название сделки": "title",
        "Бюджет": "amount",
        "Ответственный": "assigned_to",
        "Дата создания сделки": "created_at",
        "Теги сделки": "tags",
        "Примечание": "comment",
        "Этап сделки": "stage",
        "Воронка": "pipeline",
        "Полное имя контакта": "contact",
        "Компания": "client",
    },
    ("29-zoho-leads", "leads"): {
        "Record Id": "external_id",
        "Lead Owner": "assigned_to",
        "Company": "company",
        "First Name": "first_name",
        "Last Name": "last_name",
        "Email": "email",
        "Phone": "phone",
        "Lead Source": "source",
        "Lead Status": "status",
        "Created Time": "created_at",
        "Full Name": "name",
        "Tag": "tags",
        "Description": "comment",
    },
    ("30-1c-customers", "clients"): {
        "Код": "external_id",
        "Найменування": "name",
        "Код за ЄДРПОУ": "tax_number",
        "Юридична адреса": "address",
        "Телефон": "phone",
        "Основний менеджер": "assigned_to",
    },
    ("32-jetpack-crm-contacts", "clients"): {
        "First Name": "first_name",
        "Last Name": "last_name",
        "Email": "email",
        "Address 1": "address",
        "Date Added": "created_at",
    },
    ("31-keycrm-products", "products"): {
        "Назва": "name",
        "Артикул": "sku",
        "Ціна": "price",
        "Валюта": "currency",
        "Категорія": "category",
        "Одиниця виміру": "unit",
        "Опис": "description",
    },
    ("33-shopify-orders", "deals"): {
        "Currency": "currency",
        "Total": "amount",
        "Created at": "created_at",
        "Lineitem quantity": "item_quantity",
        "Lineitem name": "item_name",
        "Lineitem price": "item_price",
        "Lineitem sku": "item_sku",
        "Billing Name": "client",
        "Notes": "comment",
        "Id": "external_id",
        "Tags": "tags",
        "Source": "source",
    },
    ("34-shopify-products-2024", "products"): {
        "Title": "name",
        "URL handle": "handle",
        "Description": "description",
        "Product category": "category",
        "Published on online store": "active",
        "SKU": "sku",
        "Price": "price",
    },
    ("35-google-contacts-before-2024", "clients"): {
        "Name": "name",
        "Given Name": "first_name",
        "Additional Name": "middle_name",
        "Family Name": "last_name",
        "Notes": "comment",
        "Group Membership": "tags",
        "E-mail 1 - Value": "email",
        "Phone 1 - Value": "phone",
        "Address 1 - Formatted": "address",
        "Organization 1 - Name": "company",
    },
    ("36-hubspot-deals", "deals"): {
        "Record ID": "external_id",
        "Deal Name": "title",
        "Deal Stage": "stage",
        "Close Date": "expected_close_date",
        "Deal owner": "assigned_to",
        "Amount": "amount",
        "Pipeline": "pipeline",
        "Create Date": "created_at",
        "Associated Company": "client",
        "Closed Lost Reason": "lost_reason",
    },
    ("37-hubspot-companies", "clients"): {
        "Record ID": "external_id",
        "Company name": "company",
        "Company owner": "assigned_to",
        "Create Date": "created_at",
        "Phone Number": "phone",
        "Company Domain Name": "website",
    },
    ("38-pipedrive-template", "deals"): {
        "Person - Name": "contact",
        "Person - First name": "first_name",
        "Person - Last name": "last_name",
        "Organization - Name": "client",
        "Deal - Title": "title",
        "Deal - Value": "amount",
        "Deal - Stage": "stage",
    },
    ("39-horoshop-export", "products"): {
        "Артикул": "sku",
        "Название (UA)": "name",
        "Раздел": "category",
        "Цена": "price",
        "Валюта": "currency",
        "Отображать": "active",
        "Описание товара (UA)": "description",
    },
    ("42-cashalot-products", "products"): {
        "Артикул": "sku",
        "Найменування": "name",
        "Ціна продажу": "price",
        "Одиниця виміру": "unit",
        "Група": "category",
    },
    ("43-zoho-leads-import", "leads"): {
        "First Name": "first_name",
        "Last Name": "last_name",
        "Company": "company",
        "Phone": "phone",
        "Email": "email",
        "Lead Source": "source",
        "Lead Status": "status",
        "Description": "comment",
    },
}
COLUMNS["40-prom-export", "products"] = COLUMNS["03-prom-products", "products"]
COLUMNS["41-amocrm-export", "deals"] = {
    column.replace("Теги сделки", "Теги"): field
    for column, field in COLUMNS["28-amocrm-deals", "deals"].items()
}


def guesses_of(plural: str, header: list[str], *rows: list[str]) -> dict[str, str | None]:
    return {g.file: g.field for g in headers.guess(find_resource(plural), header, rows)}


@loop_over(("name", "plural"), sorted(COLUMNS))
def test_every_guess_of_a_program_s_file_is_right(name, plural):
    resource = find_resource(plural)
    table = read_table((FOLDER / f"{name}.csv").read_bytes(), resource)
    found = headers.guess(resource, table.columns, [cells for _, cells in table.rows])
    assert {guess.file: guess.field for guess in found if guess.field} == COLUMNS[name, plural]


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


@pytest.mark.parametrize("spoken", ["uk", "en"])
@loop_over("resource", all_resources())
def test_the_words_of_our_own_choices_are_known(crm, resource, spoken):
    with crm.test_request_context("/", headers={"Cookie": f"crm_language={spoken}"}):
        for name in resource.column_names:
            for value, label in labels.choices(resource.singular, name).items():
                words = words_of(resource, name)
                assert words[word_key(value)] == words[word_key(label)] == value


@loop_over("resource", all_resources())
def test_an_alias_names_no_two_fields_of_equal_rank(resource):
    """Else the order of the columns, not the header, would decide."""
    for (one, texts), (other, others) in itertools.combinations(aliases_of(resource).items(), 2):
        for text in set(texts) & set(others):
            assert texts.index(text) != others.index(text), (text, one, other)


@loop_over("resource", all_resources())
def test_no_field_is_given_twice_whatever_the_header(resource):
    every = [text for texts in aliases_of(resource).values() for text in texts]
    fields = [g.field for g in headers.guess(resource, every, []) if g.field]
    assert len(fields) == len(set(fields)) and set(fields) <= fields_of(resource).keys()


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
    ("plural", "header", "cell"),
    [
        ("leads", "Phone", "Mobile"),
        ("leads", "E-mail", "так"),
        ("leads", "Name", "+380671234567"),
        ("leads", "Name", "olena@example.ua"),
        ("leads", "Сума", "дві тисячі"),
        ("leads", "Дата створення", "вчора"),
        ("leads", "Статус", "Продаж"),
        ("leads", "Company", "9001"),
        ("products", "Ціна", "за запитом"),
        ("products", "Published", "visible"),
        ("products", "Валюта", "9.5"),
        ("leads", "ID", "2024-03-11"),
        ("leads", "Business Fax", "+380441110001"),
        ("leads", "Assistant's Phone", "+380441110001"),
        ("leads", "Owner e-mail", "olena@example.ua"),
        ("leads", "Код", "олена@приклад.укр"),
        ("leads", "Order", "0671234567"),
        ("leads", "Штрихкод", "4820000000017"),
    ],
)
def test_cells_that_contradict_leave_a_column_unknown(plural, header, cell):
    assert guesses_of(plural, [header], [cell]) == {header: None}


def test_values_tell_a_phone_and_an_email_where_the_header_says_nothing():
    rows = ["067 123 45 67", "olena@example.ua"], ["+380501234567", "taras@example.ua"]
    assert guesses_of("leads", ["Column1", "Поле 2"], *rows) == {
        "Column1": "phone",
        "Поле 2": "email",
    }
    assert guesses_of("leads", ["Ваш телефон", "x"], *rows)["Ваш телефон"] == "phone"
    two = guesses_of("leads", ["Тел. дружини", "Тел. чоловіка"], ["067 123 45 67"] * 2)
    assert set(two.values()) == {None}


def test_a_first_name_alone_is_the_whole_name():
    assert guesses_of("leads", ["Ім'я", "Телефон"])["Ім'я"] == "name"
    assert guesses_of("leads", ["Ім'я", "Прізвище"])["Ім'я"] == "first_name"


def test_a_column_with_content_goes_before_an_empty_one():
    rows = ["", "067 123 45 67"], ["", "067 123 45 68"]
    assert guesses_of("leads", ["Мобільний телефон", "Робочий телефон"], *rows) == {
        "Мобільний телефон": None,
        "Робочий телефон": "phone",
    }
