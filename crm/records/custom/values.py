"""The values of a tenant's own fields: `custom` of a record, {key: value} (fields.py).

They are stored as they are shown, in one column. Values that lists are filtered by stand in
`custom_text` or `custom_number`, too, so that equal tables and statements serve all tenants.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from marshmallow import ValidationError
from orjson import loads  # a float has all digits of the numbers here
from peewee import TextField

from crm.errors import MAX_FAULTS, Invalid
from crm.json import dumps
from crm.records import fields
from crm.records.columns import N_, Column
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import PREFIX, CustomField
from crm.storage.dialect import among
from crm.storage.session import execute, execute_many
from crm.values import InvalidValue

TABLES = ("custom_text", "custom_number")


class CustomValues(fields.Collection):
    """The tenant's own fields of a record: only those that have a value are shown.

    plural: of the resource. Read, it is a merge patch, in which null clears a value.
    """

    wire_schema = {"type": "object", "additionalProperties": True}
    empty = dict

    def __init__(self, plural: str, **options: Any):
        about = "The tenant's own fields (`GET /fields`) that have a value. A change sends some."
        super().__init__(about=about, example={}, **options)
        self.plural = plural

    def read(self, value: Any) -> str:
        if not isinstance(value, dict):
            raise InvalidValue("invalid_type", "must be an object")
        known, stored, errors = custom_fields.of(self.plural), dict[str, Any](), dict[str, Any]()
        for key, sent in value.items():
            if field := known.get(key):
                wire: fields.Field = field.wire
                if self.is_patch and field.references:  # require_references() checks it
                    wire = wire.variant(incoming=False, required=False)
                try:
                    read = wire.deserialize(sent, key, value)
                    stored[key] = None if read is None else wire.show(read)
                except ValidationError as error:
                    errors[key] = error.messages
            else:
                # Of many keys, such as a robot sends, only the first are compared with all.
                few = known if len(errors) < MAX_FAULTS else {}
                detail = custom_fields.describe_unknown(str(key), few)
                errors[key] = [{"code": "unknown_field", "detail": detail}]
        if errors:
            raise ValidationError(errors)
        return dumps(stored).decode()

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **_: Any) -> Any:
        # Null clears what is shown, and keeps the values of hidden fields.
        sent = dict.fromkeys(custom_fields.of(self.plural)) if value is None else value
        return super().deserialize(sent, attr, data)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str | None:
        return "{}" if value == {} else super()._deserialize(value, attr, data)

    def show(self, value: Any) -> dict[str, Any]:
        if not value:
            return {}
        shown: dict[str, Any] = loads(value)
        for key in custom_fields.current().hidden.get(self.plural, ()):
            shown.pop(key, None)
        return shown


class Custom(Column, TextField):
    """The column of a record for the values of its resource's own fields."""

    wire_type = CustomValues

    def __init__(self, plural: str):
        label = N_("Own fields")
        super().__init__(plural, null=True, label=label, form="new", csv=False)


def merged(known: str | None, patch: str | None) -> str | None:
    """Stored values after a merge patch; None clears all."""
    if patch is None or patch == known:
        return patch
    values = {**loads(known or "{}"), **loads(patch)}
    values = {key: value for key, value in values.items() if value is not None}
    return dumps(values).decode() if values else None


def require_references(plural: str, stored: str | None, patch: str | None) -> None:
    """Check the records that a merge patch names anew; raises Invalid.

    One that the stored values name may have been deleted since, or belong to a colleague.
    """
    before = loads(stored or "{}")
    for key, sent in loads(patch or "{}").items():
        field = custom_fields.of(plural).get(key)
        if field and field.references and sent not in (None, before.get(key)):
            try:
                field.wire.read(sent)
            except InvalidValue as error:
                raise Invalid.field(f"custom/{key}", error.code, error.detail) from None


def known(plural: str, stored: str) -> str | None:
    """Stored values without those of fields that have been removed since."""
    keys = {field.key for field in custom_fields.current().all if field.resource == plural}
    values = {key: value for key, value in loads(stored).items() if key in keys}
    return merged(None, dumps(values).decode())


def chosen(own: str | None, other: str | None, choices: dict[str, Any]) -> str | None:
    """Stored values of two records that become one: of each key the own one, else the other's.

    choices: by `custom.<key>` "from" for the other's, or anything else for the own one.
    """
    values, others = loads(own or "{}"), loads(other or "{}")
    for key in values | others:
        if choices.get(PREFIX + key, "into" if key in values else "from") == "from":
            values[key] = others.get(key)
    return merged(None, dumps(values).decode())


def fitting(source: str, stored: str | None, target: str) -> dict[str, Any]:
    """Stored values that another resource has a field of the same key and type for."""
    values, known = loads(stored or "{}"), custom_fields.of(target)
    fit = {}
    for key, field in custom_fields.of(source).items():
        if key in values and key in known and known[key].type is field.type:
            with suppress(ValidationError):  # an option that is not there, or who has gone
                known[key].wire.deserialize(values[key])
                fit[key] = values[key]
    return fit


def search_texts(plural: str, stored: str | None) -> list[str]:
    """What `q` looks into of a record's stored values; of options it is their labels."""
    if not stored:
        return []
    values, texts = loads(stored), list[str]()
    for field in custom_fields.of(plural).values():
        if field.searched:
            texts += field.shown_texts(values.get(field.key))
    return texts


def index(plural: str, id: int, old: str | None, new: str | None) -> None:
    """Keep the tables by which values are found, inside the transaction of a change."""
    if old != new:
        index_many(plural, [(id, old, new)])


def index_many(plural: str, changes: Iterable[tuple[int, str | None, str | None]]) -> None:
    """As index(), of many records: (id, values before, values now)."""
    indexed = custom_fields.of_transaction().indexed.get(plural)
    if not indexed:
        return
    removed = {table: list[tuple[int, int]]() for table in TABLES}
    added = {table: list[tuple[int, int, Any]]() for table in TABLES}
    for id, old, new in changes:
        before, after = loads(old or "{}"), loads(new or "{}")
        for field in indexed:
            was, becomes = before.get(field.key), after.get(field.key)
            if was != becomes:
                table = field.wire.found_in
                if was is not None:
                    removed[table].append((field.id, id))
                added[table] += rows_of(field, id, becomes)
    for table in TABLES:
        if gone := removed[table]:
            execute_many(f"DELETE FROM {table} WHERE field_id = ? AND record_id = ?", gone)
        if new_rows := added[table]:
            sql = f"INSERT INTO {table} (field_id, record_id, value) VALUES (?, ?, ?)"
            execute_many(sql, new_rows)


def rows_of(field: CustomField, id: int, value: Any) -> list[tuple[int, int, Any]]:
    """The rows of a record's value as it is shown, in `field.wire.found_in`."""
    return [] if value is None else [(field.id, id, key) for key in field.wire.keys(value)]


def forget(plural: str, ids: str) -> None:
    """Delete what records that are erased are found by; `ids` is a JSON array."""
    for table in TABLES:
        of_resource = "field_id IN (SELECT id FROM custom_field WHERE resource = ?)"
        sql = f"DELETE FROM {table} WHERE {of_resource} AND {among('record_id')}"
        execute(sql, (plural, ids))
