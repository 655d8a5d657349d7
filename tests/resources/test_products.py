"""Products (spec: Products; D2, D3, D4, D9, D15, D17)."""

import pytest

from crm.errors import Conflict, NotFound
from crm.resources.products import record as products
from crm.resources.products.record import PRODUCT, Product, create
from crm.storage.session import row, transaction
from tests.conftest import Api

CHAIR = {"sku": "CH-1", "name": "Крісло офісне", "price": 12_505_000}


@pytest.fixture
def acme(crm):
    with crm.tenants.session("acme") as here:
        yield here


def sold(api: Api, **item: object) -> str:
    """The id of a new deal with this item."""
    deal = api.create("/deals", title="Меблі")
    api.create(f"/deals/{deal}/items", **item)
    return deal


# The rules


def test_a_new_product_is_active_and_in_the_tenants_currency(acme):
    product = PRODUCT.one(create(CHAIR))
    assert (product["active"], product["currency"], product["used_in_deals"]) == (
        True,
        "UAH",
        False,
    )


def test_two_live_products_never_share_a_sku(acme):
    create(CHAIR)
    other = create({"name": "Стіл", "price": 0, "sku": "T-1"})
    with pytest.raises(Conflict) as refused:
        create({**CHAIR, "name": "Інше крісло"})
    assert refused.value.code == "duplicate_sku"
    with transaction(), pytest.raises(Conflict) as refused:
        products.update(other, {"sku": "CH-1"})
    assert refused.value.code == "duplicate_sku"
    assert [product.sku for product in Product.every("TRUE ORDER BY id")] == ["CH-1", "T-1"]


def test_many_products_may_have_no_sku(acme):
    first, second = (create({"name": name, "price": 1}) for name in ("Стіл", "Стілець"))
    assert first != second


def test_a_sku_may_be_kept_given_up_and_taken_again(acme):
    first = create(CHAIR)
    with transaction():
        products.update(first, {"sku": "CH-1", "name": "Крісло"})
        products.update(first, {"sku": None})
    assert create(CHAIR) != first


def test_a_deleted_product_is_found_no_more_and_its_sku_is_free(acme):
    id = create({**CHAIR, "description": "Сітчаста спинка"})
    products.delete(id)
    with pytest.raises(NotFound):
        Product.find(id)
    assert row("SELECT search_text FROM product WHERE id = ?", (id,)) == (None,)
    assert create(CHAIR) != id
    with pytest.raises(Conflict) as refused:
        products.restore(id)
    assert refused.value.code == "duplicate_sku"


# The endpoints


def test_create_answers_ok_the_id_and_where_it_is(api):
    answer = api.post("/products", {"name": "Стіл", "price": 1250.5})
    assert answer.status_code == 201
    assert answer.json == {"status": "ok", "product_id": "1"}
    assert answer.headers["Location"] == "/api/v1/products/1"


def test_a_product_is_shown_with_all_its_fields(api):
    sent = {
        "sku": "CH-1",
        "name": "Крісло",
        "price": 1250.1234,
        "currency": "EUR",
        "unit": "шт",
        "category": "Меблі",
        "description": "Сітчаста спинка\nГазліфт",
        "active": False,
        "external_id": "1C-7",
        "extra": {"color": "black"},
        "created_at": "2025-01-31T10:00:00+02:00",
    }
    id = api.create("/products", **sent)
    assert api.read(f"/products/{id}") == {
        **sent,
        "id": id,
        "used_in_deals": False,
        "created_at": "2025-01-31T08:00:00Z",
        "updated_at": "2026-03-02T09:00:00Z",
        "version": 1,
    }


def test_the_record_comes_along_when_preferred(api):
    answer = api.post(
        "/products", {"name": "Стіл", "price": 1}, headers={"Prefer": "return=representation"}
    )
    assert answer.json["data"] == api.read("/products/1")


def test_what_does_not_fit_is_refused_by_name(api):
    for sent, field, code in [
        ({"price": 1}, "name", "required"),
        ({"name": "Стіл"}, "price", "required"),
        ({"name": "", "price": 1}, "name", "required"),
        ({"name": "Стіл", "price": None}, "price", "null"),
        ({"name": "Стіл", "price": -1}, "price", "too_small"),
        ({"name": "Стіл", "price": "1.00001"}, "price", "too_precise"),
        ({"name": "Стіл", "price": 10_000_000_000}, "price", "too_large"),
        ({"name": "Стіл", "price": "дорого"}, "price", "invalid_number"),
        ({"name": "Стіл", "price": 1, "active": "yes"}, "active", "invalid_type"),
        ({"name": "Стіл", "price": 1, "active": None}, "active", "null"),
        ({"name": "Стіл", "price": 1, "currency": "ГРН"}, "currency", "invalid_currency"),
        ({"name": "Стіл", "price": 1, "sku": "s" * 65}, "sku", "too_long"),
        ({"name": "Стіл", "price": 1, "unit": "u" * 33}, "unit", "too_long"),
        ({"name": "Стіл", "price": 1, "category": "c" * 129}, "category", "too_long"),
        ({"name": "Стіл", "price": 1, "colour": "red"}, "colour", "unknown_field"),
        ({"name": "Стіл", "price": 1, "used_in_deals": True}, "used_in_deals", "unknown_field"),
        (
            {"name": "Стіл", "price": 1, "created_at": "2030-01-01T00:00:00Z"},
            "created_at",
            "in_the_future",
        ),
    ]:
        answer = api.post("/products", sent)
        assert answer.status_code == 422
        (fault,) = answer.json["errors"]
        assert fault["pointer"] == f"/{field}"
        assert fault["code"] == code
        assert api.read("/products") == []


def test_a_price_is_exact_to_four_decimals(api):
    for price in [0, "12.3456", 9_999_999_999.9999, "0.0001"]:
        id = api.create("/products", name="Стіл", price=price)
        assert api.read(f"/products/{id}")["price"] == float(price)


def test_an_existing_sku_or_external_id_is_a_conflict(api):
    api.create("/products", sku="CH-1", name="Крісло", price=1, external_id="a")
    other = api.create("/products", sku="CH-2", name="Крісло", price=1, external_id="b")
    for call, sent in (
        (api.post, ("/products", {"sku": "CH-1", "name": "Крісло", "price": 1})),
        (api.patch, (f"/products/{other}", {"sku": "CH-1"})),
    ):
        answer = call(*sent)
        assert (answer.status_code, answer.json["code"]) == (409, "duplicate_sku")
    answer = api.patch(f"/products/{other}", {"external_id": "a"})
    assert (answer.status_code, answer.json["code"]) == (409, "duplicate_external_id")


def test_a_change_keeps_what_was_not_sent(api, clock):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10, unit="шт")
    before = api.read(f"/products/{id}")
    clock.tick(60)
    answer = api.patch(f"/products/{id}", {"price": "12.5", "unit": None})
    assert answer.status_code == 200
    assert answer.json == api.read(f"/products/{id}")
    assert answer.json == {
        **before,
        "price": 12.5,
        "unit": None,
        "version": 2,
        "updated_at": "2026-03-02T09:01:00Z",
    }


def test_required_fields_cannot_be_cleared(api):
    id = api.create("/products", name="Крісло", price=10)
    answer = api.patch(f"/products/{id}", {"name": None, "price": None})
    assert answer.status_code == 422
    assert {fault["pointer"] for fault in answer.json["errors"]} == {"/name", "/price"}


def test_read_only_fields_pass_only_as_they_are(api):
    id = api.create("/products", name="Крісло", price=10)
    record = api.read(f"/products/{id}")
    assert api.patch(f"/products/{id}", record).json == record
    answer = api.patch(f"/products/{id}", {"used_in_deals": True})
    assert answer.json["errors"][0]["code"] == "read_only"


def test_events_tell_of_creation_and_of_what_changed(api):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    created = api.read(f"/products/{id}")
    api.patch(f"/products/{id}", {"price": 12.5, "active": False, "name": "Крісло"})
    first, second = api.events()
    assert (first["type"], first["data"], first["previous"]) == (
        "product.created",
        {"product": created},
        {},
    )
    assert (second["type"], second["data"], second["previous"]) == (
        "product.updated",
        {"product": api.read(f"/products/{id}")},
        {"price": 10, "active": True},
    )


def test_a_change_of_nothing_is_no_event_and_no_version(api):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    answer = api.patch(f"/products/{id}", {"sku": "CH-1", "price": "10.00"})
    assert (answer.status_code, answer.json["version"]) == (200, 1)
    assert api.kinds() == ["product.created"]


def test_a_refused_change_leaves_no_event(api):
    api.create("/products", sku="CH-1", name="Крісло", price=10)
    api.post("/products", {"sku": "CH-1", "name": "Крісло", "price": 10})
    assert api.kinds() == ["product.created"]


def test_a_change_is_kept_with_what_it_was(api):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    api.patch(f"/products/{id}", {"price": 12.5})
    (change,) = api.read(f"/products/{id}/changes")
    assert (change["before"], change["after"]) == ({"price": 10}, {"price": 12.5})


def test_etags_guard_reading_and_writing(api):
    id = api.create("/products", name="Крісло", price=10)
    etag = api.get(f"/products/{id}").headers["ETag"]
    assert api.get(f"/products/{id}", headers={"If-None-Match": etag}).status_code == 304
    api.patch(f"/products/{id}", {"price": 11})
    stale = {"If-Match": etag}
    assert api.patch(f"/products/{id}", {"price": 12}, headers=stale).status_code == 412
    assert api.delete(f"/products/{id}", headers=stale).status_code == 412
    assert api.read(f"/products/{id}")["price"] == 11


def test_the_same_idempotency_key_creates_once(api):
    headers = {"Idempotency-Key": "one"}
    first, second = (
        api.post("/products", {"name": "Стіл", "price": 1}, headers=headers) for _ in range(2)
    )
    assert first.json == second.json
    assert second.headers["Idempotency-Replayed"] == "true"
    assert api.kinds() == ["product.created"]


def test_a_deleted_product_is_gone_and_its_sku_free(api):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    answer = api.delete(f"/products/{id}")
    assert (answer.status_code, answer.data) == (204, b"")
    assert api.get(f"/products/{id}").status_code == 404
    assert api.patch(f"/products/{id}", {"price": 1}).status_code == 404
    assert api.delete(f"/products/{id}").status_code == 404
    assert api.read("/products?q=крісло") == []
    assert api.create("/products", sku="CH-1", name="Крісло", price=10) != id


def test_a_product_used_in_deals_says_so_and_keeps_its_row(api, crm):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    deal = sold(api, product_id=id)
    assert api.read(f"/products/{id}")["used_in_deals"] is True
    assert api.delete(f"/products/{id}").status_code == 204
    assert api.get(f"/products/{id}").status_code == 404
    assert api.read("/products?q=крісло") == []
    with crm.tenants.session("acme"):
        kept = row("SELECT sku, name FROM product WHERE id = ?", (int(id),))
    assert kept == ("CH-1", "Крісло")
    (item,) = api.read(f"/deals/{deal}/items")
    assert (item["name"], item["price"]) == ("Крісло", 10)
    assert api.create("/products", sku="CH-1", name="Крісло нове", price=11) != id


def test_a_change_of_a_product_touches_no_deal(api):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    deal = sold(api, product_id=id)
    api.patch(f"/products/{id}", {"name": "Інше", "price": 99})
    (item,) = api.read(f"/deals/{deal}/items")
    assert (item["name"], item["price"]) == ("Крісло", 10)


def test_an_erp_can_follow_both_kinds_of_deletion_for_30_days(api, clock):
    used, unused, kept = (api.create("/products", name=name, price=1) for name in "абв")
    sold(api, product_id=used)
    clock.tick(60)
    for id in (used, unused):
        api.delete(f"/products/{id}")
    path = "/products?updated_since=2026-03-02T09:00:30Z&include_deleted=true"
    moment = "2026-03-02T09:01:00Z"
    tombs = [{"id": id, "deleted_at": moment, "updated_at": moment} for id in (used, unused)]
    assert sorted(api.read(path), key=lambda tomb: tomb["id"]) == tombs
    assert [product["id"] for product in api.read("/products")] == [kept]
    clock.tick(31 * 86_400)
    assert api.read(path) == []


# Lists


@pytest.fixture
def catalog(api):
    """Four products, by name Диван, Крісло, Стіл, Шафа; their ids are 1 to 4 in another order."""
    for sku, name, category, active, description in (
        ("T-1", "Стіл", "Столи", True, "Дубовий, 100% масив"),
        ("C-1", "Крісло", "Крісла", True, None),
        ("S-1", "Шафа", "Шафи", False, "Дубова"),
        ("D-1", "Диван", "Крісла", False, None),
    ):
        fields = {"category": category, "active": active, "description": description}
        api.create("/products", sku=sku, name=name, price=1, **fields)
    api.patch("/products/2", {"external_id": "1C-7"})
    return api


def names(api: Api, query: str = "") -> list[str]:
    return [product["name"] for product in api.read(f"/products{query}")]


def test_products_are_listed_by_name(catalog):
    assert names(catalog) == ["Диван", "Крісло", "Стіл", "Шафа"]


def test_filters_narrow_the_list(catalog):
    for query, result in (
        ("category=Крісла", ["Диван", "Крісло"]),
        ("category=Столи&category=Шафи", ["Стіл", "Шафа"]),
        ("category=крісла", []),
        ("active=true", ["Крісло", "Стіл"]),
        ("active=false", ["Диван", "Шафа"]),
        ("active=true&category=Крісла", ["Крісло"]),
        ("sku=T-1", ["Стіл"]),
        ("sku=T-1&sku=S-1", ["Стіл", "Шафа"]),
        ("q=ДУБОВ", ["Стіл", "Шафа"]),
        ("q=крісл", ["Диван", "Крісло"]),
        ("q=t-1", ["Стіл"]),
        ("q=100%25", ["Стіл"]),
        ("q=дуб+шаф", ["Шафа"]),
        ("q=дуб&active=true", ["Стіл"]),
        ("ids=1,3", ["Стіл", "Шафа"]),
        ("created_since=2026-03-02T09:00:01Z", []),
        ("external_id=1C-7", ["Крісло"]),
    ):
        assert names(catalog, f"?{query}") == result, query


def test_the_list_can_be_in_another_order(catalog, clock):
    clock.tick(60)
    catalog.patch("/products/1", {"price": 2})
    for sort, result in (
        ("-name", ["Шафа", "Стіл", "Крісло", "Диван"]),
        ("id", ["Стіл", "Крісло", "Шафа", "Диван"]),
        ("-id", ["Диван", "Шафа", "Крісло", "Стіл"]),
        ("-updated_at", ["Стіл", "Диван", "Шафа", "Крісло"]),
    ):
        assert names(catalog, f"?sort={sort}") == result, sort


def test_pages_lose_and_repeat_nothing(catalog):
    for number in range(5):
        catalog.create("/products", name="Стіл", price=number)
    for sort in ("name", "-name", "id", "-updated_at"):
        seen, path = [], f"/products?limit=2&sort={sort}&total=true"
        answer = catalog.get(path).json
        assert answer["meta"]["total"] == 9
        while True:
            seen += [product["id"] for product in answer["data"]]
            if not (cursor := answer["meta"]["next_cursor"]):
                break
            answer = catalog.get(f"{path}&cursor={cursor}").json
        whole = catalog.read(f"/products?limit=200&sort={sort}")
        assert seen == [product["id"] for product in whole]
        assert len(set(seen)) == 9


def test_a_mistyped_parameter_never_returns_the_whole_list(catalog):
    for query in (
        "active=yes",
        "active=true&active=false",
        "colour=red",
        "sort=price",
        "q=",
        "limit=201",
    ):
        answer = catalog.get(f"/products?{query}")
        assert answer.status_code == 422, query
        assert answer.json["errors"][0]["parameter"] == query.partition("=")[0]


# Who may


def test_another_tenant_sees_nothing(api, ivan):
    id = api.create("/products", sku="CH-1", name="Крісло", price=10)
    assert ivan.read("/products") == []
    assert ivan.get(f"/products/{id}").status_code == 404
    assert ivan.patch(f"/products/{id}", {"price": 1}).status_code == 404
    assert ivan.delete(f"/products/{id}").status_code == 404
    assert ivan.create("/products", sku="CH-1", name="Крісло", price=11)
    assert api.read(f"/products/{id}")["price"] == 10


def test_a_reader_reads_and_a_form_does_nothing(api, reader, form):
    id = api.create("/products", name="Крісло", price=10)
    assert reader.get(f"/products/{id}").status_code == 200
    for answer in (
        reader.post("/products", {"name": "Стіл", "price": 1}),
        reader.patch(f"/products/{id}", {"price": 1}),
        reader.delete(f"/products/{id}"),
        form.get("/products"),
        form.post("/products", {"name": "Стіл", "price": 1}),
    ):
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")


def test_an_id_that_is_no_product_is_not_found(api):
    for id in ("0", "99", "abc", "1.0", "٣", "9" * 30):
        for answer in (
            api.get(f"/products/{id}"),
            api.patch(f"/products/{id}", {"price": 1}),
            api.delete(f"/products/{id}"),
        ):
            assert (answer.status_code, answer.json["code"]) == (404, "not_found"), id
