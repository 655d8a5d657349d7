"""The data model of a tenant is the same in a file and in a schema, whatever version they were."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from crm.storage.sqlite import migrations
from tests.concurrency import ROOT
from tests.tenancy.engines.conftest import execute_in, make_schema
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


def normal(expression: str | None) -> str | None:
    """An expression without types, parentheses, and quotes around numbers and names."""
    if expression is None:
        return None
    text = re.sub(r"::\w+", "", expression)
    text = re.sub(r"'(-?\d+)'", r"\1", text).replace('"', "")
    return re.sub(r"[\s()]+", " ", text).strip().lower()


def columns(schema: psycopg.Connection, table: str) -> list[tuple[Any, ...]]:
    rows = schema.execute(COLUMNS, (f'"{table}"',))
    return [
        (name, type_name, is_required, None if identity else default, identity, collation)
        for name, type_name, is_required, identity, default, collation in rows
    ]


def columns_of_file(file: sqlite3.Connection, table: str, sql: str) -> list[tuple[Any, ...]]:
    listed = []
    for _, name, type_name, is_required, default, key in file.execute(
        f'PRAGMA table_info("{table}")'
    ):
        definition = next(
            line for line in sql.splitlines() + sql.split(",") if line.split()[:1] == [name]
        )
        collation = "C" if type_name == "TEXT" else None
        identity = "d" if "AUTOINCREMENT" in definition and table != "event" else ""
        if table == "event" and key:
            default = "crm.next_sequence()"
        elif (table, name) == ("tenant", "instance_id"):  # by a trigger
            default = "substr((gen_random_uuid())::text, 1, 8)"
        elif default is not None and default.startswith("'"):
            default += "::text"
        listed.append(
            (name, TYPES[type_name], bool(is_required or key), default, identity, collation)
        )
    return listed


def indexes(schema: psycopg.Connection, table: str) -> set[tuple[Any, ...]]:
    """Those made by CREATE INDEX have names; keys do not, which are called otherwise."""
    results = set()
    for name, is_unique, is_key, method, condition, parts in schema.execute(
        INDEXES, (f'"{table}"',)
    ):
        if method == "gin":
            continue
        is_made = not is_key and not name.endswith("_key")
        listed = tuple(map(normal, parts))
        results.add((name if is_made else "", is_unique, listed, normal(condition)))
    return results


def indexes_of_file(file: sqlite3.Connection, table: str) -> set[tuple[Any, ...]]:
    results = set()
    for _, name, is_unique, origin, _ in file.execute(f'PRAGMA index_list("{table}")').fetchall():
        if origin == "c":
            ((sql,),) = file.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,))
            text, _, condition = " ".join(sql.split()).partition(" WHERE ")
            condition = f"{condition} = 1" if re.fullmatch(r"\w+", condition) else condition
            listed = re.split(r",\s*(?![^()]*\))", text.partition("(")[2].removesuffix(")"))
            entry = (name, bool(is_unique), tuple(map(normal, listed)), normal(condition or None))
        else:
            parts = file.execute(f'PRAGMA index_info("{name}")').fetchall()
            entry = ("", True, tuple(column for _, _, column in parts), None)
        results.add(entry)
    keys = [name for _, name, *_, key in file.execute(f'PRAGMA table_info("{table}")') if key]
    if len(keys) == 1:  # the id, which is no index there
        results.add(("", True, tuple(keys), None))
    return results


def model(schema: psycopg.Connection) -> dict[str, Any]:
    """Everything of the selected schema by table."""
    return {
        table: (
            columns(schema, table),
            indexes(schema, table),
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
        assert columns(schema, table) == columns_of_file(file, table, sql)
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


def test_sequence_counts_without_gaps_in_each_schema(schema: psycopg.Connection) -> None:
    insert = """
        INSERT INTO event (id, type, at, noun, record_id, data, previous)
        VALUES ('', '', '', '', 1, '', '') RETURNING sequence
    """
    assert schema.execute(insert).fetchone() == (1,)
    with schema.transaction(force_rollback=True):
        assert schema.execute(insert).fetchone() == (2,)
    assert schema.execute(insert).fetchone() == (2,)
    make_schema(schema, "t_other")
    try:
        assert schema.execute(insert).fetchone() == (1,)
    finally:
        schema.execute("DROP SCHEMA t_other CASCADE")


def test_each_tenant_gets_an_instance_id(schema: psycopg.Connection) -> None:
    insert = (
        "INSERT INTO tenant (id, name, plan, created_at, tidied_at) VALUES (1, '', 'base', '', '')"
    )
    first = schema.execute(f"{insert} RETURNING instance_id").fetchone()[0]
    schema.execute("DELETE FROM tenant")
    second = schema.execute(f"{insert} RETURNING instance_id").fetchone()[0]
    assert re.fullmatch("[0-9a-f]{8}", first) and first != second
