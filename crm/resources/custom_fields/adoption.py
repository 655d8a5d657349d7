"""Filling a field from `extra`: values that were kept there before the field was made.

It is a change of many records (bulk/work.py): one batch, whose undo puts all back.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from crm.access import rights
from crm.errors import Conflict, Invalid
from crm.json import dumps, loads
from crm.records import verbs
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import PREFIX, CustomField
from crm.resources.bulk import work
from crm.resources.custom_fields import record, values
from crm.resources.main_resources import MAIN_RESOURCES
from crm.spreadsheets.csv_columns import BadCell, custom_columns
from crm.storage.session import rows

LAST_RECORDS = 1000  # of which the keys of `extra` are listed
MAX_SAMPLES, MAX_SAMPLE_CHARACTERS = 3, 60


def list_extra_keys(plural: str) -> list[dict[str, Any]]:
    """What the last records have in `extra`: [{key, count, samples}], the most frequent first."""
    newest = "deleted_at IS NULL ORDER BY id DESC LIMIT ?"
    stored = rows(f"SELECT extra FROM {plural[:-1]} WHERE {newest}", (LAST_RECORDS,), own=True)
    by_key: dict[str, list[str]] = defaultdict(list)
    for (extra,) in stored:
        for key, value in _flat(extra).items():
            text = value if isinstance(value, str) else dumps(value).decode()
            by_key[key].append(text[:MAX_SAMPLE_CHARACTERS])
    return [
        {"key": key, "count": len(texts), "samples": [*dict.fromkeys(texts)][:MAX_SAMPLES]}
        for key, texts in sorted(by_key.items(), key=lambda item: -len(item[1]))
    ]


def adopt(id: int | str, from_extra: str, dry_run: bool = False) -> tuple[dict[str, Any], bool]:
    """Move the values of a key of `extra` that fit into a field; the others stay.

    from_extra: `custom.<key>` for what did not fit a field when it came. Returns what work.run()
    does, with the first `unfit`: {id, value, code}. A record that has a value of the field keeps
    both: `has_value`. Raises NotFound, Forbidden, and Conflict `too_many_batches`.
    """
    field = record.find(id)
    rights.require([f"{field.resource}:read", f"{field.resource}:write"])
    sent = {"action": "adopt", "key": field.key, "from_extra": from_extra}
    expect = work.count(field.resource, sent)
    answer, goes_on = work.run(field.resource, sent | {"expect": expect}, dry_run)
    unfit = [
        {"id": id, "value": _flat(one.extra).get(from_extra), "code": refusal["code"]}
        for refusal in answer.get("refusals", ())
        for id in refusal["ids"]
        if (one := MAIN_RESOURCES[field.resource].record.find_any(int(id)))
    ]
    return {**answer, "unfit": unfit[: work.MAX_LISTED]}, goes_on


def _select(plural: str, sent: dict[str, Any]) -> work.Selection:
    has_key = values.has_key("extra", sent["from_extra"].removeprefix(PREFIX))
    return work.Selection(MAIN_RESOURCES[plural].record, *has_key)


def _change(plural: str, sent: dict[str, Any]) -> Callable[[Any], None]:
    key, name = sent["key"], sent["from_extra"]
    patch: Any = MAIN_RESOURCES[plural].view.patch
    field = custom_fields.of(plural).get(key)
    if field is None:
        raise Conflict("show the field again first", "field_retired")

    def move(one: Any) -> None:
        extra = _flat(one.extra)
        if (value := extra.get(name)) is None:
            return
        if key in loads(one.custom or "{}"):
            raise Conflict("the record has a value of the field", "has_value")
        rest: dict[str, Any] = {name: None}
        if name.startswith(PREFIX):
            is_last = sum(other.startswith(PREFIX) for other in extra) == 1
            rest = {"custom": None if is_last else {name.removeprefix(PREFIX): None}}
        verbs.patch(one, patch.parse({"custom": {key: _read(field, value)}, "extra": rest}))

    return move


def _flat(extra: str | None) -> dict[str, Any]:
    """What `extra` has; by `custom.<key>` what did not fit a field of that key when it came."""
    values = loads(extra or "{}")
    if isinstance(unfit := values.get("custom"), dict):
        del values["custom"]
        values |= {PREFIX + key: value for key, value in unfit.items()}
    return values


def _read(field: CustomField, value: Any) -> Any:
    """A value as it is sent: a text is read as the cell of a file is. Raises Invalid."""
    if not isinstance(value, str) or field.references:
        return value
    (column,) = custom_columns([field], ())
    (stored,) = column.read_cells([value])
    if isinstance(stored, BadCell):
        raise Invalid.field(field.name, *stored)
    return None if stored is None else field.wire.show(stored)


work.OWN_CHANGES["adopt"] = (_select, _change)
