"""What follows from `searched`, `sorted` and `filtered` of a new field; run in the copy."""

import io

import pytest

RECORDS = {
    "leads": {"name": "Марія", "phone": "+380671234567"},
    "clients": {"name": "Ромашка", "email": "info@romashka.example"},
    "deals": {"title": "Столи"},
    "products": {"name": "Стіл", "sku": "ST-1", "price": 900},
    "tasks": {"title": "Зателефонувати"},
}
each_resource = pytest.mark.parametrize("plural", RECORDS)


def ids(api, path):
    return [record["id"] for record in api.read(path)]


@each_resource
def test_it_is_searched_filtered_and_sorted(api, plural):
    first = api.create(f"/{plural}", **RECORDS[plural], brand="Явір")
    values = RECORDS[plural] | ({"sku": "ST-2"} if plural == "products" else {})
    second = api.create(f"/{plural}", **values, brand="Бук")
    assert ids(api, f"/{plural}?q=явір") == [str(first)]
    assert ids(api, f"/{plural}?brand=Бук") == [str(second)]
    assert ids(api, f"/{plural}?sort=brand") == [str(second), str(first)]
    api.patch(f"/{plural}/{first}", {"brand": "Клен"})
    assert (ids(api, f"/{plural}?q=явір"), ids(api, f"/{plural}?q=клен")) == ([], [str(first)])


@each_resource
def test_files_have_it(api, plural):
    api.create(f"/{plural}", **RECORDS[plural], brand="Явір")
    exported = api.get(f"/{plural}/export").text
    assert "brand" in exported.splitlines()[0] and "Явір" in exported
    changed = io.BytesIO(exported.replace("Явір", "Клен").encode())
    answer = api.post(f"/{plural}/import", data={"file": (changed, "file.csv")})
    assert (answer.status_code, answer.json["updated"]) == (200, 1), answer.json
    assert (ids(api, f"/{plural}?q=явір"), ids(api, f"/{plural}?q=клен")) == ([], ["1"])


def test_an_import_keeps_what_its_file_lacks(api):
    api.create("/products", **RECORDS["products"], brand="Явір")
    file = io.BytesIO("sku,name\nST-1,Стілець\n".encode())
    assert api.post("/products/import", data={"file": (file, "file.csv")}).json["updated"] == 1
    assert ids(api, "/products?q=явір") == ids(api, "/products?q=стілець") == ["1"]
