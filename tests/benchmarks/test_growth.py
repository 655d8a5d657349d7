"""No request reads more the larger a tenant is, whatever it asks for, of owners and of sellers."""

import re
from collections.abc import Iterator

import pytest

from crm import CRMApp
from tests.benchmarks.growth.data import make_tenants
from tests.benchmarks.growth.scans import SIZES, Statement, growing, growth_of
from tests.benchmarks.growth.walk import Request, Tenant, is_page

pytestmark = [
    pytest.mark.deep,
    pytest.mark.files,
    pytest.mark.timeout(900),
    pytest.mark.process,  # Typst makes a PDF
]

# Parts of the requests and statements that may read a large table as a whole, and why.
MAY_SCAN = {
    "/export?": "a file of the records of some days is read in the order of the file",
    "/leads?created_until=": "at most 20,000 newer records are passed, or an index is read",
    "has_custom.": "who has no value: nearly all are others, or 10,001 are counted soon",
    "seller /products": "a total, counted anew after a change",
    "FROM row_changes": "a total, counted anew after a change: remembered, and asked for by total",
    "FROM paper INDEXED BY paper_date": "at most 10,000 are added up: an index is walked for them",
    "FROM main.paper INDEXED BY paper_date": "as above, of a seller",
    "/papers?total=true": "a total, counted anew after a change",
    "INDEXED BY deal_under_way": "the forecast: it adds up all open deals",
    "deal_id IS NOT NULL AND status IN": "deals of all are told apart by the ids of open tasks'",
    "DELETE FROM word": "an erasure forgets sources that nobody has any more",
    "FROM contact WHERE updated_at >= ?": "an erasure looks for the person in all texts",
    "FROM deal_item WHERE updated_at >= ?": "as above",
    "FROM note WHERE updated_at >= ?": "as above",
    "FROM audit_entry WHERE at >= ?": "as above",
    "FROM event WHERE at >= ?": "as above",
}
# Routes that no request is made for, and why.
NOT_ASKED = {
    r"/import/<name>": "a file that waits between two forms",
    r"/(i|invite|reset|email|enter)/<token>": "a link that is used once",
    r"/p/<token>": "a link to one paper, of which the tenant has no token",
    r"/papers/<id>/pictures/<sha256>": "files",
    r"/(cabinet/<name>|guides/<path:name>|help/<name>)": "files",
}


@pytest.fixture(scope="module")
def crm(tmp_path_factory) -> Iterator[CRMApp]:
    crm = make_tenants(tmp_path_factory.mktemp("growth") / "data", SIZES)
    yield crm
    crm.tenants.forget_idle()


def test_every_page_and_every_operation_that_reads_is_asked(crm):
    tenant = Tenant(crm, [*SIZES][0])
    addresses = {(request.role, request.address.partition("?")[0]) for request in tenant.requests()}
    asked = {role: set() for role, _ in addresses}
    for role, address in addresses:
        if rule := tenant.rule_of(address):
            asked[role].add(rule.rule)
    rules = {rule.rule for rule in crm.url_map.iter_rules() if is_page(rule)}
    for role in ("owner", "seller"):
        left_out = rules - asked[role]
        assert not [rule for rule in left_out if not re.search("|".join(NOT_ASKED), rule)]
    names = {request.name for request in tenant.requests()}
    paths = crm.api.document("")["paths"].items()
    assert not {f"/api/v1{path}" for path, item in paths if "get" in item} - names


def test_no_statement_reads_a_large_table_as_a_whole(crm):
    growing_statements = {
        f"{statement.request.role} {statement.request.name}: {why}\n    {statement.sql}"
        for statement, why in growing(crm)
    }
    texts = {text: " ".join(text.split()) for text in growing_statements}
    bad = [text for text, line in texts.items() if not any(map(line.count, MAY_SCAN))]
    assert not bad, "\n".join(bad)
    needed = {part for part in MAY_SCAN if any(part in line for line in texts.values())}
    assert needed == MAY_SCAN.keys()


@pytest.mark.parametrize(
    ("sql", "grows"),
    [
        ("SELECT count(*) FROM lead WHERE comment = 'x'", True),
        ("WITH lead AS NOT MATERIALIZED (SELECT * FROM main.lead) SELECT name FROM lead", True),
        ("SELECT DISTINCT source FROM lead WHERE source IS NOT NULL LIMIT 100", True),
        ("UPDATE note SET text = '' WHERE text = 'x'", True),
        ("SELECT name FROM lead ORDER BY id DESC LIMIT 50", False),
        ("SELECT name FROM lead WHERE id = 7", False),
        ("SELECT name FROM stage", False),
    ],
)
def test_a_scan_without_a_bound_is_seen(crm, sql, grows):
    statement = Statement(sql, (), False, Request("owner", "GET", "/", "/"))
    assert bool(growth_of(crm, statement)) == grows
