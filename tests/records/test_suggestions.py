"""The values that forms and filters propose, and that few rows are read to find them."""

import pytest

from crm.access import rights
from crm.records import suggestions
from crm.resources import users
from crm.storage.session import rows
from tests.conftest import Api, key_for

SELLER = 3
COLUMNS = {
    "lead": ("source", "lost_reason"),
    "client": ("source",),
    "deal": ("source", "lost_reason"),
    "product": ("category", "unit"),
}
TAGGED = ("lead", "client", "deal")


@pytest.fixture
def seller(crm):
    with crm.tenants.session("acme"):
        assert users.create({"name": "Solomiya", "role": "seller"}).id == SELLER
    return Api(crm, "acme", key_for(crm, "acme", "*", SELLER))


@pytest.fixture
def varied(api, seller):
    """Leads of several sources and tags, deleted ones among them; two are of a seller."""
    for number, source in enumerate(("виставка", "Site", "ads", "site", None, "ads", "ґанок")):
        tags = [f"T{number % 4}", "всі"]
        about = {"source": source, "tags": tags}
        api.create("/leads", name="Lead", phone="0671234567", **about)
    for id in (3, 6, 7):  # all with the source ads, and that of another
        api.delete(f"/leads/{id}")
    seller.create("/leads", name="Own", phone="0671234567", source="own", tags=["mine"])
    theirs = {"source": "given", "tags": ["given"], "assigned_to": str(SELLER)}
    api.create("/leads", name="Given", phone="0671234567", **theirs)


def test_each_value_of_live_records_is_proposed_once_in_order(crm, varied):
    with crm.tenants.session("acme"):
        assert suggestions.values_of("lead", "source") == ["виставка", "given", "own", "Site"]
        assert suggestions.tags_of("lead", 9) == ["всі", "given", "mine", "t0", "t1", "t3"]
        assert suggestions.values_of("client", "source") == suggestions.tags_of("deal", 9) == []


def test_so_many_are_proposed_and_no_more(crm, varied):
    with crm.tenants.session("acme"):
        assert len(suggestions.values_of("lead", "source", 2)) == 2
        assert len(suggestions.tags_of("lead", 3)) == 3


def test_a_seller_gets_the_values_of_the_newest_own_records(crm, varied, seller, monkeypatch):
    with crm.tenants.session("acme") as session:
        session.user_id = SELLER
        rights.limit_to_own_records()
        assert suggestions.values_of("lead", "source") == ["given", "own"]
        assert suggestions.tags_of("lead", 9) == ["given", "mine"]
        assert suggestions.values_of("product", "category") == []
    for source in ("newer", "newest"):
        seller.create("/leads", name="Own", phone="0671234567", source=source)
    monkeypatch.setattr(suggestions, "MAX_OWN_RECORDS", 2)
    with crm.tenants.session("acme") as session:
        session.user_id = SELLER
        rights.limit_to_own_records()
        assert suggestions.values_of("lead", "source") == ["given", "newer", "newest"]


@pytest.mark.files
@pytest.mark.parametrize("own", [False, True], ids=["all records", "own records"])
def test_values_are_looked_up_by_an_index_of_them(crm, seller, monkeypatch, own):
    plans: dict[str, list[str]] = {}

    def explained(sql, params):
        session_sql = session.limited(sql, params)
        steps = session.connection.execute(f"EXPLAIN QUERY PLAN {session_sql[0]}", session_sql[1])
        plans[sql] = [step[3] for step in steps]
        return rows(sql, params)

    monkeypatch.setattr(suggestions, "remembered_rows", explained)
    with crm.tenants.session("acme") as session:
        if own:
            session.user_id = SELLER
            rights.limit_to_own_records()
        for noun, columns in COLUMNS.items():
            for column in columns:
                suggestions.values_of(noun, column)
        for noun in TAGGED:
            suggestions.tags_of(noun, 9)
    assert len(plans) == sum(map(len, COLUMNS.values())) + len(TAGGED)
    for sql, steps in plans.items():
        tables = [step for step in steps if step.startswith(("SEARCH", "SCAN"))]
        scans = [step for step in tables if step.split()[1] not in ("known", "own", "newest")]
        assert scans and all(step.startswith("SEARCH") for step in scans), (sql, steps)
