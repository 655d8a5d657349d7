"""Files of other programs through the API: a mapping of columns, values as written (D9)."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from crm.spreadsheets import all_resources
from crm.spreadsheets.cells import date_order, split_money
from crm.spreadsheets.foreign import headers
from crm.spreadsheets.foreign.aliases import fields_of, normalise
from crm.spreadsheets.labels import MAX_CHARACTERS, word_key
from crm.storage import chunks
from crm.values import InvalidValue
from tests.cases import loop_over
from tests.conftest import TARAS, Api, key_for
from tests.csv_helpers import said, send

FOLDER = Path(__file__).parent.parent / "data" / "foreign"


def post(api: Api, path: str, data: bytes | str, **parts: str) -> Any:
    content = data if isinstance(data, bytes) else data.encode()
    return api.call("POST", path, data={"file": (io.BytesIO(content), "file.csv"), **parts})


def guessed(api: Api, plural: str, data: bytes | str) -> dict[str, str | None]:
    answer = post(api, f"/{plural}/import/preview", data)
    assert answer.status_code == 200, answer.text
    return {column["file"]: column["field"] for column in answer.json["columns"]}


def load(api: Api, plural: str, data: bytes | str, mapping: Any = None, **parts: str) -> Any:
    """Import a file by a mapping, by default the guessed one."""
    mapping = guessed(api, plural, data) if mapping is None else mapping
    return post(api, f"/{plural}/import", data, mapping=json.dumps(mapping), **parts)


def faults(answer: Any) -> list[tuple[str, str]]:
    return [
        (fault.get("pointer", fault.get("parameter")), fault["code"])
        for fault in answer.json["errors"]
    ]


def file(name: str) -> bytes:
    (path,) = FOLDER.glob(f"{name}-*.csv")
    return path.read_bytes()


def errors(api: Api, answer: Any) -> list[tuple[int, str | None, str]]:
    report = api.get(answer.headers["Location"].partition("/api/v1")[2]).json
    return [(error["line"], error["column"], error["code"]) for error in report["errors"]]


def records(api: Api, plural: str, *names: str) -> list[tuple[Any, ...]]:
    """Those fields of all records, in the order they were made."""
    answer = api.get(f"/{plural}?limit=200")
    listed = sorted(answer.json["data"], key=lambda record: int(record["id"]))
    return [tuple(record[name] for name in names) for record in listed]


# The files of programs


def test_a_printed_price_list_of_1c(api):
    preview = post(api, "/products/import/preview", file("05")).json
    assert (preview["header_line"], preview["entries"], preview["left_out"]) == (5, 3, 3)
    assert (preview["encoding"], preview["delimiter"]) == ("windows-1251", ";")
    answer = load(api, "products", file("05"))
    assert said(answer) == (2, 0, 1)
    assert errors(api, answer) == [(10, "sku", "required")]
    assert records(api, "products", "sku", "price") == [("СТ-1", 12500), ("00-00000012", 1250.5)]


def test_contacts_of_google(api):
    assert said(load(api, "clients", file("08"))) == (3, 0, 0)
    assert records(api, "clients", "name", "type", "tags", "extra") == [
        ("Олена Коваль", "person", ["Клієнти"], {"company": "ТОВ Ромашка"}),
        ("Нова Пошта", "company", [], {}),
        ("Мама", "person", [], {}),
    ]
    phones = ["+380441234567", "+380501234567"]
    assert contacts(api) == [("Олена Коваль", phone, None) for phone in phones]


def test_products_of_shopify_have_their_variants_and_no_pictures(api):
    assert post(api, "/products/import/preview", file("26")).json["left_out"] == 1
    assert said(load(api, "products", file("26"))) == (3, 0, 0)
    assert records(api, "products", "sku", "name", "price", "category", "active") == [
        ("EX-S", "Example T-Shirt", 250, "Apparel & Accessories > Clothing", True),
        ("EX-M", "Example T-Shirt", 255.5, "Apparel & Accessories > Clothing", True),
        ("example-pants", "Example Pants", 490, "Apparel & Accessories > Clothing", False),
    ]


def test_further_rows_of_tryton_s_parties_are_no_records(api):
    text = "Code,Full Name,Contact Mechanisms/Type,Contact Mechanisms/Value,Phone,Mobile\n"
    text += "1,ТОВ Ромашка,phone,044,+380441234567,0501112233\n,,mobile,050,,\n2,Марія,,,,\n"
    answer = load(api, "clients", text)
    assert said(answer) == (2, 0, 0), errors(api, answer)
    assert contacts(api) == [("ТОВ Ромашка", "+380501112233", None)]
    assert len(answer.json["left_out_columns"]) == 2


def test_orders_of_salesdrive_make_their_customers(api):
    answer = load(api, "deals", file("01"), unknown_references="create")
    assert said(answer) == (3, 0, 0), errors(api, answer)
    assert records(api, "clients", "name", "type", "phone", "email") == [
        ("Олена Іванівна Коваль", "person", "+380671234567", "olena@example.ua"),
        ("Ігор Бондар", "person", "+380501234567", None),
        ("Марія Шевчук", "person", "+380677654321", "maria@example.ua"),
    ]
    deals = records(api, "deals", "client_name", "status", "closed_at")
    assert [deal[1:] for deal in deals] == [
        ("won", "2024-03-11T08:12:45Z"),
        ("lost", "2024-03-12T07:00:00Z"),
        ("open", None),
    ]
    more = "ID;ПІБ покупця;Телефон;Сума\n1;Олена;0671234567;5\n2;;0931234567;5\n"
    more += "3;Ігор Бондар;0931234568;5\n"
    for counts in ((3, 0, 0), (0, 0, 3)):
        assert said(load(api, "deals", more, unknown_references="create")) == counts
    assert [name for (name,) in records(api, "deals", "client_name")[3:]] == [
        *("Олена Іванівна Коваль", "+380931234567", "Ігор Бондар")
    ]
    assert len(records(api, "clients", "id")) == 5


def test_an_order_s_phone_is_that_of_its_contact_beside_a_company(api):
    text = "Компанія;Контактна особа;Телефон;Won time;Lost time;Статус;Дата створення\n"
    text += "ТОВ Ромашка;Марія;0671234567;2024-03-05;2024-03-06;Lost;2024-03-01\n"
    answer = load(api, "deals", text, unknown_references="create")
    assert said(answer) == (1, 0, 0), errors(api, answer)
    assert records(api, "clients", "name", "type", "phone") == [("ТОВ Ромашка", "company", None)]
    assert contacts(api) == [("Марія", "+380671234567", None)]
    assert records(api, "deals", "closed_at") == [("2024-03-05T22:00:00Z",)]


def test_an_unknown_pipeline_is_an_error_whatever_is_created(api):
    text = "Клієнт;Воронка\nА;Інша\n"
    answer = load(api, "deals", text, unknown_references="create")
    assert errors(api, answer) == [(2, "pipeline", "not_found")]


def test_orders_of_shopify_are_deals_with_their_lines(api):
    answer = load(api, "deals", file("33"), unknown_references="create")
    assert said(answer) == (2, 0, 0), errors(api, answer)
    assert records(api, "deals", "external_id", "client_name", "amount", "items_count", "tags") == [
        ("5712345678901", "Олена Коваль", 25350, 2, ["vip", "опт"]),
        ("5712345678902", "Ігор Бондар", 5002.5, 1, []),
    ]
    (id,) = records(api, "deals", "id")[0]
    lines = api.get(f"/deals/{id}/items").json["data"]
    assert [(line["sku"], line["quantity"], line["total"]) for line in lines] == [
        ("СТ-1", 2, 24000),
        ("СЛ-1", 1, 1100),
    ]


# Mappings


def test_without_a_mapping_a_foreign_header_is_refused_as_ever(api):
    answer = send(api, "leads", file("06"))
    assert (answer.status_code, answer.json["code"]) == (422, "unknown_column")
    assert said(send(api, "leads", "name,phone\nОлена,067 123 45 67\n")) == (1, 0, 0)


@loop_over("header", ["sku,name,price,active", "Артикул,Назва,Ціна,У продажу"])
def test_cells_under_our_own_header_are_read_as_all_are(api, header):
    rows = """A1,Дриль,"1 250,50 ₴",БРЕХНЯ
4\N{FULLWIDTH DIGIT EIGHT},Стіл,5,ХИБНІСТЬ
"4,82E+12",Стіл,5,ІСТИНА
A4,#N/A,5,TRUE
A5,Стіл,#REF!,+
A6,5%,$5,
A7,5%,5,да
A\N{ZERO WIDTH SPACE}1,Полиця,5,
"""
    damages = [(4, "sku", "excel_shortened"), (5, "name", "excel_error")]
    damages += [(6, "price", "excel_error"), (7, "price", "other_currency")]
    damages += [(9, "sku", "duplicate_in_file")]
    assert errors(api, send(api, "products", f"{header}\n{rows}")) == damages
    assert records(api, "products", "sku", "name", "price", "active") == [
        ("A1", "Дриль", 1250.5, False),
        ("4８", "Стіл", 5, False),
        ("A7", "5%", 5, True),
    ]


def test_a_mapping_says_what_goes_where(api):
    text = "Хто,Чим,Зайве,Розмір,Пусте,Інше\nОлена,067 123 45 67,щось,XL, ,ще\n"
    mapping = {"Хто": "name", "Чим": "phone", "Зайве": None, "Розмір": "extra.розмір"}
    answer = load(api, "leads", text, mapping)
    assert said(answer) == (1, 0, 0)
    report = api.get(answer.headers["Location"].partition("/api/v1")[2]).json
    assert answer.json["left_out_columns"] == report["left_out_columns"] == ["Зайве", "Інше"]
    assert records(api, "leads", "name", "phone", "extra") == [
        ("Олена", "+380671234567", {"розмір": "XL"})
    ]


def test_other_data_is_added_to_what_a_record_has(api):
    text = "Номер,Хто,Чим,{0}\n7,Олена,067 123 45 67,{1}\n"
    mapping = {"Номер": "external_id", "Хто": "name", "Чим": "phone"}
    load(api, "leads", text.format("a", "1"), mapping | {"a": "extra.a"})
    assert said(load(api, "leads", text.format("b", "2"), mapping | {"b": "extra.b"})) == (0, 1, 0)
    assert records(api, "leads", "extra") == [({"a": "1", "b": "2"},)]
    own = 'external_id,extra\n7,"{""b"": null, ""c"": 3}"\n'
    assert said(send(api, "leads", own)) == (0, 1, 0)
    assert records(api, "leads", "extra") == [({"a": "1", "c": 3},)]
    assert said(send(api, "leads", "external_id,extra\n7,{}\n")) == (0, 0, 1)
    keys = ", ".join(f'""k{number}"": 1' for number in range(49))
    full = send(api, "leads", f'external_id,extra\n7,"{{{keys}}}"\n')
    assert errors(api, full) == [(2, "extra", "too_many")]


@loop_over(
    ("mapping", "pointer", "code", "words"),
    [
        ({"Хто": "nmae"}, "/mapping/Хто", "unknown_field", ["Хто", "nmae"]),
        ({"Хто": "extra."}, "/mapping/Хто", "unknown_field", ["Хто"]),
        ({"Хто": "name", "Чим": "name"}, "/mapping/Чим", "duplicate_column", ["Хто", "Чим"]),
        ({"Нема": "name"}, "/mapping/Нема", "unknown_column", ["Нема"]),
    ],
)
def test_a_wrong_mapping_is_refused_by_its_column(api, mapping, pointer, code, words):
    answer = load(api, "leads", "Хто,Чим\nОлена,067 123 45 67\n", mapping)
    assert answer.status_code == 422
    (fault,) = answer.json["errors"]
    assert (fault["pointer"], fault["code"]) == (pointer, code)
    assert all(word in fault["detail"] for word in words)
    assert records(api, "leads", "id") == []


@loop_over("text", ["[]", "{", '{"a": 1}', "null", '"name"'])
def test_a_mapping_is_an_object_of_names(api, text):
    answer = post(api, "/leads/import", "Хто\nя\n", mapping=text)
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (422, "invalid_json")


def test_options_may_be_parameters_or_parts_and_other_parts_are_refused(api):
    text = "name,phone\nОлена,067 123 45 67\n"
    assert said(send(api, "leads", text)) == (1, 0, 0)
    for answer in (
        post(api, "/leads/import?key=phone", text),
        post(api, "/leads/import", text, key="phone"),
    ):
        assert said(answer) == (0, 0, 1)
    assert post(api, "/leads/import", text, kee="phone").json["errors"][0]["pointer"] == "/kee"


def test_rejected_rows_have_the_columns_of_their_file_and_come_back_by_its_mapping(api):
    text = "Прайс 2026;;;\nКод;Товар;Ціна;Склад\nA;Стіл;12 500 грн;Київ\nB;=Шафа;5 USD;Львів\n"
    mapping = {"Код": "sku", "Товар": "name", "Ціна": "price", "Склад": None}
    answer = load(api, "products", text, mapping)
    assert said(answer) == (1, 0, 1)
    id = answer.headers["Location"].rpartition("/")[2]
    rejected = api.get(f"/imports/{id}/errors.csv").data.decode("utf-8-sig")
    header, row = rejected.splitlines()
    assert header == "error;Код;Товар;Ціна;Склад"
    assert row.endswith(";B;'=Шафа;5 USD;Львів")
    preview = post(api, "/products/import/preview", rejected).json
    assert [column["file"] for column in preview["columns"]] == [*mapping]
    assert said(load(api, "products", rejected.replace("5 USD", "200"), mapping)) == (1, 0, 0)
    assert records(api, "products", "sku", "name", "price")[-1] == ("B", "=Шафа", 200)


# What a key and an empty cell mean


@loop_over(
    ("plural", "key", "header", "first", "second"),
    [
        ("leads", "phone", "name,phone", "Олена,067 123 45 60", "Оля,+380671234560"),
        ("leads", "email", "name,email", "Олена,olena@example.ua", "Оля,OLENA@example.ua"),
        ("clients", "tax_number", "name,tax_number", "Ромашка,12345678", "ТОВ,12345678"),
        ("leads", "external_id", "name,phone,external_id", "А,0671234567,1", "Б,0671234567,1"),
    ],
)
def test_a_key_finds_the_record(api, plural, key, header, first, second):
    assert said(send(api, plural, f"{header}\n{first}\n")) == (1, 0, 0)
    answer = send(api, plural, f"{header}\n{second}\n", f"?key={key}&known=skip")
    assert said(answer) == (0, 0, 1)
    assert records(api, plural, "name")[-1] == (first.partition(",")[0],)
    assert said(send(api, plural, f"{header}\n{second}\n", f"?key={key}")) == (0, 1, 0)
    assert records(api, plural, "name")[-1] == (second.partition(",")[0],)
    if key != "external_id":
        assert said(send(api, plural, f"{header}\n{second}\n")) == (1, 0, 0)
        answer = send(api, plural, f"{header}\n{second}\n", f"?key={key}")
        assert errors(api, answer) == [(2, key, "ambiguous")]


@loop_over("plural", ["leads", "clients"])
def test_a_new_record_without_a_name_is_called_by_its_phone_and_a_known_one_as_ever(api, plural):
    text = "Телефон;ПІБ\n067 123 45 67;{}\n"
    assert said(load(api, plural, "Телефон\n0671234568\n")) == (1, 0, 0)
    assert said(load(api, plural, text.format("Олена"))) == (1, 0, 0)
    assert said(load(api, plural, text.format(""), key="phone")) == (0, 0, 1)
    assert records(api, plural, "name") == [("+380671234568",), ("Олена",)]


def test_the_phone_of_a_contact_finds_the_client_and_renames_nobody(api):
    send(api, "clients", "name,contact_name,contact_phone\nРомашка,Марія,0671234567\n")
    text = "name,phone,email,comment\nМарія,067 123 45 67,,{}\n"
    for query, counts in (("", (0, 1, 0)), ("&on_empty=clear", (0, 0, 1))):
        assert said(send(api, "clients", text.format("vip"), f"?key=phone{query}")) == counts
        assert records(api, "clients", "name", "phone", "comment") == [("Ромашка", None, "vip")]


def test_a_key_that_the_resource_or_the_file_lacks_is_refused(api):
    for query in ("?key=sku", "?key=email", "?key=nonsense"):
        assert send(api, "leads", "name,phone\nА,0671234567\n", query).status_code == 422


def test_a_row_without_the_key_is_a_new_record(api):
    text = "name,phone,email\nА,0671234567,\nБ,,b@example.ua\n"
    assert said(send(api, "leads", text, "?key=phone")) == (2, 0, 0)
    assert said(send(api, "leads", text, "?key=phone")) == (1, 0, 1)


def test_the_same_key_twice_in_a_file_is_told(api):
    text = "name,phone\nА,0671234567\nБ,067 123 45 67\n"
    answer = send(api, "leads", text, "?key=phone")
    assert errors(api, answer) == [(3, "phone", "duplicate_in_file")]


@loop_over(
    ("plural", "header", "full", "empty", "name"),
    [
        ("tasks", "external_id,title,description", "1,А,нотатка", "1,А,", "description"),
        ("products", "sku,name,price,unit", "1,А,5,шт", "1,А,5,", "unit"),
    ],
)
def test_an_empty_cell_keeps_or_clears(api, plural, header, full, empty, name):
    send(api, plural, f"{header}\n{full}\n")
    assert said(send(api, plural, f"{header}\n{empty}\n")) == (0, 0, 1)
    assert said(send(api, plural, f"{header}\n{empty}\n", "?on_empty=clear")) == (0, 1, 0)
    assert records(api, plural, name) == [(None,)]
    assert said(send(api, plural, f"{header}\n{empty}\n", "?on_empty=clear")) == (0, 0, 1)


def test_a_required_field_and_a_missing_column_are_never_cleared(api):
    send(api, "leads", "external_id,name,phone,company\n1,А,0671234567,ТОВ\n")
    text = "external_id,name,phone\n1,,0671234567\n"
    assert said(send(api, "leads", text, "?on_empty=clear")) == (0, 0, 1)
    assert records(api, "leads", "name", "company") == [("А", "ТОВ")]


# Values


@loop_over(
    ("cell", "price"),
    [
        ("12 500 грн", 12500),
        ("₴12\u00a0500.50", 12500.5),
        ("1.250,00 грн.", 1250),
        ("5 USD", "other_currency"),
        ("5 $ ₴", "invalid_number"),
        ("за запитом", "invalid_number"),
        ("4,82E+12", "excel_shortened"),
        ("#N/A", "excel_error"),
    ],
)
def test_prices_as_people_write_them(api, cell, price):
    mapping = {"Код": "sku", "Назва": "name", "Ціна": "price"}
    answer = load(api, "products", f'Код;Назва;Ціна\nA{cell};Стіл;"{cell}"\n', mapping)
    if isinstance(price, str):
        assert errors(api, answer) == [(2, "price", price)]
    else:
        assert said(answer) == (1, 0, 0)
        assert records(api, "products", "price")[-1] == (price,)


def test_a_price_of_another_currency_is_the_row_s_error(api):
    text = "Код;Назва;Ціна;Валюта\nA;Стіл;5;USD\nB;Шафа;5;грн\nC;Стілець;5;\n"
    answer = load(api, "products", text)
    assert errors(api, answer) == [(2, "price", "other_currency")]
    assert records(api, "products", "sku") == [("B",), ("C",)]


@loop_over(
    ("cells", "order"),
    [
        (["03/04/2026", "13/04/2026"], "day"),
        (["03/04/2026", "04/13/2026"], "month"),
        (["03/04/2026"], "either"),
        (["03.04.2026", "2026-04-03"], None),
        (["", "x"], None),
    ],
)
def test_the_order_of_dates_is_told_by_all_of_them(cells, order):
    assert date_order(cells) == order


@loop_over(
    ("cell", "moment"),
    [
        ("11.03.2024 10:12:45", "2024-03-11T08:12:45Z"),
        ("11.03.2024", "2024-03-10T22:00:00Z"),
        ("2024-03-11 10:12", "2024-03-11T08:12:00Z"),
        ("2024-03-11 10:12:45 +0100", "2024-03-11T09:12:45Z"),
        ("3/15/2024 2:30 PM", "2024-03-15T12:30:00Z"),
        ("3/15/2024 12:30 am", "2024-03-14T22:30:00Z"),
        ("31.02.2024", "invalid_date"),
        ("вчора", "invalid_date"),
    ],
)
def test_times_without_a_zone_are_those_of_the_tenant(api, cell, moment):
    mapping = {"ПІБ": "name", "Телефон": "phone", "Дата": "created_at"}
    answer = load(api, "leads", f"ПІБ;Телефон;Дата\nА;0671234567;{cell}\n", mapping)
    if moment == "invalid_date":
        assert errors(api, answer) == [(2, "created_at", moment)]
    else:
        assert records(api, "leads", "created_at")[-1] == (moment,)


def test_the_order_of_dates_is_asked_where_nothing_tells_it(api):
    text = "ПІБ;Телефон;Дата створення\nА;0671234567;03/04/2024\n"
    answer = load(api, "leads", text)
    (fault,) = answer.json["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, "/date_order")
    for order, day in (("day", "2024-04-02"), ("month", "2024-03-03")):
        assert said(load(api, "leads", text, date_order=order)) == (1, 0, 0)
        assert records(api, "leads", "created_at")[-1][0].startswith(day)


@loop_over(
    ("plural", "header", "row", "name", "value"),
    [
        ("products", "Код;Назва;Ціна;Показувати", "A;Стіл;5;-", "active", False),
        ("products", "Код;Назва;Ціна;Показувати", "B;Стіл;5;+", "active", True),
        ("leads", "ПІБ;Телефон;Статус", "А;0671234567;В роботі", "status", "in_progress"),
        ("leads", "ПІБ;Телефон;Статус", "А;0671234568;OPEN_DEAL", "status", "in_progress"),
        ("tasks", "Назва;Пріоритет", "А;Високий", "priority", "high"),
    ],
)
def test_choices_in_people_s_words(api, plural, header, row, name, value):
    answer = load(api, plural, f"{header}\n{row}\n")
    assert said(answer) == (1, 0, 0), errors(api, answer)
    assert records(api, plural, name)[-1] == (value,)


def test_the_first_phone_and_email_of_a_cell_count_and_the_others_are_kept(api):
    text = (
        "ПІБ|Телефон|Email\n"
        "А|067 123 45 67, 044 123 45 67; 050 123 45 67|a@example.ua ::: b@example.ua"
    ).replace("|", "\t")
    assert said(load(api, "leads", text)) == (1, 0, 0)
    assert records(api, "leads", "phone", "email", "extra") == [
        (
            "+380671234567",
            "a@example.ua",
            {"phone 2": "044 123 45 67", "phone 3": "050 123 45 67", "email 2": "b@example.ua"},
        )
    ]


def contacts(api: Api) -> list[tuple[Any, ...]]:
    """The contacts of the first client."""
    (id,) = records(api, "clients", "id")[0]
    found = api.read(f"/clients/{id}")["contacts"]
    return [(contact["name"], contact["phone"], contact["email"]) for contact in found]


def test_further_phones_of_a_client_are_its_contacts(api):
    text = (
        "ПІБ|Телефон|Email|ID\n"
        "А|067 123 45 67, 044 123 45 67; 050 123 45 67, дом.|a@example.ua ::: b@example.ua|1"
    ).replace("|", "\t")
    for counts in ((1, 0, 0), (0, 0, 1)):
        assert said(load(api, "clients", text)) == counts
        assert records(api, "clients", "phone", "email", "extra") == [
            ("+380671234567", "a@example.ua", {"phone 4": "дом."})
        ]
        assert contacts(api) == [
            ("А", "+380441234567", "b@example.ua"),
            ("А", "+380501234567", None),
        ]


def test_further_columns_of_phones_and_emails_are_as_further_ones_of_a_cell(api):
    """The best header is the field's; a number twice is one."""
    text = (
        "ПІБ;Робочий телефон;Мобільний;Phone 2;Факс;Email;Email 2\n"
        "А;044 123 45 67;067 123 45 67;'+380671234567;044 123 45 60;;b@example.ua\n"
        "Б;044 123 45 68;;;;;\n"
    )
    assert said(load(api, "clients", text)) == (2, 0, 0)
    assert records(api, "clients", "phone", "email", "extra") == [
        ("+380671234567", "b@example.ua", {"Факс": "044 123 45 60"}),
        ("+380441234568", None, {}),
    ]
    assert contacts(api) == [("А", "+380441234567", None)]
    assert said(load(api, "leads", text)) == (2, 0, 0)
    assert records(api, "leads", "extra")[0] == (
        {"phone 2": "044 123 45 67", "Факс": "044 123 45 60"},
    )


def test_a_file_with_contacts_of_its_own_gets_no_further_ones(api):
    text = "ПІБ;Телефон;contact_name\nА;067 123 45 67, 044 123 45 67;Б\n"
    mapping = {"ПІБ": "name", "Телефон": "phone", "contact_name": "contact_name"}
    assert said(load(api, "clients", text, mapping)) == (1, 0, 0)
    assert contacts(api) == [("Б", None, None)]
    assert records(api, "clients", "extra") == [({"phone 2": "044 123 45 67"},)]


@loop_over(
    ("row", "name"),
    [
        ("Коваль;Олена;Іванівна;ТОВ;a@example.ua", "Олена Іванівна Коваль"),
        (";Олена;;ТОВ;a@example.ua", "Олена"),
        (";;;ТОВ;a@example.ua", "ТОВ"),
        (";;;;a@example.ua", "a@example.ua"),
    ],
)
def test_a_name_is_put_together_or_stood_in_for(api, row, name):
    header = "Прізвище;Ім’я;По батькові;Компанія;Пошта"
    assert said(load(api, "leads", f"{header}\n{row}\n")) == (1, 0, 0)
    assert records(api, "leads", "name")[-1] == (name,)


def test_totals_and_titles_are_left_out_and_counted_but_no_record_is(api):
    text = (
        "Клієнти;;\nПІБ;Телефон;Сума\nРазом Іванна;067 123 45 67;5\nТотал;0671234568;\n"
        "Всього потроху;;\nРазом:;;5\nВсього 2;;\nИтого;;10,00\n"
    )
    preview = post(api, "/leads/import/preview", text).json
    assert (preview["header_line"], preview["left_out"], preview["entries"]) == (2, 3, 3)
    answer = load(api, "leads", text)
    assert said(answer) == (2, 0, 1)
    assert {line for line, *_ in errors(api, answer)} == {5}


def test_headers_without_names_and_with_the_same_name_are_told_apart(api):
    text = "ПІБ,Телефон,,Нотатка,Нотатка\nА,0671234567,x,раз,два\n"
    columns = post(api, "/leads/import/preview", text).json["columns"]
    assert [column["file"] for column in columns][2:] == ["#3", "Нотатка", "Нотатка (2)"]
    mapping = {"ПІБ": "name", "Телефон": "phone", "#3": "extra.x", "Нотатка (2)": "comment"}
    assert said(load(api, "leads", text, mapping)) == (1, 0, 0)
    assert records(api, "leads", "extra", "comment") == [({"x": "x"}, "два")]


def test_what_stands_beyond_so_many_columns_is_under_none(api, monkeypatch):
    monkeypatch.setattr(headers, "MAX_COLUMNS", 3)
    text = "ПІБ,Телефон,c,далі\nА,0671234567\nБ,0671234568,,x\n"
    assert len(post(api, "/leads/import/preview", text).json["columns"]) == 3
    answer = load(api, "leads", text, {"ПІБ": "name", "Телефон": "phone"})
    assert said(answer) == (1, 0, 1)
    assert errors(api, answer) == [(3, None, "too_many_cells")]
    assert said(post(api, "/leads/import", "Ім’я,Телефон,,,\nВ,0671234569\n")) == (1, 0, 0)


def test_long_cells_are_no_words_and_no_money():
    """Composing one of many accents could take hours, so it is not tried."""
    assert len(word_key("x" * 10_000)) == len(normalise("x" * 10_000)) == MAX_CHARACTERS
    assert split_money("1" + " " * 98 + "₴") == ("1", "UAH")
    with pytest.raises(InvalidValue):
        split_money("1" + " " * 99 + "₴")


# Colleagues, stages and clients that do not exist


def test_colleagues_that_do_not_exist_are_told_skipped_or_created(api):
    text = "ПІБ;Телефон;Менеджер\nА;0671234567;Хтось Новий\nБ;0671234568;хтось новий\n"
    text += "В;0671234569;Taras\n"
    answer = load(api, "leads", text)
    assert errors(api, answer) == [(2, "assigned_to", "not_found"), (3, "assigned_to", "not_found")]
    assert said(load(api, "leads", text, unknown_references="skip")) == (3, 0, 0)
    answer = load(api, "leads", text, unknown_references="create")
    assert said(answer) == (3, 0, 0)
    ids = [id for (id,) in records(api, "leads", "assigned_to")[-3:]]
    assert ids[0] == ids[1] != ids[2]
    (user,) = [user for user in api.get("/users").json["data"] if user["id"] == ids[0]]
    assert (user["name"], user["active"], user["email"]) == ("Хтось Новий", False, None)


def test_a_rejected_row_between_two_makes_no_second_colleague(api):
    text = "ПІБ;Телефон;Менеджер;Статус\nА;0671234567;Хтось;Новий\nБ;0671234568;Хтось;converted\n"
    mapping = {"ПІБ": "name", "Телефон": "phone", "Менеджер": "assigned_to", "Статус": "status"}
    text += "В;0671234569;Хтось;Новий\n"
    assert said(load(api, "leads", text, mapping, unknown_references="create")) == (2, 0, 1)
    assert [user["name"] for user in api.get("/users").json["data"]].count("Хтось") == 1


def test_the_undo_of_an_import_deletes_the_colleagues_and_stages_that_it_created(api):
    def names() -> tuple[list[str], list[str]]:
        stages = api.get("/pipelines").json["data"][0]["stages"]
        users = api.get("/users").json["data"]
        return [stage["name"] for stage in stages], [user["name"] for user in users]

    before = names()
    text = (
        "Назва угоди;Клієнт;Етап;Менеджер\nА;Ромашка;Погоджено;Хтось\nБ;Ромашка;Новий етап;Інша\n"
    )
    assert said(load(api, "deals", text, unknown_references="create")) == (2, 0, 0)
    (batch,) = api.get("/batches").json["data"]
    tried = api.post(f"/batches/{batch['id']}/undo?dry_run=true").json
    assert (tried["reversed"], tried["kept"]) == (batch["created"], 0)
    assert api.post(f"/batches/{batch['id']}/undo").json == tried
    assert names() == before
    # What comes back from the trash has another stage, and nobody who is responsible.
    (deleted, *_) = [one for one in api.get("/trash").json["data"] if one["resource"] == "clients"]
    api.post(f"/clients/{deleted['id']}/restore")
    (deleted, *_) = [one for one in api.get("/trash").json["data"] if one["resource"] == "deals"]
    deal = api.post(f"/deals/{deleted['id']}/restore").json
    assert deal["assigned_to"] is None and deal["status"] == "open"


def test_a_colleague_and_a_stage_that_are_used_by_others_stay(api):
    text = "Назва угоди;Клієнт;Етап;Менеджер\nА;Ромашка;Погоджено;Хтось\nБ;Ромашка;Погоджено;Інша\n"
    load(api, "deals", text, unknown_references="create")
    (batch,) = api.get("/batches").json["data"]
    users = {user["name"]: user["id"] for user in api.get("/users").json["data"]}
    stages = api.get("/pipelines").json["data"][0]["stages"]
    (stage,) = [stage for stage in stages if stage["name"] == "Погоджено"]
    columns = {"Клієнт": "name", "Менеджер": "assigned_to"}
    load(api, "clients", "Клієнт;Менеджер\nІнший;Хтось\n", columns)
    (client,) = api.get("/clients?q=Інший").json["data"]
    assert client["assigned_to"] == users["Хтось"]
    api.create("/deals", client_id=client["id"], stage_id=stage["id"])
    assert api.post(f"/batches/{batch['id']}/undo").json["kept"] == 2
    kept = api.get(f"/batches/{batch['id']}/kept.csv").text
    assert f"user,{users['Хтось']},user_in_use" in kept
    assert f"stage,{stage['id']},stage_in_use" in kept
    assert "Інша" not in [user["name"] for user in api.get("/users").json["data"]]


def test_a_dry_run_of_several_transactions_creates_anew_in_each(api, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0)
    text = "ПІБ;Телефон;Менеджер\n" + "".join(f"А;067{n:07};Хтось\n" for n in range(3))
    mapping = json.dumps({"ПІБ": "name", "Телефон": "phone", "Менеджер": "assigned_to"})
    path = "/leads/import?dry_run=true&unknown_references=create"
    assert said(post(api, path, text, mapping=mapping)) == (3, 0, 0)


def test_stages_and_clients_are_created_once(api):
    text = "Назва угоди;Клієнт;Етап\nА;Ромашка;Погоджено\nБ;РОМАШКА;погоджено\n"
    assert said(load(api, "deals", text, unknown_references="create")) == (2, 0, 0)
    assert records(api, "clients", "name", "type") == [("Ромашка", "company")]
    names = [stage["name"] for stage in api.get("/pipelines").json["data"][0]["stages"]]
    assert names.count("Погоджено") == 1
    assert len({ids for ids in records(api, "deals", "stage_id", "client_id")}) == 1


def test_what_unknown_texts_mean_is_said_once_for_the_file(api):
    api.post("/clients", json={"name": "ТОВ Ромашка", "type": "company"})
    stages = {s["name"]: s["id"] for s in api.get("/pipelines").json["data"][0]["stages"]}
    text = "Назва угоди;Клієнт;Етап;Менеджер\nА;Ромашка;Думає;Тарас Г.\nБ;Інший;Мовчить;Ніхто\n"
    choices = {
        "client": {"Ромашка": "=ТОВ Ромашка", "*": "create"},
        "stage": {"Думає": "=Proposal", "Мовчить": f"={stages['New']}"},
        "assigned_to": {"Тарас Г.": "=Taras", "*": "skip"},
    }
    assert said(load(api, "deals", text)) == (0, 0, 2)
    assert said(load(api, "deals", text, unknown_values=json.dumps(choices))) == (2, 0, 0)
    assert records(api, "deals", "client_name", "stage_id", "assigned_to") == [
        ("ТОВ Ромашка", stages["Proposal"], str(TARAS)),
        ("Інший", stages["New"], None),
    ]


def test_statuses_in_words_of_other_programs_are_said_once_for_the_file(api):
    text = "ПІБ;Телефон;Статус\nА;0671234567;Думає\nБ;0671234568;Новий\nВ;0671234569;Ніякий\n"
    mapping = {"ПІБ": "name", "Телефон": "phone", "Статус": "status"}
    choices = json.dumps({"status": {"Думає": "=in_progress", "*": "skip"}})
    assert said(load(api, "leads", text, mapping)) == (1, 0, 2)
    api.post(f"/batches/{api.get('/batches').json['data'][0]['id']}/undo")
    assert said(load(api, "leads", text, mapping, unknown_values=choices)) == (3, 0, 0)
    assert [s for (s,) in records(api, "leads", "status")] == ["in_progress", "new", "new"]


@loop_over(
    "value", ["[]", "{", '{"stage": "skip"}', '{"stage": {"A": "other"}}', '{"stage": {"A": 1}}']
)
def test_choices_that_are_none_are_told(api, value):
    text = "ПІБ;Телефон\nА;0671234567\n"
    answer = load(api, "leads", text, unknown_values=value)
    assert (answer.status_code, faults(answer)) == (422, [("unknown_values", "invalid_json")])


def test_the_line_of_the_header_may_be_said(api):
    text = "Назва;Ціна\nЗвіт;2026\nТовар;Вартість\nСтіл;100\n"
    found = post(api, "/products/import/preview", text).json
    said_line = post(api, "/products/import/preview", text, header_line="3").json
    assert (found["header_line"], said_line["header_line"]) == (1, 3)
    assert [column["file"] for column in said_line["columns"]] == ["Товар", "Вартість"]
    text = text.replace("Товар;Вартість", "Код;Товар;Вартість").replace("Стіл", "A;Стіл")
    mapping = {"Код": "sku", "Товар": "name", "Вартість": "price"}
    assert said(load(api, "products", text, mapping, header_line="3")) == (1, 0, 0)
    text = text.replace("Код;Товар;Вартість", "sku;name;price")
    assert said(post(api, "/products/import", text, header_line="3")) == (0, 0, 1)
    assert faults(post(api, "/products/import", text)) == [("/file", "missing_column")]


@loop_over(
    ("column", "scope"),
    [("Клієнт", "clients:write"), ("Етап", "pipelines:write"), ("Менеджер", "users:write")],
)
def test_who_may_not_create_them_does_not_do_so_by_an_import(crm, api, column, scope):
    text = f"Назва угоди;{column}\nА;Ромашка\n"
    mapping = json.dumps(guessed(api, "deals", text))
    for scopes, status in (("deals:write deals:read", 403), (f"deals:write {scope}", 200)):
        other = Api(crm, "acme", key_for(crm, "acme", scopes))
        answer = post(other, "/deals/import?unknown_references=create", text, mapping=mapping)
        assert answer.status_code == status, answer.text


# The operations themselves


@loop_over("resource", all_resources())
def test_the_fields_are_listed_with_their_aliases(api, resource):
    answer = api.get(f"/{resource.plural}/import/columns")
    listed = {field["field"]: field for field in answer.json["data"]}
    assert listed.keys() == fields_of(resource).keys()
    for name in resource.body.fields.keys() & listed.keys():
        assert listed[name]["required"] == (
            resource.body.fields[name].required or name in resource.required_columns
        )
    if resource.plural == "products":
        assert "артикул" in listed["sku"]["aliases"] and listed["price"]["type"] == "price"


def test_a_preview_shows_samples_and_writes_nothing(api):
    text = "ПІБ,Телефон,Нотатка\n" + "".join(f"А{n},06712345{n:02},\n" for n in range(20))
    answer = post(api, "/leads/import/preview", text)
    assert answer.json["columns"][0] == {
        "file": "ПІБ",
        "field": "name",
        "confidence": "sure",
        "samples": ["А0", "А1", "А2"],
    }
    assert answer.json["columns"][2]["samples"] == []
    assert answer.json["entries"] == 20
    refused = post(api, "/leads/import/preview", text, key="tax_number")
    assert faults(refused) == [("/key", "invalid_choice")]
    assert records(api, "leads", "id") == []


# Whatever is in a file


def test_money_is_never_another_number(api):
    """Of any spelling of a number either exactly this number is read, or none."""
    chance = random.Random(1)
    for _ in range(500):
        whole, cents = chance.randrange(10 ** chance.randrange(1, 10)), chance.randrange(100)
        mark, group = chance.choice(
            [(".", " "), (",", "\u00a0"), (",", "."), (".", ","), (",", "'")]
        )
        sign = chance.choice(["", " грн", "₴", " UAH", "\u00a0₴"])
        text = f"{whole:,}".replace(",", group) + f"{mark}{cents:02}{sign}"
        amount, code = split_money(text)
        assert float(amount) == float(f"{whole}.{cents:02}") and code == ("UAH" if sign else None)
