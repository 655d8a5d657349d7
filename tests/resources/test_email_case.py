"""E-mail addresses are found in any letter case, and nobody else's is, on every engine."""

import pytest

from crm.storage.dialect import equals
from crm.storage.session import rows
from crm.wsgi import CRMApp
from tests.conftest import Api

SAME = [("O@Acme.ua", "o@acme.UA"), ("олена@ACME.ua", "олена@acme.ua"), ("Є@acme.ua", "є@acme.ua")]
# Equal by Unicode's rules for comparing without case: mail to one would reach another person.
DIFFERENT = [("straße@acme.ua", "strasse@acme.ua"), ("ﬁnn@acme.ua", "finn@acme.ua")]


@pytest.mark.parametrize(("stored", "given"), SAME)
def test_either_case_finds_an_address(api: Api, stored: str, given: str) -> None:
    id = api.create("/leads", name="Олена", email=stored)
    assert [lead["id"] for lead in api.read(f"/leads?email={given}")] == [id]
    client = api.create("/clients", name="Олена", email=stored)
    assert [result["id"] for result in api.read(f"/clients?email={given}")] == [client]


@pytest.mark.parametrize(("stored", "given"), DIFFERENT)
def test_other_letters_must_be_the_same(api: Api, stored: str, given: str) -> None:
    api.create("/leads", name="Олена", email=stored)
    assert api.read(f"/leads?email={given}") == []
    api.create("/clients", name="Олена", email=stored)
    assert api.read(f"/clients?email={given}") == []


@pytest.mark.files
@pytest.mark.parametrize("table", ["user", "lead", "client", "contact"])
def test_addresses_are_found_by_an_index(crm: CRMApp, table: str) -> None:
    with crm.tenants.session("acme"):
        sql = f'EXPLAIN QUERY PLAN SELECT id FROM "{table}" WHERE {equals("email")}'
        ((*_, step),) = rows(sql, ("olena@acme.example",))
    assert step.replace("COVERING ", "") == f"SEARCH {table} USING INDEX {table}_email (<expr>=?)"
