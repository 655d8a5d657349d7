"""E-mail addresses are found in any letter case, and nobody else's is, on every engine."""

import pytest

from crm.storage.dialect import equals
from crm.storage.session import rows
from crm.wsgi import CRMApp
from tests.conftest import Api

SAME = [("O@Acme.ua", "o@acme.UA"), ("олена@ACME.ua", "олена@acme.ua"), ("Є@acme.ua", "є@acme.ua")]
# Equal by Unicode's rules for comparing without case: mail to one would reach another person.
DIFFERENT = [("straße@acme.ua", "strasse@acme.ua"), ("ﬁnn@acme.ua", "finn@acme.ua")]


@pytest.mark.parametrize(
    ("stored", "given", "count"),
    [*((*pair, 1) for pair in SAME), *((*pair, 0) for pair in DIFFERENT)],
)
def test_either_case_finds_an_address_and_other_letters_do_not(
    api: Api, stored: str, given: str, count: int
) -> None:
    for path in ("/leads", "/clients"):
        id = api.create(path, name="Олена", email=stored)
        assert [record["id"] for record in api.read(f"{path}?email={given}")] == [id] * count


@pytest.mark.files
@pytest.mark.parametrize("table", ["user", "lead", "client", "contact"])
def test_addresses_are_found_by_an_index(crm: CRMApp, table: str) -> None:
    with crm.tenants.session("acme"):
        sql = f'EXPLAIN QUERY PLAN SELECT id FROM "{table}" WHERE {equals("email")}'
        ((*_, step),) = rows(sql, ("olena@acme.example",))
    assert step.replace("COVERING ", "") == f"SEARCH {table} USING INDEX {table}_email (<expr>=?)"
