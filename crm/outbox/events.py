"""The 14 kinds of events (spec: Events) and the outbox that keeps them (D15).

`emit()` writes an event in the transaction of the change it tells of, so a committed change has its
event, and its deliveries, and a rolled back one has none. `data` has the records as GET one shows
them.
"""

import secrets
from contextlib import closing
from typing import Any

import orjson

from crm.json import dumps
from crm.outbox import subscriptions
from crm.records.retention import KEPT_DAYS
from crm.tenancy.database import after_commit, current_session, execute, now, row, time_before
from crm.tenancy.reading import each_row

LEAD_CREATED = "lead.created"
LEAD_CONVERTED = "lead.converted"
DEAL_CREATED = "deal.created"
DEAL_STAGE_CHANGED = "deal.stage_changed"
DEAL_WON = "deal.won"
DEAL_LOST = "deal.lost"
DEAL_ITEMS_CHANGED = "deal.items_changed"
PRODUCT_CREATED = "product.created"
PRODUCT_UPDATED = "product.updated"
PRODUCT_IMPORTED = "product.imported"
CLIENT_CREATED = "client.created"
CLIENT_UPDATED = "client.updated"
TASK_CREATED = "task.created"
TASK_COMPLETED = "task.completed"

KINDS = {
    LEAD_CREATED: "A new lead.",
    LEAD_CONVERTED: "A lead is converted into a deal.",
    DEAL_CREATED: "A new deal.",
    DEAL_STAGE_CHANGED: "The stage of a deal changed.",
    DEAL_WON: "A deal is won.",
    DEAL_LOST: "A deal is lost.",
    DEAL_ITEMS_CHANGED: "The composition of a deal's items changed.",
    PRODUCT_CREATED: "A catalog product is created.",
    PRODUCT_UPDATED: "A catalog product is updated.",
    PRODUCT_IMPORTED: "A bulk CSV import has finished.",
    CLIENT_CREATED: "A client is created.",
    CLIENT_UPDATED: "A client is updated.",
    TASK_CREATED: "A task is created.",
    TASK_COMPLETED: "A task is completed.",
}
RECORDS_IN_DATA = {  # the records in an event's `data`, where it is not only the kind's own noun
    LEAD_CONVERTED: ("lead", "deal", "client"),
    DEAL_STAGE_CHANGED: ("deal", "from_stage", "to_stage"),
    DEAL_ITEMS_CHANGED: ("deal", "items"),
    PRODUCT_IMPORTED: ("import",),
}

MAX_FEED_BYTES = 4 << 20  # of the events of one answer

INSERT_EVENT = """
    INSERT INTO event (id, type, at, noun, record_id, data, previous) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def emit(
    kind: str,
    record_id: int,
    data: dict[str, Any],
    previous: dict[str, Any] | None = None,
) -> None:
    """Write an event of `kind` about the record; inside the transaction of the change.

    `data` is {noun: record as GET one shows it, …}; `previous` has the changed fields' old values.
    """
    noun, id = kind.partition(".")[0], new_event_id()
    sequence = execute(
        INSERT_EVENT,
        (
            id,
            kind,
            now(),
            noun,
            record_id,
            dumps(data).decode(),
            dumps(previous or {}).decode(),
        ),
    ).lastrowid
    subscriptions.enqueue_deliveries(sequence, kind, noun, record_id)
    here = current_session()
    if here.keeper.hears and (heard := here.keeper.hears(here.label, kind, sequence, id)):
        after_commit(heard)


def new_event_id() -> str:
    """The id of a new event: random, so that it says nothing."""
    return f"evt_{secrets.token_hex(12)}"


def list_records_in_data(kind: str) -> tuple[str, ...]:
    """The names in the `data` of an event of this kind."""
    return RECORDS_IN_DATA.get(kind) or (kind.partition(".")[0],)


def encode_event(sequence: int, id: str, kind: str, at: str, data: str, previous: str) -> bytes:
    """The event as receivers and the feed get it: the same bytes every time it is told."""
    return dumps(
        {
            "id": id,
            "type": kind,
            "timestamp": at,
            "tenant": current_session().label,
            "sequence": sequence,
            "data": orjson.Fragment(data),
            "previous": orjson.Fragment(previous),
        }
    )


def required_scope(kind: str) -> str:
    """The right that reading an event of this kind needs: to read its noun (D12)."""
    return f"{kind.partition('.')[0]}s:read"


def load_event_body(sequence: int) -> tuple[str, bytes]:
    """The id and the body of one event."""
    found = row(
        "SELECT sequence, id, type, at, data, previous FROM event WHERE sequence = ?", (sequence,)
    )
    return found[1], encode_event(*found)


def find_latest_event_time() -> str | None:
    """When the last event of the tenant visited was."""
    found = row("SELECT at FROM event ORDER BY sequence DESC LIMIT 1")
    return found and found[0]


def list_bodies_after(after: int, kinds: list[str], limit: int) -> tuple[list[bytes], int]:
    """Events later than `after` of those kinds, oldest first, and the sequence to go on from.

    At most `limit` and, but for the first, FEED_BYTES in all. The last 30 days are kept. The second
    value passes events of other kinds too, and is `after` itself when nothing is new.
    """
    # Asked for first, so that an event which comes meanwhile is left for the next time.
    (last,) = row("SELECT coalesce(max(sequence), 0) FROM event")
    sql = (
        "SELECT sequence, id, type, at, data, previous FROM event"
        " WHERE sequence > ? AND sequence <= ? AND at >= ?"
        f" AND type IN ({', '.join('?' * len(kinds))}) ORDER BY sequence LIMIT ?"
    )
    params = (after, last, time_before(KEPT_DAYS * 86_400), *kinds, limit)
    bodies: list[bytes] = []
    load_event_body, left = after, MAX_FEED_BYTES
    with closing(each_row(sql, params)) as found:
        for sequence, *values in found:
            event = encode_event(sequence, *values)
            left -= len(event)
            if left < 0 and bodies:
                return bodies, load_event_body
            bodies.append(event)
            load_event_body = sequence
    return bodies, load_event_body if len(bodies) == limit else max(after, last)
