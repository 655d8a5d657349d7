"""The definitions of a tenant's own fields (crm/records/custom/fields.py).

A label, the help, the options and where a field stands change at any time; its resource, its key
and its type never do. Options are archived, never taken away, so that no value loses its label.
"""

import re
from itertools import chain, count
from typing import Any

from peewee import IntegerField, TextField

from crm.errors import Conflict, Invalid, NotFound
from crm.json import dumps, loads
from crm.records import columns, fields, parameters
from crm.records.columns import N_
from crm.records.custom import fields as custom_fields
from crm.records.custom.types import TYPES
from crm.records.record import Record
from crm.records.views import declare_views
from crm.resources.custom_fields import values
from crm.spreadsheets.foreign.new_fields import Definitions
from crm.storage.session import current_session, now, row, transaction
from crm.values import InvalidValue, one_line, transliterate

RESOURCES = ("leads", "clients", "deals", "products", "tasks")
MAX_FIELDS, MAX_FILTERED = 50, 10  # of a resource
MAX_OPTIONS, MAX_LABEL = 100, 255
KEY = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
OPTION_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class Options(fields.Collection):
    """What a choice may be: [{key, label, archived}]; without a key the label makes one."""

    empty = list

    def read(self, value: Any) -> str:
        if not isinstance(value, list):
            raise InvalidValue("invalid_type", "must be a list of options")
        if len(value) > MAX_OPTIONS:
            raise InvalidValue("too_many", f"at most {MAX_OPTIONS} options")
        options: dict[str, dict[str, Any]] = {}
        labels = set[str]()
        for sent in value:
            if not isinstance(sent, dict) or sent.keys() - {"key", "label", "archived"}:
                raise InvalidValue("invalid_type", "an option has label, and maybe key, archived")
            if (label := one_line(sent.get("label", ""), MAX_LABEL)) is None:
                raise InvalidValue("required", "an option needs a label")
            made = transliterate(label)[:60] or "option"
            if made in options:
                made = f"{made}-{len(options) + 1}"
            key = sent.get("key") or made
            if not isinstance(key, str) or not OPTION_KEY.match(key):
                detail = "a key has letters, digits, and . _ - between"
                raise InvalidValue("invalid_key", detail)
            if key in options or label.casefold() in labels:
                raise InvalidValue("repeated", f"there are two options {label}")
            if not isinstance(archived := sent.get("archived", False), bool):
                raise InvalidValue("invalid_type", "archived must be true or false")
            options[key] = {"key": key, "label": label, "archived": archived}
            labels.add(label.casefold())
        return dumps([*options.values()]).decode()

    def schema_type(self) -> dict[str, Any]:
        text = {"type": "string", "maxLength": MAX_LABEL}
        option = {
            "type": "object",
            "properties": {
                "key": {"type": "string", "maxLength": 64},
                "label": text,
                "archived": {"type": "boolean"},
            },
            "required": ["label"] if self.incoming else ["key", "label", "archived"],
        }
        return {"type": "array", "items": option, "maxItems": MAX_OPTIONS}


class OptionsColumn(columns.Column, TextField):
    wire_type = Options


class Key(fields.Text):
    """A key: a Latin letter, then letters, digits and underscores."""

    def read(self, value: Any) -> str | None:
        if (key := super().read(value)) and not KEY.match(key):
            detail = "must be up to 32 of a-z, 0-9 and _, beginning with a letter"
            raise InvalidValue("invalid_key", detail)
        return key


class KeyColumn(columns.Column, TextField):
    wire_type = Key


class CustomFieldRecord(Record):
    """A definition of a field, in stored form."""

    class Meta:
        table_name = "custom_field"

    noun = "field"

    resource = columns.Choice(
        *RESOURCES, required=True, create_only=True, filtered=parameters.Equals(), example="leads"
    )
    key = KeyColumn(
        32, create_only=True, null=False, example="wood", about="By default made from the label."
    )
    label = columns.Text(MAX_LABEL, required=True, example="Wood", label=N_("Name"))
    help = columns.Text(MAX_LABEL, example="The wood of the table top.", label=N_("Hint"))
    type = columns.Choice(*TYPES, required=True, create_only=True, example="text", label=N_("Type"))
    options = OptionsColumn(
        example=[{"key": "oak", "label": "Oak", "archived": False}], label=N_("Options")
    )
    filtered = columns.Boolean(
        default=False,
        about=f"Whether lists are filtered by it: at most {MAX_FILTERED} of a resource.",
        label=N_("Lists are filtered by it"),
    )
    searched = columns.Boolean(default=False, label=N_("The search finds its values"))
    in_form = columns.Boolean(default=True, label=N_("In forms"))
    in_list = columns.Boolean(default=False, label=N_("In lists"))
    in_card = columns.Boolean(default=True, label=N_("On the record's page"))
    required_in_workspace = columns.Boolean(
        default=False, about="People must fill it in; programs need not.", label=N_("Required")
    )
    position = columns.Integer(
        1, MAX_FIELDS, allow_none=False, about="From 1, by default the last.", sorted=True
    )
    retired_at = columns.DateTime(dump_only=True, allow_none=True, about="Hidden since then.")
    deleted_at = TextField(null=True)
    pending_from = IntegerField(null=True)  # the last record whose values are found as it says


def create(data: dict[str, Any]) -> int:
    """Add a field and return its id.

    Raises Invalid, and Conflict `duplicate_key` or `too_many_fields`.
    """
    _require_options(data["type"], data.get("options"))
    with transaction():
        plural, key = data["resource"], _key_of(data)
        known = CustomFieldRecord.first("resource = ? AND key = ?", plural, key)
        is_again = known and current_session().is_import and _comes_again(known, data["type"])
        if known and not is_again:
            raise Conflict(f"{plural} have, or had, a field {key}", "duplicate_key")
        _require_own_names(plural, key, data["type"])
        filtered = known.filtered if known else data.get("filtered", 0)
        others = _require_room(plural, data["type"], filtered)
        if known:
            _show_again(known, data)
            return known.id
        position = len(others) + 1
        field = CustomFieldRecord.add({**data, "key": key, "position": position})
        _arrange(plural, field, data.get("position") or position)
        field.note_in_batch("created")
        custom_fields.note_change()
        return field.id


def _show_again(field: CustomFieldRecord, data: dict[str, Any]) -> None:
    """Show a deleted field that an import adds again, with its old options behind the new ones."""
    new = loads(data.get("options") or "[]")
    keys = {option["key"] for option in new}
    old = [option for option in loads(field.options or "[]") if option["key"] not in keys]
    options = dumps([*new, *old]).decode() if field.options else None
    shown = {"label": data["label"], "options": options, "retired_at": None, "deleted_at": None}
    field.save_changes({**shown, "pending_from": 0 if field.searched else None})
    field.note_in_batch("created")
    custom_fields.note_change()


def take_back(field: CustomFieldRecord) -> None:
    """Delete a field that an import has added. Raises Conflict `in_use`."""
    if _has_values(field):
        raise Conflict("records have values of it", "in_use")
    field.save_changes({"retired_at": now(), "deleted_at": now(), "pending_from": None})
    custom_fields.note_change()


def _comes_again(field: CustomFieldRecord, type: str) -> bool:
    """Whether an import that was undone may be repeated: the trash alone has such values."""
    return field.deleted_at is not None and field.type == type and not _has_values(field)


def _has_values(field: CustomFieldRecord) -> bool:
    """Whether records that are not in the trash have values of a field."""
    has_value, params = values.has_key("custom", field.key)
    sql = f"SELECT 1 FROM {field.resource[:-1]} WHERE deleted_at IS NULL AND {has_value} LIMIT 1"
    return row(sql, params) is not None


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Any:
    """Change the sent attributes of a field; its values are indexed as these say.

    Raises Invalid, NotFound, Stale and Conflict `too_many_fields`.
    """
    with transaction():
        field = find(id, expected_version)
        if "options" in data:
            _require_options(field.type, data["options"], field.options)
        if data.get("filtered"):
            _require_room_to_filter(field.resource, field.type, 1, _live(field.resource, field))
        before = field.save_changes({**data, "position": field.position})
        if (position := data.get("position")) is not None:
            _arrange(field.resource, field, position)
        relabelled = "options" in before and field.searched
        if not before.keys().isdisjoint({"filtered", "searched"}) or relabelled:
            field.save_changes({"pending_from": 0})
        custom_fields.note_change()
    values.begin_index()
    return field


def find(id: int | str, expected_version: int | None = None) -> CustomFieldRecord:
    """The field of that id, retired or not; raises NotFound and Stale."""
    field = CustomFieldRecord.find(id, expected_version)
    if field.deleted_at is not None:
        raise NotFound
    return field


def retire(id: int | str) -> Any:
    """Hide a field and its values, which stay stored. Raises NotFound."""
    return _set_retired(id, now())


def restore(id: int | str) -> Any:
    """Show a retired field again. Raises NotFound, and Conflict `too_many_fields`."""
    return _set_retired(id, None)


def _set_retired(id: int | str, at: str | None) -> Any:
    with transaction():
        field = find(id)
        if bool(field.retired_at) != bool(at):
            if at is None:
                _require_room(field.resource, field.type, field.filtered)
            changed = {"retired_at": at} | ({"pending_from": 0} if field.searched else {})
            field.save_changes(changed)
            custom_fields.note_change()
    values.begin_index()
    return field


def _live(plural: str, but: CustomFieldRecord | None = None) -> list[CustomFieldRecord]:
    """The fields of a resource that are not retired, in their order."""
    live = "resource = ? AND retired_at IS NULL AND id <> ? ORDER BY position, id"
    return CustomFieldRecord.every(live, plural, but.id if but else 0)


def _arrange(plural: str, moved: CustomFieldRecord, position: int) -> None:
    ordered = _live(plural, moved)
    ordered.insert(position - 1, moved)
    for place, field in enumerate(ordered, 1):
        field.save_changes({"position": place})


def _require_options(type: str, options: str | None, known: str | None = None) -> None:
    """Raise Invalid for options of another type, none where they are needed, or one taken away."""
    if not TYPES[type].has_options:
        if options:
            raise Invalid.field("options", "invalid_type", f"a field of the type {type} has none")
        return
    keys = {option["key"] for option in loads(options or "[]")}
    if not keys:
        raise Invalid.field("options", "required", "a choice needs options")
    if missing := [one["key"] for one in loads(known or "[]") if one["key"] not in keys]:
        detail = f"{missing[0]} is missing: an option is archived, so that no value loses its label"
        raise Invalid.field("options", "option_in_use", detail)


def _require_room(plural: str, type: str, filtered: int) -> list[CustomFieldRecord]:
    """The live fields of a resource, beside which there is room for one more. Raises Conflict."""
    others = _live(plural)
    if len(others) >= MAX_FIELDS:
        raise Conflict(f"{plural} have {MAX_FIELDS} fields: retire one", "too_many_fields")
    _require_room_to_filter(plural, type, filtered, others)
    return others


def _require_room_to_filter(
    plural: str, type: str, filtered: int, others: list[CustomFieldRecord]
) -> None:
    if not filtered:
        return
    if not TYPES[type].found_in:
        detail = f"lists are not filtered by the type {type}: let the search find it"
        raise Invalid.field("filtered", "invalid_type", detail)
    if sum(field.filtered for field in others) >= MAX_FILTERED:
        detail = f"lists of {plural} are filtered by {MAX_FILTERED} fields already"
        raise Conflict(detail, "too_many_fields")


def _read_definition(sent: dict[str, Any]) -> dict[str, Any]:
    """The definition of a field that an import adds; raises Invalid."""
    definition = CUSTOM_FIELD_IN.parse(sent)
    _require_options(definition["type"], definition.get("options"))
    return {**definition, "key": _key_of(definition)}


def _require_own_names(plural: str, key: str, type: str) -> None:
    """Raise Conflict where a parameter of lists would be the range of one field and another."""
    for other in CustomFieldRecord.every("resource = ?", plural):
        pairs = ((key, type, other.key), (other.key, other.type, key))
        for ranged, its_type, name in pairs:
            if TYPES[its_type].is_range and name in (f"{ranged}_from", f"{ranged}_to"):
                detail = f"lists are filtered by the range of {ranged} as {name}: send another key"
                raise Conflict(detail, "duplicate_key")


def _key_of(definition: dict[str, Any]) -> str:
    """The key that was sent, or one from the label; raises Invalid if that has no letters for it.

    A key that a deleted field still has is made another one.
    """
    if sent := definition.get("key"):
        return str(sent)
    made, plural = _make_key(definition["label"]), definition["resource"]
    deleted = "resource = ? AND key = ? AND deleted_at IS NOT NULL"
    for key in chain([made], (f"{made[:29]}_{number}" for number in count(2))):
        known = CustomFieldRecord.first(deleted, plural, key)
        if known is None or _comes_again(known, definition["type"]):
            break
    return key


def _make_key(label: str) -> str:
    """A key from a label; raises Invalid if it has no letters for one."""
    key = re.sub(r"\A[^a-z]+", "", transliterate(label).replace("-", "_"))[:32].rstrip("_")
    if not key:
        raise Invalid.field("key", "required", "the label makes no key: send one")
    return key


CUSTOM_FIELD, CUSTOM_FIELD_IN, CUSTOM_FIELD_PATCH = declare_views(CustomFieldRecord, noun="field")
Definitions.read, Definitions.add = _read_definition, create
