"""Statements as PostgreSQL takes them: many rows by one INSERT."""

import pytest

from crm.storage.postgres.schema_connection import ROWS_TOGETHER
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
