"""Changing many records at once: fields such as the assignee, a tag, or deleting them.

The records are named, or found by the parameters of their list. Each goes through its own rules,
with its events and history; one that a rule refuses stays as it is and is counted by the reason.
All of it is one batch, which can be undone.

The work is done in short transactions (records/background.py): up to MAX_IDS records within the
request, more of them in the background.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from crm.errors import Busy, Conflict, Invalid
from crm.json import dumps, loads
from crm.records import background, batches, verbs
from crm.records.conditions import Condition
from crm.records.custom import fields as custom_fields
from crm.records.custom.values import require_references
from crm.records.list_plans import join_conditions
from crm.records.record import SoftDeletedRecord
from crm.records.schemas import READ_ONLY
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.saved_views import read_list_query
from crm.storage import chunks
from crm.storage.dialect import among
from crm.storage.session import rows, transaction

MAX_IDS = 1000  # of a request, and how many records a request changes itself
MAX_LISTED = 20  # samples of a dry run, and ids of a refusal
CHUNK_RECORDS = 500
Change = Callable[[Any], Any]  # of a record; it may raise Invalid, Conflict and NotFound
Refusals = dict[str, list[int]]  # by the code of the error: [how many, *the first ids]


# Changes that no request of POST /<plural>/bulk names, by their action, and what they select.
OWN_CHANGES: dict[str, tuple[Callable[..., "Selection"], Callable[..., Change]]] = {}


class Selection(NamedTuple):
    """The live records of a table that meet a condition."""

    record: type[SoftDeletedRecord]
    where: str
    params: Sequence[Any]

    def select(self, what: str, rest: str = "", *params: int) -> list[tuple[Any, ...]]:
        """Rows of SQL; `rest` follows the condition."""
        source = f"{self.record.noun} WHERE deleted_at IS NULL AND {self.where}"
        return rows(f"SELECT {what} FROM {source} {rest}", (*self.params, *params), own=True)

    def next_ids(self, after: int, until: int, limit: int) -> list[int]:
        """The ids behind `after`, in their order."""
        behind = "AND id > ? AND id <= ? ORDER BY id LIMIT ?"
        return [id for (id,) in self.select("id", behind, after, until, limit)]


def count(plural: str, sent: dict[str, Any]) -> int:
    """How many records a request names. Raises Invalid."""
    return _selection(plural, sent).select("count(*)")[0][0]


def run(
    plural: str,
    sent: dict[str, Any],
    dry_run: bool = False,
    on_start: Callable[[batches.Batch], None] = lambda batch: None,
) -> tuple[dict[str, Any], bool]:
    """Do what a request asks for, or with `dry_run` find out what it would do.

    sent: a `Bulk` in stored form. on_start: called with the batch in the transaction that adds it;
    what it raises refuses the change. Returns the answer, and whether the work goes on in the
    background. Raises Invalid, and Conflict `count_changed` or `too_many_batches`.
    """
    selection, change = _selection(plural, sent), _change(plural, sent)
    ((count, until),) = selection.select("count(*), coalesce(max(id), 0)")
    if dry_run:
        return {"count": count, **_try(plural, selection, change, until)}, False
    if sent.get("expect") != count:
        raise Conflict(f"{count} records match: send this as `expect`", "count_changed")
    in_background = count > MAX_IDS
    # What is done, without values, which may name people.
    note = sent.get("action") or ", ".join(custom_fields.by_name(loads(sent["set"])))
    details = {
        "sent": {name: value for name, value in sent.items() if name != "expect"},
        "until": until,
        "after": 0,
        "refusals": {},
    }
    with transaction():
        batch = background.start(
            "bulk", selection.record.noun, note, details, here=not in_background
        )
        on_start(batch)
    if in_background:
        background.look_after_current()
        return {"batch_id": str(batch.id)}, True
    try:
        background.run(batch)
    except Busy as error:  # nobody goes on with what the caller does again
        background.fail(batch.id, error)
        raise
    batch = batches.Batch.find(batch.id)
    refusals = loads(batch.details or "{}")["refusals"]
    changed = {"changed": batch.updated + batch.deleted, "batch_id": str(batch.id)}
    return {"count": count, **changed, **_show_refusals(refusals)}, False


def _prepare(batch: batches.Batch) -> background.Step:
    plural, details = f"{batch.noun}s", loads(batch.details or "{}")
    selection, change = _selection(plural, details["sent"]), _change(plural, details["sent"])

    def change_some(batch: batches.Batch, has_time: chunks.HasTime) -> bool:
        details = loads(batch.details or "{}")
        ids = selection.next_ids(details["after"], details["until"], CHUNK_RECORDS)
        done = _apply(selection.record, change, ids, details["refusals"], has_time)
        if done:
            details["after"] = ids[done - 1]
        goes_on = done < len(ids) or len(ids) == CHUNK_RECORDS
        batch.save_changes({"details": dumps(details).decode()})
        refused = [f"{code} {count}" for code, (count, *_) in details["refusals"].items()]
        if refused and not goes_on:
            note = f"{batch.note}; refused: {', '.join(refused)}"
            batch.save_changes({"note": note[:255]})
        return goes_on

    return change_some


def _apply(
    record: type[SoftDeletedRecord],
    change: Change,
    ids: list[int],
    refusals: Refusals,
    has_time: chunks.HasTime,
) -> int:
    """Change records as long as there is time; how many were tried. Refusals are added."""
    for done, id in enumerate(ids, 1):
        if why := batches.refused(lambda: change(record.find(id))):  # noqa: B023  # called at once
            refused = refusals.setdefault(why, [0])
            refused[0] += 1
            if len(refused) <= MAX_LISTED:
                refused.append(id)
        if not has_time():
            return done
    return len(ids)


def _try(plural: str, selection: Selection, change: Change, until: int) -> dict[str, Any]:
    """What a change would meet: it is done and undone for the first MAX_IDS records."""
    ids = selection.next_ids(0, until, MAX_IDS)
    refusals: Refusals = {}
    remaining = ids

    def try_some(has_time: chunks.HasTime) -> bool:
        nonlocal remaining
        remaining = remaining[_apply(selection.record, change, remaining, refusals, has_time) :]
        return bool(remaining)

    chunks.run(try_some, is_trial=True)
    samples = [MAIN_RESOURCES[plural].view.one(id) for id in ids[:MAX_LISTED]]
    named = [{"id": one["id"], "name": one.get("title") or one.get("name")} for one in samples]
    return {**_show_refusals(refusals), "samples": named}


def _show_refusals(refusals: Refusals) -> dict[str, Any]:
    listed = [
        {"code": code, "count": count, "ids": [str(id) for id in ids]}
        for code, (count, *ids) in refusals.items()
    ]
    return {"refused": sum(count for count, *_ in refusals.values()), "refusals": listed}


def _selection(plural: str, sent: dict[str, Any]) -> Selection:
    """The records that a request names. Raises Invalid."""
    if own := OWN_CHANGES.get(sent.get("action", "")):
        return own[0](plural, sent)
    if ("ids" in sent) == ("where" in sent):
        raise Invalid.field("where", "required", "send either `ids` or `where`")
    resource = MAIN_RESOURCES[plural]
    if "ids" in sent:
        return Selection(resource.record, among("id"), (sent["ids"],))
    with Invalid.under("where"):
        conditions = read_list_query(plural, sent["where"]).conditions
    return Selection(resource.record, *join_conditions(conditions or [Condition("TRUE")]))


def _change(plural: str, sent: dict[str, Any]) -> Change:
    """What a request does with each record. Raises Invalid."""
    action, tag = sent.get("action"), sent.get("tag")
    if own := OWN_CHANGES.get(action or ""):
        return own[1](plural, sent)
    patch: Any = MAIN_RESOURCES[plural].view.patch
    if ("set" in sent) == (action is not None):
        raise Invalid.field("set", "required", "send either `set` or `action`")
    if action is None:
        with Invalid.under("set"):
            data = patch.parse(loads(sent["set"] or "{}"))
        for name in data.echoed:
            raise Invalid.field(f"set/{name}", *READ_ONLY)
        if not data:
            raise Invalid.field("set", "required", "name at least one field")
        with Invalid.under("set"):
            require_references(plural, None, data.get("custom"))
        return lambda record: verbs.patch(record, data)
    if action == "delete":
        return lambda record: record.remove()
    if "tags" not in patch.fields:
        raise Invalid.field("action", "invalid_choice", f"{plural} have no tags")
    if not tag:
        raise Invalid.field("tag", "required", "is the tag to add or remove")

    def change_tags(record: Any) -> None:
        tags = [one for one in loads(record.tags or "[]") if one != tag]
        tags += [tag] if action == "add_tag" else []
        record.update_fields({"tags": dumps(tags).decode()})

    return change_tags


background.register("bulk", _prepare)
