"""The data model of a tenant is the same in a file and in a schema, whatever version they were."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from crm.storage.sqlite import migrations
from tests.concurrency import ROOT
from tests.tenancy.engines.conftest import execute_in
from tests.tenancy.engines.translate_migrations import (
    FIRST_VERSION,
    statements_of_file,
    translate_step,
)

pytestmark = pytest.mark.process
TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea"}
ACTIONS = {"NO ACTION": "a", "CASCADE": "c", "SET NULL": "n"}
COUNTER = "event_sequence"  # the one table that only a schema has
FILE_TABLES = ("row_changes", "search_progress")  # those that only a file has
# Those of the recipes are as the steps of a release to come.
RECIPES = sorted((ROOT / "tests/data/recipes").glob("*/crm/storage/sqlite/migrations/*.sql"))
NEXT_STEPS = [
    *migrations.STEPS,
    *((path.name, migrations.split_statements(path.read_text("utf-8"))) for path in RECIPES),
]

COLUMNS = """
    SELECT attname, format_type(atttypid, NULL), attnotnull, attidentity,
        pg_get_expr(adbin, adrelid), collname
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE attrelid = CAST(%s AS regclass) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
INDEXES = """
    SELECT relname, indisunique, indisprimary, amname, pg_get_expr(indpred, indrelid),
        array(SELECT pg_get_indexdef(indexrelid, n, false) FROM generate_series(1, indnatts) AS n)
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
    WHERE indrelid = CAST(%s AS regclass)
"""
FOREIGN_KEYS = """
    SELECT (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1]),
        (SELECT relname FROM pg_class WHERE oid = confrelid),
        (SELECT attname FROM pg_attribute WHERE attrelid = confrelid AND attnum = confkey[1]),
        confdeltype
    FROM pg_constraint WHERE conrelid = CAST(%s AS regclass) AND contype = 'f'
"""
CHECKS = """
    SELECT pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = CAST(%s AS regclass) AND contype = 'c'
"""


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def tables_of(connection: psycopg.Connection) -> set[str]:
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    return {name for (name,) in connection.execute(sql)}


def tables_of_file(file: sqlite3.Connection) -> dict[str, str]:
    """{name: its CREATE TABLE}, without those that hold a full-text index."""
    sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return {name: text for name, text in file.execute(sql) if "_search" not in name}


def columns(schema: psycopg.Connection, table: str) -> list[tuple[Any, ...]]:
    rows = schema.execute(COLUMNS, (f'"{table}"',))
    return [
        (name, type_name, required, collation) for name, type_name, required, *_, collation in rows
    ]


def columns_of_file(file: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    """(name, type, whether it is required, collation) of each column, as columns() has them."""
    described = file.execute(f'PRAGMA table_info("{table}")').fetchall()
    return [
        (name, TYPES[type_name], bool(is_required or key), "C" if type_name == "TEXT" else None)
        for _, name, type_name, is_required, _, key in described
    ]


def indexes(schema: psycopg.Connection, table: str) -> set[tuple[str, bool]]:
    """As indexes_of_file(): keys are called otherwise, and full-text indexes are made otherwise."""
    return {
        (name, is_unique)
        for name, is_unique, is_key, method, *_ in schema.execute(INDEXES, (f'"{table}"',))
        if method != "gin" and not is_key and not name.endswith("_key")
    }


def indexes_of_file(file: sqlite3.Connection, table: str) -> set[tuple[str, bool]]:
    """(name, whether it is unique) of each index made by CREATE INDEX."""
    listed = file.execute(f'PRAGMA index_list("{table}")').fetchall()
    return {(name, bool(is_unique)) for _, name, is_unique, origin, _ in listed if origin == "c"}


def model(schema: psycopg.Connection) -> dict[str, Any]:
    """Everything of the selected schema by table."""
    return {
        table: (
            schema.execute(COLUMNS, (f'"{table}"',)).fetchall(),
            sorted(schema.execute(INDEXES, (f'"{table}"',)), key=str),
            sorted(schema.execute(FOREIGN_KEYS, (f'"{table}"',))),
            sorted(schema.execute(CHECKS, (f'"{table}"',))),
        )
        for table in tables_of(schema)
    }


def test_both_engines_have_the_same_data_model(
    schema: psycopg.Connection, file: sqlite3.Connection
) -> None:
    migrations.migrate(file, "")
    tables = tables_of_file(file)
    for name in FILE_TABLES:
        del tables[name]
    assert tables_of(schema) == {*tables, COUNTER}
    for table, sql in tables.items():
        assert columns(schema, table) == columns_of_file(file, table)
        assert indexes(schema, table) == indexes_of_file(file, table)
        keys = {
            (column, target, target_column or "id", ACTIONS[on_delete])
            for _, _, target, column, target_column, _, on_delete, _ in file.execute(
                f'PRAGMA foreign_key_list("{table}")'
            )
        }
        assert set(schema.execute(FOREIGN_KEYS, (f'"{table}"',))) == keys
        assert len(schema.execute(CHECKS, (f'"{table}"',)).fetchall()) == sql.count("CHECK (")


def test_each_full_text_index_is_a_trigram_index(
    schema: psycopg.Connection, file: sqlite3.Connection
) -> None:
    migrations.migrate(file, "")
    sql = "SELECT name FROM sqlite_schema WHERE sql LIKE '%USING fts5%'"
    expected = {
        (name, name.removesuffix("_search"), "(search_text crm.gin_trgm_ops)")
        for (name,) in file.execute(sql)
    }
    sql = "SELECT indexname, tablename, indexdef FROM pg_indexes WHERE indexdef LIKE '%USING gin%'"
    assert {
        (name, table, text.partition("USING gin ")[2].partition(" WITH")[0])
        for name, table, text in schema.execute(sql)
    } == expected
    assert len(expected) == 5


@pytest.mark.parametrize("version", range(FIRST_VERSION, len(NEXT_STEPS)))
def test_later_steps_make_of_a_schema_what_a_new_one_is(
    schema: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(migrations, "STEPS", NEXT_STEPS)
    later = [part for _, step in NEXT_STEPS[version:] for part in translate_step(step)]
    execute_in(schema, "t_old", [*translate_step(statements_of_file(version)), *later])
    migrated = model(schema)
    execute_in(schema, "t_new", translate_step(statements_of_file()))
    try:
        assert migrated == model(schema)
        assert "supplier" in migrated
    finally:
        schema.execute("DROP SCHEMA t_old, t_new CASCADE")
