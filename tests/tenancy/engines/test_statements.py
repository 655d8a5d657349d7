"""Statements as PostgreSQL takes them: many rows by one INSERT."""

import pytest

from crm.storage.postgres.pipeline import is_to_be_prepared
from crm.storage.postgres.schema_connection import ROWS_TOGETHER, insert_of_rows
from crm.storage.session import execute_many, rows, transaction
from crm.wsgi import CRMApp

INSERT = "INSERT INTO note (noun, record_id, text, created_at, updated_at) VALUES (?, ?, ?, ?, ?)"
AT = "2026-03-02T09:00:00Z"


@pytest.mark.parametrize("count", [1, ROWS_TOGETHER, 2 * ROWS_TOGETHER + 1])
def test_every_row_is_inserted_once_and_in_its_order(crm: CRMApp, count: int) -> None:
    texts = [f"Нотатка {number}" for number in range(count)]
    with crm.tenants.session("acme"):
        with transaction():
            execute_many(INSERT, [("lead", 1, text, AT, AT) for text in texts])
        assert rows("SELECT text FROM note ORDER BY id") == [(text,) for text in texts]


def test_an_insert_of_rows_numbers_the_parameters_of_each() -> None:
    insert = insert_of_rows("INSERT INTO t (a, b, c) VALUES ($1, $2, 1)")
    assert insert.startswith("INSERT INTO t (a, b, c) VALUES ($1, $2, 1), ($3, $4, 1), ($5, ")
    assert insert.endswith(f"(${2 * ROWS_TOGETHER - 1}, ${2 * ROWS_TOGETHER}, 1)")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = $1 WHERE b = $2",
        "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING",
        "INSERT INTO t (a, b) VALUES ($2, $1)",
        "INSERT INTO t (a) VALUES (coalesce($1, 0))",
    ],
)
def test_what_is_no_plain_insert_is_executed_for_each_row(sql: str) -> None:
    assert insert_of_rows(sql) == ""


@pytest.mark.parametrize(
    ("conditions", "is_prepared"),
    [("lead.client_id = $1", True), ("status = $1", False), ("status IN ($1, $2)", False)],
)
def test_a_list_with_a_filter_is_planned_for_its_values(conditions: str, is_prepared: bool) -> None:
    sql = f"SELECT name FROM lead WHERE {conditions} ORDER BY sort_key ASC, id ASC LIMIT $3"
    assert is_to_be_prepared(sql) == is_prepared
