"""The price list: import and export of products as CSV (spec: Products; D1, D4, D9, D15, D17)."""

import csv
import io
from functools import partial
from typing import Any

import pytest

from crm.outbox import events
from crm.resources.products import csv_columns
from crm.resources.products.csv_columns import COLUMNS
from crm.resources.products.record import PRODUCT, Product
from crm.storage.session import rows
from crm.values import folding
from tests import csv_helpers
from tests.conftest import Api
from tests.csv_helpers import HOSTILE, counts, errors
from tests.tables import assert_whole

pytestmark = pytest.mark.slow

HEADER = "sku,name,price,unit,category,description,active"
LIST = f"""{HEADER}
CH-1,Крісло офісне,1250.50,шт,Крісла,"Сітчаста спинка, газліфт",true
T-1,Стіл письмовий,4300,шт,Столи,"Дубовий
на чотирьох ніжках",true
S-1,Шафа,9999.9999,,,,false
"""


load = partial(csv_helpers.load, "products")


def send(api: Api, text: str | bytes = LIST, query: str = "", **options: Any) -> Any:
    return csv_helpers.send(api, "products", text, query, **options)


def one(sku: str) -> dict[str, Any]:
    """The product of that sku as it is shown."""
    return PRODUCT.one(Product.first("sku = ?", sku).id)


# Importing


def test_new_skus_make_products(acme):
    assert counts(load(LIST)) == (3, 0, 0, 0)
    table = one("T-1")
    values = ("T-1", "Стіл письмовий", 4300, "шт", "Столи", "Дубовий\nна чотирьох ніжках", True)
    assert tuple(table[name] for name in COLUMNS if name != "vat") == values
    assert (table["currency"], table["version"]) == ("UAH", 1)
    assert one("S-1")["active"] is False
    assert one("S-1")["unit"] is None


def test_known_skus_change_products(acme, clock):
    load(LIST)
    clock.tick(60)
    result = load(
        "sku,price,name\nCH-1,1300,Крісло офісне\nT-1,4300,Стіл дубовий\nS-1,9999.9999,\n"
    )
    assert counts(result) == (0, 2, 1, 0)
    chair, table, wardrobe = one("CH-1"), one("T-1"), one("S-1")
    assert (chair["price"], chair["version"], chair["category"]) == (1300, 2, "Крісла")
    assert chair["updated_at"] == "2026-03-02T09:01:00Z"
    assert (table["name"], table["price"], table["version"]) == ("Стіл дубовий", 4300, 2)
    assert (wardrobe["version"], wardrobe["updated_at"]) == (1, "2026-03-02T09:00:00Z")


def test_a_new_row_needs_a_name_and_a_price(acme):
    result = load("sku,name,price\nA,,5\nB,Стіл,\nC,,\nD,Стіл,0\n  ,Стіл,5\n")
    assert errors(result) == [
        (2, "name", "required"),
        (3, "price", "required"),
        (4, "name", "required"),
        (4, "price", "required"),
        (6, "sku", "required"),
    ]
    assert counts(result) == (1, 0, 0, 4)


def test_of_a_sku_twice_the_later_row_is_rejected(acme):
    result = load("sku,name,price\nA,Перший,1\nB,Стіл,2\nA,Другий,3\n A ,Третій,4\n")
    assert errors(result) == [(4, "sku", "duplicate_in_file"), (5, "sku", "duplicate_in_file")]
    assert "line 2" in result.errors[0]["message"]
    assert (counts(result), one("A")["name"]) == ((2, 0, 0, 2), "Перший")


def test_texts_are_kept_as_the_api_keeps_them(acme, api):
    odd = " \u0406\u0308жак\u00a0 у\r\nтумані "
    load(f'sku,name,price,description\nA,"{odd}",1,"{odd}"\n'.encode())
    api.create("/products", sku="B", name=odd, price=1, description=odd)
    imported, sent = one("A"), one("B")
    assert imported["name"] == sent["name"] == "Їжак\u00a0 у тумані"
    assert imported["description"] == sent["description"] == "Їжак\u00a0 у\nтумані"
    kept = [(a, b) for a, b in rows("SELECT search_text, sku FROM product ORDER BY id")]
    assert kept[0][0].replace("a\n", "b\n", 1) == kept[1][0]


def test_deleted_products_are_not_known_to_an_import(acme, api):
    load(LIST)
    for id in (1, 2, 3):
        api.delete(f"/products/{id}")
    assert counts(load(LIST)) == (3, 0, 0, 0)


def test_changes_of_an_import_are_on_the_trail_with_who_did_it(api):
    send(api)
    send(api, "sku,price,unit\nCH-1,1300,компл\nT-1,4300,шт\n")
    assert api.read("/products/2/changes") == []
    (change,) = api.read("/products/1/changes")
    assert change["before"] == {"price": 1250.5, "unit": "шт"}
    assert change["after"] == {"price": 1300, "unit": "компл"}
    assert (change["user_id"], change["key"]["name"]) == ("1", "tests")


def test_a_list_of_several_chunks_is_written_whole_and_searchable(acme, api, monkeypatch):
    monkeypatch.setattr(csv_columns, "CHUNK_ROWS", 200)
    lines = [f"N-{n},Стіл модель {n * 7919 % 600},{n}.{n % 100:02}" for n in range(600)]
    load("sku,name,price\n" + "\n".join(lines))
    again = [line.replace("Стіл", "Тумба") for line in lines[::2]]
    assert counts(load("sku,name,price\n" + "\n".join(again))) == (0, 300, 0, 0)
    for word in ("тумба", "стіл"):  # half of them are found by another name, not by the first
        answer = api.get(f"/products?q={word}&total=true&limit=1")
        assert answer.json["meta"]["total"] == 300
    products = api.read("/products?q=модель+тумба&sku=N-424")
    assert [product["price"] for product in products] == [424.24]
    assert_whole(api.crm.tenants, "acme")


def test_progress_goes_up_to_the_number_of_rows(acme):
    load(LIST)
    seen: list[tuple[int, int]] = []
    text = LIST.replace("1250.50", "1") + "N-1,Новий,1,,,,\n,x,1,,,,\n"
    load(text, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (5, 5)


# The answer, the event, the report


def test_one_event_tells_of_the_whole_import(api):
    send(api, LIST + ",x,1,,,,\n")
    (event,) = api.events()
    results = {"id": "1", "created": 3, "updated": 0, "skipped": 1}
    assert (event["type"], event["previous"]) == (events.PRODUCT_IMPORTED, {})
    assert event["data"] == {"import": results}
    send(api)
    assert api.events()[1]["data"]["import"] == {**results, "id": "2", "created": 0, "skipped": 3}


def test_the_report_has_counts_and_errors(api):
    send(api)
    text = LIST.replace("4300", "4301") + "A,Стіл,x,,,,\nB,x,1,,,,\nB,x,1,,,,\n"
    send(api, text, name="прайс.csv")
    answer = api.get("/imports/2")
    assert "ETag" in answer.headers
    report = answer.json
    first, second = report.pop("errors")
    read_as = {"file_name": "прайс.csv", "encoding": "utf-8", "delimiter": ",", "noun": "product"}
    counts = {"created": 1, "updated": 1, "skipped": 4, "unchanged": 2, "rejected": 2}
    done = {"rows": 6, "position": 6, "total": 6, "status": "done", "user_id": "1", "batch_id": "2"}
    assert {**report, **read_as, **counts, **done} == report
    message = "price: 'x' is not a number: write 1250.00 or 1 250,00"
    assert first == {"line": 6, "column": "price", "code": "invalid_number", "message": message}
    assert (second["line"], second["code"]) == (8, "duplicate_in_file")


def test_the_first_1000_errors_are_told_and_all_are_counted(api):
    send(api, "sku,name,price\n" + "".join(f"A{n},x,y\n" for n in range(1200)))
    report = api.read("/imports/1")
    assert (report["rejected"], len(report["errors"])) == (1200, 1000)
    assert report["errors"][-1]["line"] == 1001
    assert len(api.get("/imports/1/errors.csv").text.splitlines()) == 1201


def test_rejected_rows_can_be_mended_and_imported(api):
    text = "price,sku,name\n1,A,Добрий\nx,B,=Стіл\nx,C,'Шафа\n1,D,Полиця,зайве\n"
    assert send(api, text, "?dialect=excel").json["skipped"] == 3
    answer = api.get("/imports/1/errors.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="import-1-errors.csv"' in answer.headers["Content-Disposition"]
    repair = answer.data.decode("utf-8-sig")
    kept = list(csv.reader(io.StringIO(repair), delimiter=";"))
    assert kept[0] == ["error", "price", "sku", "name"]
    assert kept[1][0].lstrip("'").startswith("price: 'x' is not a number")
    assert [cells[2] for cells in kept[1:]] == ["B", "C", "D"]
    assert kept[3][4] == "зайве"
    mended = repair.replace(";x;", ";7;").replace(";зайве", "")
    answer = send(api, mended, "?dialect=excel")
    assert answer.json == {"status": "ok", "created": 3, "updated": 0, "skipped": 0}
    names = {product["sku"]: product["name"] for product in api.read("/products")}
    assert names == {"A": "Добрий", "B": "=Стіл", "C": "Шафа", "D": "Полиця"}


def test_a_second_round_of_repair_has_one_reason_column(api):
    send(api, "error,sku,name,price\nколись,A,Стіл,x\n")
    text = api.get("/imports/1/errors.csv").text
    assert text.splitlines()[0] == "error,sku,name,price"
    assert "колись" not in text


def test_rejected_rows_are_kept_for_30_days(api, clock):
    send(api, "sku,name,price\nA,x,y\n")
    clock.tick(29 * 86_400)
    send(api)
    assert api.get("/imports/1/errors.csv").status_code == 200
    clock.tick(2 * 86_400)
    send(api)
    assert api.get("/imports/1/errors.csv").status_code == 404
    assert api.read("/imports/1")["rejected"] == 1
    assert api.get("/imports/2/errors.csv").text == f"error,{HEADER}\r\n"


def test_a_dry_run_counts_and_writes_nothing(api, crm):
    send(api)
    before = _all_rows(crm)
    text = LIST.replace("4300", "4301") + "A,Стіл,x,,,,\nB,x,1,,,,\n"
    answer = send(api, text, "?dry_run=true")
    assert answer.json == {"status": "ok", "created": 1, "updated": 1, "skipped": 3}
    assert "Location" not in answer.headers
    assert _all_rows(crm) == before
    assert send(api, text, "?dry_run=false").json == answer.json


def _all_rows(crm: Any) -> list[list[tuple]]:
    with crm.tenants.session("acme"):
        return [rows(f"SELECT * FROM {table}") for table in ("product", "import_run", "event")]


def test_the_same_idempotency_key_imports_once(api):
    headers = {"Idempotency-Key": "night-1"}
    first, second = send(api, headers=headers), send(api, headers=headers)
    assert second.json == first.json
    assert second.headers["Location"] == first.headers["Location"]
    assert second.headers["Idempotency-Replayed"] == "true"
    assert api.kinds() == ["product.imported"]
    other = send(api, LIST.replace("4300", "1"), headers=headers)
    assert (other.status_code, other.json["code"]) == (422, "idempotency_key_reused")


# The request


def test_the_file_must_come_in_one_part_named_file(api):
    def part() -> tuple[io.BytesIO, str]:
        return io.BytesIO(LIST.encode()), "price.csv"

    for sent, pointer, code in (
        ({}, "/file", "required"),
        ({"file": LIST}, "/file", "required"),
        ({"file": [part(), part()]}, "/file", "repeated"),
        ({"file": part(), "other": part()}, "/other", "unknown_field"),
        ({"file": part(), "mode": "all"}, "/mode", "unknown_field"),
    ):
        answer = api.call(
            "POST", "/products/import", data=sent, content_type="multipart/form-data; boundary=x"
        )
        assert answer.status_code == 422, sent
        (fault,) = answer.json["errors"]
        assert (fault["pointer"], fault["code"]) == (pointer, code)
    assert api.kinds() == []


def test_a_body_that_is_not_multipart_is_415(api):
    for kind in ("text/csv", "application/json", "application/x-www-form-urlencoded"):
        answer = api.call("POST", "/products/import", data=LIST.encode(), content_type=kind)
        assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type")
    assert api.call("POST", "/products/import").status_code == 415


def _multipart(data: bytes) -> bytes:
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    return head + data + b"\r\n--x--\r\n"


def _chunked(api: Api, body: bytes) -> Any:
    return api.call(
        "POST",
        "/products/import",
        input_stream=io.BytesIO(body),
        environ_overrides={"wsgi.input_terminated": True},
        headers={"Transfer-Encoding": "chunked"},
        content_type="multipart/form-data; boundary=x",
    )


def test_more_than_50_mib_is_413_also_in_chunks(api):
    kind = "multipart/form-data; boundary=x"
    for size in ((50 << 20) + 1, 51 << 20):
        body = _multipart(LIST.encode().ljust(size))
        for answer in (
            api.call("POST", "/products/import", data=body, content_type=kind),
            _chunked(api, body),
        ):
            assert (answer.status_code, answer.json["code"]) == (413, "too_large")
    assert api.kinds() == []


def test_a_chunked_file_is_imported(api):
    assert _chunked(api, _multipart(LIST.encode())).json["created"] == 3


# Exporting


def test_the_export_is_exactly_the_seven_columns(api):
    send(api)
    answer = api.get("/products/export")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="price-list.csv"'
    assert answer.data.decode() == (
        f"{HEADER}\r\n"
        'CH-1,Крісло офісне,1250.50,шт,Крісла,"Сітчаста спинка, газліфт",true\r\n'
        'T-1,Стіл письмовий,4300.00,шт,Столи,"Дубовий\nна чотирьох ніжках",true\r\n'
        "S-1,Шафа,9999.9999,,,,false\r\n"
    )


def test_the_rate_of_vat_is_a_column_where_a_product_has_one(api):
    send(api)
    (product,) = api.read("/products?sku=T-1")
    assert api.patch(f"/products/{product['id']}", {"vat": 7}).status_code == 200
    header, *lines = api.get("/products/export").text.splitlines()
    assert header == f"{HEADER},vat"
    assert 'на чотирьох ніжках",true,7' in lines


def test_the_excel_dialect_is_for_spreadsheets(api):
    api.create("/products", sku="=1+1", name="+Стіл", price="1250.5", description="@x")
    answer = api.get("/products/export?dialect=excel")
    assert (
        answer.data
        == (
            "\ufeff" + HEADER.replace(",", ";") + "\r\n'=1+1;'+Стіл;1250,50;;;'@x;true\r\n"
        ).encode()
    )


def test_many_texts_are_folded_as_each_would_be():
    texts = [text.strip() for text in (*HOSTILE, "Мар’яна", "Об`єкт")]
    records = [(text, None, f"{text}\n\n {text}") for text in texts]
    assert folding.fold_many(records) == [folding.fold(*record) for record in records]
    assert folding.fold_many([]) == []
