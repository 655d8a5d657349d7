"""Schemas of what is around records in a response (D1, D3).

They only describe: operations.py makes the responses.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from marshmallow import EXCLUDE, Schema
from marshmallow import fields as ma

from crm.records.schemas import SchemaType
from crm.records.views import RecordView


class Open(Schema, metaclass=SchemaType):
    """A response may grow (D16): see RecordSchema."""

    class Meta:
        unknown = EXCLUDE


class MetaSchema(Open):
    """The `meta` of a page."""

    next_cursor = ma.String(
        required=True, allow_none=True, metadata={"description": "null on the last page"}
    )
    total = ma.Integer(metadata={"description": "With `total=true`"})


class Records(ma.Field):
    """Records that fit a schema: several, or a single one.

    is_listed: whether one of them may be deleted or erased, as listed() says.
    """

    def __init__(
        self, schema: Any, several: bool = True, required: bool = True, is_listed: bool = False
    ):
        super().__init__(required=required)
        self.shown, self.several = schema, several
        self.schema = listed(schema) if is_listed else schema


class Events(Records):
    """Events of any kind: `schemas` has one for each."""

    def __init__(self, *schemas: Schema):
        super().__init__(schemas[0])
        self.schemas = schemas


EXAMPLE_SECRET = "whsec_QWxsIHlvdXIgZXZlbnRzIGFyZSBzaWduZWQgYnkgbWU="
SECRET = ma.String(
    metadata={
        "description": "Shown only in this response; a replay is without it.",
        "examples": [EXAMPLE_SECRET],
    }
)


@cache
def listed(schema: Any) -> Schema:
    """The schema of a record in lists and events, where a deleted or erased one has few fields.

    One schema, because generated clients distinguish those of a union by a discriminator alone.
    """
    fields: dict[str, Any] = {
        name: field.variant(incoming=False, required=name == "id")
        for name, field in schema.fields.items()
    }
    about = "Of a deleted one, which has `id`, `updated_at` and `merged_into` beside it."
    fields["deleted_at"] = ma.DateTime(metadata={"description": about})
    about = "Of a deleted one: the id of the record that it became by a merge."
    fields["merged_into"] = ma.String(metadata={"description": about})
    return _envelope(f"Listed{schema.__class__.__name__.removesuffix('Out')}", **fields)


def page_of(schema: Schema, *, deleted: bool) -> Callable[[], Schema]:
    """What makes the schema of a page of records; `deleted`: also with deleted ones among them."""
    return partial(_page_of, schema, deleted)


@cache  # the same records may be listed at several paths: their page has one name
def _page_of(schema: Schema, deleted: bool) -> Schema:
    name = f"{schema.__class__.__name__.removesuffix('Out')}Page"
    records = Records(schema, is_listed=deleted)
    return _envelope(name, data=records, meta=ma.Nested(MetaSchema, required=True))


@cache  # as page_of(), of what is created at several paths
def created(noun: str, view: RecordView | None, several: bool, secret: bool = False) -> Schema:
    """The schema of a response with 201 (D1).

    view: how `data` shows the record. several: whether several may be created at once.
    secret: whether it has a `secret`.
    """
    fields: dict[str, Any] = {}
    if several:
        fields[f"{noun}_id"] = ma.String(metadata={"description": "Of one."})
        fields[f"{noun}_ids"] = ma.List(ma.String(), metadata={"description": "Of several."})
    else:
        fields[f"{noun}_id"] = ma.String
    if secret:
        fields["secret"] = SECRET
    if view:
        about = "With `Prefer: return=representation`."
        fields["data"] = ma.Nested(view.schema, metadata={"description": about})
    return ok_answer(f"{noun.title().replace('_', '')}Created", **fields)


def event_of(kind: str, data: dict[str, Records]) -> Schema:
    """The schema of one kind of event (D15); `data` has its records by name."""
    name = "".join(part.capitalize() for part in kind.replace(".", "_").split("_"))
    about = "Of the fields that changed: what they were."
    return _envelope(
        f"{name}Event",
        id=ma.String(required=True, metadata={"examples": ["evt_5f0c2a9be41d7736c8a1f4e2"]}),
        type=ma.String(required=True, metadata={"const": kind}),
        timestamp=ma.DateTime(required=True),
        tenant=ma.String(required=True, metadata={"examples": ["acme"]}),
        sequence=ma.Integer(
            required=True,
            metadata={"description": "Per tenant, without gaps.", "examples": [48213]},
        ),
        data=ma.Nested(_envelope(f"{name}Data", **data), required=True),
        previous=ma.Dict(required=True, metadata={"description": about}),
    )


def ok_answer(name: str, says: str = "ok", **fields: Any) -> Schema:
    """The schema of an answer with `status` and these fields; a type stands for a required one."""
    status = ma.String(required=True, metadata={"enum": [says]})
    required = {key: f(required=True) if isinstance(f, type) else f for key, f in fields.items()}
    return _envelope(name, status=status, **required)


def _envelope(name: str, /, **fields: Any) -> Schema:
    return type(name, (Open,), fields)()
