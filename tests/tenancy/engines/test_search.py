"""Search in a schema: the same rows as the rule of `q` gives, by the trigram index."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor

from crm.records import search
from crm.records.pagination import MAX_INTEGER
from crm.storage import search_index
from crm.storage.postgres.spelling import spell
from crm.values import folding
from tests.records.test_search import HOSTILE, PEOPLE, WORDS, norm, should_match

pytestmark = pytest.mark.process
ROWS = 1500
INSERT = """
    INSERT INTO lead (id, name, phone, status, currency, created_at, updated_at, search_text)
    VALUES (?, ?, '1', 'new', 'UAH', '', '', ?)
"""
SIGNS = ("100%", "a_b", "50%_", "\\", "a\\%b", "c:\\temp", "'", '"', "x" * 300)


class Leads:
    """Leads in a schema, and their texts by id."""

    def __init__(self, schema: psycopg.Connection):
        self.cursor = RawCursor(schema)
        self.texts: dict[int, list[str]] = {}

    def run(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.cursor.execute(spell(sql).encode(), params).fetchall()

    def add(self, *texts: str) -> None:
        id = len(self.texts) + 1
        name = texts[0].translate(folding.UNSTORABLE)
        self.cursor.execute(spell(INSERT).encode(), (id, name, folding.fold(*texts)))
        self.texts[id] = list(texts)

    def found(self, q: str, order: str) -> list[int]:
        by_id = order == "id DESC"
        below = MAX_INTEGER if by_id else None
        matching, params, *_ = search.condition("lead", q, self.run, by_id=by_id, below=below)
        sql = f"SELECT id FROM lead WHERE {matching} ORDER BY {order}"
        return [id for (id,) in self.run(sql, params)]

    def expected(self, q: str, order: str) -> list[int]:
        ids = [id for id, texts in self.texts.items() if should_match(texts, q)]
        if order == "id DESC":
            return sorted(ids, reverse=True)
        names = {id: texts[0].translate(folding.UNSTORABLE) for id, texts in self.texts.items()}
        return sorted(ids, key=lambda id: (names[id].encode(), id))


@pytest.fixture
def leads(schema: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leads]:
    monkeypatch.setattr(search_index, "is_sqlite", lambda: False)
    leads, dice = Leads(schema), random.Random(7)
    with schema.transaction():
        for text in (*HOSTILE, *SIGNS):
            leads.add("", text)
        while len(leads.texts) < ROWS:
            words = " ".join(dice.choices([*WORDS, *SIGNS, "скрізь"], k=dice.randrange(5)))
            leads.add(f"{dice.choice(PEOPLE)} {dice.choice(PEOPLE)}", words)
    schema.execute("ANALYZE lead")
    yield leads


@pytest.mark.parametrize("probed", [pytest.param(search.PROBE_ROWS, marks=pytest.mark.deep), 40])
def test_queries_give_what_the_rule_gives(
    leads: Leads, monkeypatch: pytest.MonkeyPatch, probed: int
) -> None:
    monkeypatch.setattr(search, "PROBE_ROWS", probed)
    dice = random.Random(probed)
    texts = list(leads.texts.values())
    queries = [*SIGNS, *HOSTILE, "скрізь", "%%%", "___", "a_b 100%", "\\\\\\", ""]
    for _ in range(150):
        parts = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            text = dice.choice([text for text in dice.choice(texts) if text])
            start = dice.randrange(len(text))
            parts.append(text[start : start + dice.randrange(1, 12)])
        queries.append(dice.choice([str.upper, str.lower, str])(" ".join(parts)))
    matched = 0
    for q in queries:
        order = dice.choice(["id DESC", "name, id"])
        expected = leads.expected(q, order)
        assert leads.found(q, order) == expected, (q, order)
        matched += bool(norm(q)) and bool(expected)
    assert matched > 100


def test_the_trigram_index_finds_rare_words(leads: Leads) -> None:
    leads.add("Олена", "рідкослово")
    sql, params = search_index.matching_ids("lead", [("рідкослово",)]) or ("", [])
    leads.cursor.execute(b"SET enable_seqscan = off")
    explain = b"EXPLAIN " + spell(sql).encode()
    plan = "\n".join(line for (line,) in leads.cursor.execute(explain, params))
    assert "lead_search" in plan
