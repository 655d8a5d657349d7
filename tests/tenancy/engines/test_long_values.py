"""The longest values that are allowed fit into PostgreSQL's indexes, whose entries have a limit."""

import random

import pytest

from tests.conftest import Api

# PostgreSQL compresses what repeats; letters of four bytes at random cannot be made shorter.
LETTERS = [chr(code) for code in range(0x20000, 0x2A000)]


def longest(characters: int) -> str:
    return "".join(random.Random(characters).choices(LETTERS, k=characters))


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/leads", {"name": 255, "source": 64, "external_id": 128, "company": 255}),
        ("/clients", {"name": 255, "source": 64, "external_id": 128}),
        ("/deals", {"title": 255, "source": 64, "external_id": 128}),
        ("/products", {"name": 255, "sku": 64, "category": 128, "external_id": 128}),
        ("/tasks", {"title": 255, "external_id": 128}),
    ],
)
def test_the_longest_values_fit_into_the_indexes(api: Api, path: str, fields: dict) -> None:
    values = {name: longest(length) for name, length in fields.items()}
    given = values | {"/leads": {"phone": "+380501234567"}, "/products": {"price": 1}}.get(path, {})
    record = api.read(f"{path}/{api.create(path, **given)}")
    assert {name: record[name] for name in values} == values


def test_the_longest_path_of_an_idempotent_request_is_stored(api: Api) -> None:
    key = {"Idempotency-Key": longest(10).encode("unicode_escape").decode()[:255]}
    path = "/leads/" + "9" * 3000 + "/notes"
    assert api.post(path, {"text": "a"}, headers=key).status_code in (404, 422)
