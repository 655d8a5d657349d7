"""What is kept for a while only, and how it goes (D3, D4, D5, D9, D15).

Answers to idempotent requests and codes by SMS for 24 hours; events with their deliveries, and the
rows of deleted leads, tasks and products that nothing names any more, for 30 days; a one-time link
that long after it expired; a session, by which its browser is known, for 180 days after it was last
seen. A tenant is tidied about once a day, a few rows at a time, by whoever happens to visit it: a
visitor must not wait for much, and writers get their turn in between. What goes is decided by the
clock that may erase (steady_clock.py): the machine's own may be wrong.
"""

import json
from collections.abc import Callable

from crm.tenancy.clocks import erasing_before, steady_now
from crm.tenancy.database import execute, execute_many, now, row, rows, transaction

ANSWER_SECONDS = 24 * 3600
KEPT_DAYS = 30
SESSION_DAYS = 90  # a session ends then, however often it is used
KNOWN_BROWSER_DAYS = 180  # the row of a session is kept after it was last seen
DAY = 86_400
MOST = 200  # rows of a kind in one sweep
# What was to be sent first is gone: of what is pending to an endpoint the next of that record.
NEXT_DELIVERY = """
    UPDATE delivery SET due_at = ?1 WHERE due_at IS NULL AND id = (
        SELECT id FROM delivery WHERE webhook_id = ?2 AND noun = ?3 AND record_id = ?4
            AND status = 'pending' ORDER BY sequence LIMIT 1)
"""


def is_due() -> bool:
    """Was the tenant visited tidied a day ago or longer? Or by a clock that was ahead."""
    (tidied_at,) = row("SELECT tidied_at FROM tenant")
    return not erasing_before(DAY) < tidied_at <= now()


def tidy(most: int = MOST) -> bool:
    """Let the oldest of everything outlived go, up to `most` rows of each kind, each kind in a
    transaction of its own.

    False when there may be more: the next sweep is then due at once.
    """
    sweeps: tuple[Callable[[int], int], ...] = (
        *(_answers, _codes, _sessions, _links, _secrets),
        *(_events, _tests, _leads, _tasks, _products),
    )
    counts = []
    for sweep in sweeps:
        with transaction():
            counts.append(sweep(most))
    finished = max(counts) < most
    if finished:
        with transaction():
            execute("UPDATE tenant SET tidied_at = ?", (now(),))
    return finished


def _answers(most: int) -> int:
    return execute(
        "DELETE FROM answer WHERE (key, method, path, user_key_id) IN"
        " (SELECT key, method, path, user_key_id FROM answer WHERE created_at < ? LIMIT ?)",
        (erasing_before(ANSWER_SECONDS), most),
    ).rowcount


def _codes(most: int) -> int:
    return _delete("code", "created_at", erasing_before(DAY), most)


def _sessions(most: int) -> int:
    return _delete("session", "last_seen_at", erasing_before(KNOWN_BROWSER_DAYS * DAY), most)


def _links(most: int) -> int:
    return _delete("link", "expires_at", _outlived(), most)


def _delete(table: str, column: str, before: str, most: int) -> int:
    """Delete the rows of a table whose time is over."""
    return execute(
        f"DELETE FROM {table} WHERE id IN"
        f" (SELECT id FROM {table} WHERE {column} < ? ORDER BY {column} LIMIT ?)",
        (before, most),
    ).rowcount


def _events(most: int) -> int:
    # The oldest are looked at and no others: there is no index of times, and no need of one.
    oldest = "SELECT sequence, at FROM event ORDER BY sequence LIMIT ?"
    outlived = f"(SELECT sequence FROM ({oldest}) WHERE at < ?)"
    waited = rows(
        "SELECT DISTINCT webhook_id, noun, record_id FROM delivery"
        f" WHERE status = 'pending' AND sequence IN {outlived}",
        (most, _outlived()),
    )
    gone = execute(f"DELETE FROM event WHERE sequence IN {outlived}", (most, _outlived())).rowcount
    execute_many(NEXT_DELIVERY, [(steady_now(), *whose) for whose in waited])
    return gone


def _tests(most: int) -> int:
    return execute(
        "DELETE FROM delivery WHERE id IN"
        " (SELECT id FROM delivery WHERE sequence IS NULL AND created_at < ? LIMIT ?)",
        (_outlived(), most),
    ).rowcount


def _secrets(_: int) -> int:
    execute(
        "UPDATE webhook SET old_secret = NULL, old_secret_until = NULL WHERE old_secret_until < ?",
        (erasing_before(0),),
    )
    return 0


def _leads(most: int) -> int:
    gone = rows("SELECT id FROM lead WHERE deleted_at < ? LIMIT ?", (_outlived(), most))
    return _erase("lead", gone)


def _tasks(most: int) -> int:
    gone = rows("SELECT id FROM task WHERE deleted_at < ? LIMIT ?", (_outlived(), most))
    return _erase("task", gone)


def _products(most: int) -> int:
    # Without a name, only what `include_deleted` tells of it was kept; nobody can use it again.
    gone = rows(
        "SELECT id FROM product WHERE deleted_at < ? AND name = '' AND NOT EXISTS"
        " (SELECT 1 FROM deal_item WHERE product_id = product.id) LIMIT ?",
        (_outlived(), most),
    )
    return _erase("product", gone)


def _erase(noun: str, gone: list[tuple[int]]) -> int:
    """Delete these rows for good, with their notes and the trail of their changes."""
    if gone:
        ids = json.dumps([id for (id,) in gone])
        these = "IN (SELECT value FROM json_each(?))"
        execute(f"DELETE FROM note WHERE noun = ? AND record_id {these}", (noun, ids))
        execute(f"DELETE FROM change WHERE noun = ? AND record_id {these}", (noun, ids))
        execute(f"DELETE FROM {noun} WHERE id {these}", (ids,))
    return len(gone)


def _outlived() -> str:
    return erasing_before(KEPT_DAYS * DAY)
