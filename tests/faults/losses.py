"""What must be there after a fault: everything that was answered, and nothing in parts."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.traffic import Look, Operation
from tests.tables import check_search_index

NOUNS = ("lead", "client", "deal", "product", "task")


def losses(operations: list[Operation], look: Look, cut: float = float("inf")) -> Iterator[str]:
    """What is not as one writer's operations left it at a place of the trace."""
    before: dict[str, Any] = {}
    under_way: dict[str, Any] = {}
    for operation in operations:
        if operation.ended <= cut:
            before |= operation.after
        elif operation.begun <= cut:
            under_way = operation.after
            what = operation.what
    # It may have been committed and not answered.
    wholly = {path: look(path) == view for path, view in under_way.items()}
    if any(wholly.values()):
        before |= under_way
        if not all(wholly.values()):
            untouched = [path for path, view in under_way.items() if view == before.get(path)]
            if set(untouched) != set(under_way):
                yield f"{what} is there in parts: {wholly}"
    for path, view in before.items():
        result = look(path)
        if result != view:
            yield f"{path} is {result}\n  instead of {view}"


def faults_inside(path: Path, has_gaps: bool = False) -> Iterator[str]:
    """What is not whole in a tenant's file, or disagrees. `has_gaps`: it was restored, so that
    numbers of events are left out."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:

        def rows(sql: str) -> list[tuple]:
            return file.execute(sql).fetchall()

        if (result := rows("PRAGMA integrity_check")) != [("ok",)]:
            yield f"integrity_check: {result[:3]}"
            return
        if result := rows("PRAGMA foreign_key_check"):
            yield f"foreign_key_check: {result[:3]}"
        for noun in NOUNS:
            try:
                check_search_index(file, noun)
            except sqlite3.DatabaseError as error:
                yield f"the search index of {noun}: {error}"
        sequence = [number for (number,) in rows("SELECT sequence FROM event ORDER BY sequence")]
        if not has_gaps and sequence != list(range(1, len(sequence) + 1)):
            yield "the events have gaps"
        # These tables hide the file's own, which have no such index.
        for table in ("event", "audit_entry"):
            rows(f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table}")
            rows(f"CREATE INDEX temp.{table}_of ON {table} (record_id)")
        for what, sql in _DISAGREEMENTS.items():
            if result := rows(sql):
                yield f"{what}: {result[:3]}"


_DISAGREEMENTS = (
    {
        f"the versions of a {noun} and its trail of changes": f"""
        SELECT id, version, (SELECT count(*) FROM audit_entry
                             WHERE audit_entry.noun = '{noun}' AND record_id = {noun}.id) AS changes
        FROM {noun} WHERE version <> 1 + changes
    """
        for noun in NOUNS
    }
    | {
        f"a {noun} and its event of creation": f"""
        SELECT id, (SELECT count(*) FROM event
                    WHERE type = '{noun}.created' AND record_id = {noun}.id) AS events
        FROM {noun} WHERE events <> 1 {"AND sku NOT LIKE 'I-%'" if noun == "product" else ""}
    """
        for noun in NOUNS
    }
    | {
        f"a {noun} and what its events tell": f"""
        SELECT sequence, event.type, {noun}.version FROM event
        JOIN {noun} ON event.noun = '{noun}' AND record_id = {noun}.id
        WHERE data ->> '$.{noun}.version' > {noun}.version
           OR (data ->> '$.{noun}.version' = {noun}.version
               AND data ->> '$.{noun}.updated_at' <> {noun}.updated_at)
    """
        for noun in NOUNS
    }
    | {
        "the changes of a client and their events": """
        SELECT id, (SELECT count(*) FROM audit_entry
                    WHERE noun = 'client' AND record_id = client.id) AS changes,
                   (SELECT count(*) FROM event
                    WHERE type = 'client.updated' AND record_id = client.id) AS events
        FROM client WHERE changes <> events + (deleted_at IS NOT NULL)
    """,
        "the changes of a product and their events": """
        SELECT id, (SELECT count(*) FROM audit_entry
                    WHERE noun = 'product' AND record_id = product.id) AS changes,
                   (SELECT count(*) FROM event
                    WHERE type = 'product.updated' AND record_id = product.id) AS events
        FROM product WHERE changes <> events + (deleted_at IS NOT NULL) AND sku NOT LIKE 'I-%'
    """,
        "a task that is done and its event": """
        SELECT id FROM task WHERE (status = 'done') <> (SELECT count(*) FROM event
            WHERE type = 'task.completed' AND record_id = task.id)
    """,
        "the amount of a deal and its items": """
        SELECT id, amount, (SELECT sum(total) FROM deal_item WHERE deal_id = deal.id) AS total
        FROM deal WHERE amount_mode = 'items' AND amount IS NOT total
    """,
        "a deal and its last move": """
        SELECT id, stage_id FROM deal WHERE stage_id IS NOT
            (SELECT to_stage_id FROM stage_move WHERE deal_id = deal.id ORDER BY id DESC LIMIT 1)
    """,
        "a conversion": """
        SELECT id, status, client_id, deal_id FROM lead
        WHERE (status = 'converted') <> (deal_id IS NOT NULL AND client_id IS NOT NULL)
           OR (status = 'converted') <> (SELECT count(*) FROM event
                WHERE type = 'lead.converted' AND record_id = lead.id)
           OR (deal_id IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM deal WHERE deal.id = lead.deal_id AND deal.lead_id = lead.id))
    """,
        "a closed deal and its event": """
        SELECT id FROM deal WHERE (status = 'won') <> (SELECT count(*) FROM event
            WHERE type = 'deal.won' AND record_id = deal.id)
    """,
        "imports and their events": """
        SELECT imports, events FROM (SELECT count(*) AS imports FROM import_run
                WHERE noun = 'product'),
            (SELECT count(*) AS events FROM event WHERE type = 'product.imported')
        WHERE imports <> events
    """,
        "a price of an import": """
        SELECT category, count(*) FROM product WHERE category LIKE 'I-%'
        GROUP BY category HAVING count(*) NOT IN (20, 30)
    """,
    }
)
