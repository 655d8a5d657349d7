"""PostgreSQL's spelling of statements and of the data model."""

import pytest

from crm.storage.postgres.spelling import spell, spell_insert
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
        "DELETE FROM note WHERE noun = ? AND id IN (SELECT +CAST(value AS BIGINT) FROM"
        " json_each(?)) AND text = ?",
        "DELETE FROM note WHERE noun = $1 AND id = ANY (ARRAY(SELECT CAST(value AS BIGINT)"
        " FROM json_array_elements_text(CAST($2 AS JSON)) AS t (value))) AND text = $3",
    ),
    "none of the values of a JSON array": (
        "SELECT sku FROM product WHERE sku NOT IN (SELECT +CAST(value AS TEXT) FROM json_each(?))",
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


# The data model


def test_every_table_is_translated() -> None:
    """If it is not: `python -m tests.generated`."""
    assert translate_migrations.PATH.read_text("utf-8") == translate_migrations.generate()
