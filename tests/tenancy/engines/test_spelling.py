"""PostgreSQL's spelling of statements and of the data model."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from crm.storage.postgres.spelling import spell, spell_insert
from tests.concurrency import ROOT
from tests.tenancy.engines import translate_migrations

SPELLINGS = {
    "parameters get numbers, but not in texts": (
        "SELECT 'a ? -- '' ', id FROM \"user\" WHERE name = ? AND source = ?",
        "SELECT 'a ? -- '' ', id FROM \"user\" WHERE name = $1 AND source = $2",
    ),
    "which index to use is left out, but not in texts": (
        "SELECT id FROM lead INDEXED BY lead_name WHERE (+status) = ? AND name <> ' NOT INDEXED'",
        "SELECT id FROM lead WHERE (status) = $1 AND name <> ' NOT INDEXED'",
    ),
    "that no index is to be used is left out": (
        "SELECT id FROM lead NOT INDEXED WHERE (+(status = ?)) AND version + 1 > ?",
        "SELECT id FROM lead WHERE ((status = $1)) AND version + 1 > $2",
    ),
    "functions": (
        "SELECT json_group_array(json_object('id', id)) FROM lead WHERE instr(search_text, ?) > 0",
        "SELECT json_agg(json_build_object('id', id)) FROM lead WHERE strpos(search_text, $1) > 0",
    ),
    "values of a JSON array": (
        "DELETE FROM note WHERE noun = ? AND id IN (SELECT CAST(value AS BIGINT) FROM"
        " json_each(?)) AND text = ?",
        "DELETE FROM note WHERE noun = $1 AND id = ANY (ARRAY(SELECT CAST(value AS BIGINT)"
        " FROM json_array_elements_text(CAST($2 AS JSON)) AS t (value))) AND text = $3",
    ),
    "none of the values of a JSON array": (
        "SELECT sku FROM product WHERE sku NOT IN (SELECT CAST(value AS TEXT) FROM json_each(?))",
        "SELECT sku FROM product WHERE sku <> ALL (ARRAY(SELECT CAST(value AS TEXT)"
        " FROM json_array_elements_text(CAST($1 AS JSON)) AS t (value)))",
    ),
    "upkeep of a full-text index": (
        "INSERT INTO lead_search (rowid, search_text) VALUES (?, ?)",
        "",
    ),
}


@pytest.mark.parametrize("claim", SPELLINGS)
def test_statement_is_spelled(claim: str) -> None:
    sql, expected = SPELLINGS[claim]
    assert spell(sql) == expected


def test_insert_returns_the_id() -> None:
    sql = "INSERT INTO note (text) VALUES (?)"
    assert spell_insert(sql) == "INSERT INTO note (text) VALUES ($1) RETURNING id"
    sql = "INSERT INTO event (id) VALUES (?)"
    assert spell_insert(sql) == "INSERT INTO event (id) VALUES ($1) RETURNING sequence"


# Every statement

TESTED = ("access", "alerts", "cabinet", "outbox", "records", "resources", "spreadsheets")
# What the code executes where it knows that the tenant is in a file: JSON of records, words of
# texts by an index that it keeps itself, and numbers of rows.
FILE_ONLY = re.compile(
    r"^(?!\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH))|CAST\(json_object|_search\b|search_p"
)
# What both engines take, but not with the same result.
DIFFERENT = re.compile(r"\b(LIKE|GLOB|REGEXP|MATCH|COLLATE|CURRENT_\w+)\b|\bemail\b *(=|<|>|IN\b)")


@pytest.mark.deep
@pytest.mark.process
@pytest.mark.timeout(3600)
def test_every_statement_is_one_of_postgresql_too(
    schema: psycopg.Connection, tmp_path: Path
) -> None:
    """Of all that quick tests have the code execute, nothing is unknown to PostgreSQL."""
    folders = [f"tests/{name}" for name in TESTED]
    options = ("-q", "-m", "quick", "-n", "2", "--dist", "loadfile", "--database", "sqlite")
    command = [sys.executable, "-m", "pytest", *options, "-p", "tests.statement_recorder", *folders]
    environ = os.environ | {"STATEMENTS": str(tmp_path), "PYTEST_ADDOPTS": ""}
    subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=3000)
    texts = {sql for path in tmp_path.iterdir() for sql in json.loads(path.read_text("utf-8"))}
    statements = {sql for sql in texts if not FILE_ONLY.search(sql)}
    assert len(statements) > 1000
    refused = [sql for sql in statements if DIFFERENT.search(re.sub(r"'[^']*'|lower\(", "", sql))]
    for number, sql in enumerate(statements):
        prepared = schema.pgconn.prepare(
            b"s%d" % number, spell(sql.replace(" main.", " ")).encode()
        )
        if prepared.error_message:
            refused.append(f"{sql}\n{prepared.error_message.decode()}")
    assert not refused, "\n".join(refused)


# The data model


def test_every_table_is_translated() -> None:
    """If it is not: `python -m tests.generated`."""
    assert translate_migrations.PATH.read_text("utf-8") == translate_migrations.generate()
