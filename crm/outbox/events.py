"""The 14 kinds of events (spec: Events) and the outbox that stores them (D15).

`emit()` writes an event in the transaction of the change, so a committed change has its event and
its deliveries, and a rolled back one has none. The records in `data` look as GET one returns them.
"""

import secrets
from typing import Any

import orjson

from crm.access import rights
from crm.json import dumps, loads
from crm.records import erasure
from crm.records.retention import KEPT_SECONDS, expired_before
from crm.storage import sweeps
from crm.storage.clocks import steady_now
from crm.storage.dialect import without_index
from crm.storage.reading import iterate_rows
from crm.storage.session import (
    after_commit,
    current_session,
    execute,
    execute_many,
    insert,
    notify_after_commit,
    now,
    one_row,
    row,
    rows,
    time_before,
    transaction,
)

KINDS: dict[str, str] = {}  # with the summary that the documentation has of each


def _kind(name: str, about: str) -> str:
    KINDS[name] = about
    return name


LEAD_CREATED = _kind("lead.created", "A new lead.")
LEAD_CONVERTED = _kind("lead.converted", "A lead is converted into a deal.")
DEAL_CREATED = _kind("deal.created", "A new deal.")
DEAL_STAGE_CHANGED = _kind("deal.stage_changed", "The stage of a deal changed.")
DEAL_WON = _kind("deal.won", "A deal is won.")
DEAL_LOST = _kind("deal.lost", "A deal is lost.")
DEAL_ITEMS_CHANGED = _kind("deal.items_changed", "The composition of a deal's items changed.")
PRODUCT_CREATED = _kind("product.created", "A catalog product is created.")
PRODUCT_UPDATED = _kind("product.updated", "A catalog product is updated.")
PRODUCT_IMPORTED = _kind("product.imported", "A bulk CSV import has finished.")
CLIENT_CREATED = _kind("client.created", "A client is created.")
CLIENT_UPDATED = _kind("client.updated", "A client is updated.")
TASK_CREATED = _kind("task.created", "A task is created.")
TASK_COMPLETED = _kind("task.completed", "A task is completed.")

# What is in an event's `data`, and the resource whose read scope it needs, the event's own first;
# of kinds whose `data` is not just the record itself.
RESOURCES_IN_DATA = {
    LEAD_CONVERTED: {"lead": "leads", "deal": "deals", "client": "clients"},
    DEAL_STAGE_CHANGED: {"deal": "deals", "from_stage": "pipelines", "to_stage": "pipelines"},
    DEAL_ITEMS_CHANGED: {"deal": "deals", "items": "deals"},
    PRODUCT_IMPORTED: {"import": "products"},
}

MAX_FEED_BYTES = 4 << 20  # of the events in one response

INSERT_EVENT = """
    INSERT INTO event (id, type, at, noun, record_id, data, previous) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

IS_SUBSCRIBED = "active = 1 AND instr(events, ?) > 0"
INSERT_DELIVERIES = f"""
    INSERT INTO delivery
        (webhook_id, sequence, noun, record_id, status, due_at, cause, created_at)
    SELECT id, ?, ?, ?, 'pending', CASE WHEN EXISTS (
        SELECT 1 FROM delivery WHERE webhook_id = webhook.id AND noun = ? AND record_id = ?
            AND status = 'pending') THEN NULL ELSE ? END, 'event', ?
    FROM webhook WHERE {IS_SUBSCRIBED} ORDER BY id
"""

# Makes the next pending delivery of a record to an endpoint due, when the one before it has gone.
MAKE_NEXT_DUE = """
    UPDATE delivery SET due_at = ? WHERE due_at IS NULL AND id = (
        SELECT id FROM delivery WHERE webhook_id = ? AND noun = ? AND record_id = ?
            AND status = 'pending' ORDER BY sequence LIMIT 1)
"""


def emit(
    kind: str, record_id: int, data: dict[str, Any], previous: dict[str, Any] | None = None
) -> None:
    """Write an event about the record, with a delivery for each webhook that wants its kind (D15).

    It joins the transaction of the change; the sender is notified after the commit. `data` is
    {noun: record as GET one returns it, …}, `previous` the old values of changed fields.
    """
    noun, id = kind.partition(".")[0], new_event_id()
    texts = dumps(data).decode(), dumps(previous or {}).decode()
    sequence = insert(INSERT_EVENT, (id, kind, now(), noun, record_id, *texts))
    quoted_kind = f'"{kind}"'
    # Most tenants have no webhook, and this query costs a fifth of an INSERT that inserts nothing.
    if row(f"SELECT 1 FROM webhook WHERE {IS_SUBSCRIBED}", (quoted_kind,)):
        record = noun, record_id
        params = (sequence, *record, *record, steady_now(), now(), quoted_kind)
        execute(INSERT_DELIVERIES, params)
        notify_after_commit()
    session = current_session()
    on_event = session.source.on_event
    if on_event and (call_after_commit := on_event(session.label, kind, sequence, id)):
        after_commit(call_after_commit)


def new_event_id() -> str:
    """Return a random event id, which does not reveal how many events there are."""
    return f"evt_{secrets.token_hex(12)}"


def scopes_of_data(kind: str) -> dict[str, str]:
    """Return what is in the `data` of events of a kind, each name with the scope it needs (D12).

    The first is the event's own noun: without that scope the event is not shown at all.
    """
    noun = kind.partition(".")[0]
    resources = RESOURCES_IN_DATA.get(kind) or {noun: f"{noun}s"}
    return {name: f"{resource}:read" for name, resource in resources.items()}


def encode_event(sequence: int, id: str, kind: str, at: str, data: str, previous: str) -> bytes:
    """Return the event as JSON, the same bytes for every receiver, retry and reading of the feed.

    `data` and `previous` are JSON texts.
    """
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


def load_event_body(sequence: int) -> tuple[str, bytes]:
    """Return the id and the body of the event with this sequence, which must exist."""
    event = one_row(
        "SELECT sequence, id, type, at, data, previous FROM event WHERE sequence = ?", (sequence,)
    )
    return event[1], encode_event(*event)


def find_latest_sequence(kind: str) -> int:
    """Return the sequence of the current tenant's last event of a kind, which must exist."""
    return one_row("SELECT max(sequence) FROM event WHERE type = ?", (kind,))[0]


def derive_ids() -> None:
    """Make the ids of all events of their sequences, in a tenant made for samples.

    In any other tenant they are random, because a copy or a restored tenant would repeat them.
    """
    with transaction():
        for (sequence,) in rows("SELECT sequence FROM event"):
            id = f"evt_{sequence:024x}"
            execute("UPDATE event SET id = ? WHERE sequence = ?", (id, sequence))


def find_latest_event_time() -> str | None:
    """Return the time of the current tenant's last event, None if it has none."""
    event = row("SELECT at FROM event ORDER BY sequence DESC LIMIT 1")
    return event[0] if event else None


def list_bodies_after(
    after: int,
    kinds: list[str],
    limit: int,
    scopes: frozenset[str] = frozenset({rights.ALL_SCOPES}),
) -> tuple[list[bytes], int]:
    """Return the bodies of events of these kinds after the sequence `after`, oldest first.

    What the `scopes` do not allow to read is left out of `data`.
    The second value is the sequence to continue from: behind events of other kinds too, and
    `after` itself if nothing is new. At most `limit` events of the last 30 days are returned, and
    at most MAX_FEED_BYTES unless the first one alone is larger.
    """
    # Read before the events, so that an event written meanwhile is left for the next call.
    (last,) = one_row("SELECT coalesce(max(sequence), 0) FROM event")
    span = "sequence > ? AND sequence <= ? AND at >= ?"
    span_params = [after, last, time_before(KEPT_SECONDS)]
    where = f"{span} AND {without_index('type')} IN ({', '.join('?' * len(kinds))})"
    params = [*span_params, *kinds, limit]
    if len({*kinds}) < len(KINDS):  # the next one of a rare kind is far behind those of others
        of_kind = f"SELECT sequence FROM event WHERE type = ? AND {span} ORDER BY sequence LIMIT ?"
        following = " UNION ALL ".join([f"SELECT * FROM ({of_kind}) AS of_kind"] * len(kinds))
        where = f"sequence IN ({following})"
        params = [param for kind in kinds for param in (kind, *span_params, limit)] + [limit]
    sql = (
        "SELECT sequence, id, type, at, data, previous FROM event"
        f" WHERE {where} ORDER BY sequence LIMIT ?"
    )
    hidden = {
        kind: {
            name for name, scope in scopes_of_data(kind).items() if not rights.allows(scopes, scope)
        }
        for kind in kinds
    }
    bodies: list[bytes] = []
    continue_from, bytes_left = after, MAX_FEED_BYTES
    with iterate_rows(sql, params) as events:
        for sequence, id, kind, at, data, previous in events:
            if names := hidden[kind]:
                shown = {name: part for name, part in loads(data).items() if name not in names}
                data = dumps(shown).decode()
            body = encode_event(sequence, id, kind, at, data, previous)
            bytes_left -= len(body)
            if bytes_left < 0 and bodies:
                return bodies, continue_from
            bodies.append(body)
            continue_from = sequence
    return bodies, continue_from if len(bodies) == limit else max(after, last)


def erase_person(person: erasure.Person) -> int:
    """Leave only the id in the events of a person's records, those to be delivered included."""
    count = 0
    for params in person.parameters:
        of_deliveries = f"SELECT id FROM delivery WHERE {erasure.OF_RECORDS}"
        execute(f"UPDATE attempt SET answer = NULL WHERE delivery_id IN ({of_deliveries})", params)
        data = """'{"' || noun || '":{"id":"' || record_id || '"}}'"""
        sql = f"UPDATE event SET data = {data}, previous = '{{}}' WHERE {erasure.OF_RECORDS}"
        count += execute(sql, params).rowcount
    return count


erasure.register("events", erase_person, "event", "attempt")
erasure.register_texts(erasure.json_texts("events", "event", "sequence", "at", "data", "previous"))


@sweeps.register
def delete_events(max_rows: int) -> int:
    """Delete expired events with their deliveries."""
    # Only the oldest are looked at, so that no index of times is needed.
    oldest = "SELECT sequence, at FROM event ORDER BY sequence LIMIT ?"
    expired = f"(SELECT sequence FROM ({oldest}) AS oldest WHERE at < ?)"
    params = (max_rows, expired_before())
    pending = rows(
        "SELECT DISTINCT webhook_id, noun, record_id FROM delivery"
        f" WHERE status = 'pending' AND sequence IN {expired}",
        params,
    )
    count = execute(f"DELETE FROM event WHERE sequence IN {expired}", params).rowcount
    execute_many(MAKE_NEXT_DUE, [(steady_now(), *delivery) for delivery in pending])
    return count
