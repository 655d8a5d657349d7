"""Endpoints of a tenant's own fields: `/fields`."""

from typing import Any

from marshmallow import fields as ma

from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import ok_answer
from crm.records import fields, queries
from crm.records.columns import N_
from crm.records.parameters import Query
from crm.records.schemas import RecordSchema
from crm.resources.bulk.endpoints import FOUND, STARTED, respond
from crm.resources.custom_fields import adoption, removal
from crm.resources.custom_fields import record as custom_fields
from crm.resources.custom_fields.record import CUSTOM_FIELD, CustomFieldRecord

blueprint = Blueprint("fields", "Fields of your own, of records.", N_("Own fields"))
FIELD_FILTER = queries.filter_of(CustomFieldRecord, queries.Filter, "position")()

all_fields = Endpoints(blueprint, "/fields", CUSTOM_FIELD)
all_fields.list(
    FIELD_FILTER,
    "List fields, in the order of forms; retired ones too.",
    where=lambda: ("deleted_at IS NULL", ()),
)
all_fields.create(
    custom_fields.create,
    "Add a field to the records of a resource.",
    example={
        "resource": "leads",
        "label": "Wood",
        "type": "choice",
        "options": [{"key": "oak", "label": "Oak"}, {"key": "ash", "label": "Ash"}],
        "filtered": True,
    },
    conflicts=True,
)
all_fields.get(show=lambda id: CUSTOM_FIELD.one(custom_fields.find(id).id))
all_fields.change(
    custom_fields.update,
    "Change the sent attributes of a field; its resource, key and type never change.",
    conflicts=True,
)


@blueprint.operation("POST", "/fields/<id>/retire", response_view=CUSTOM_FIELD)
def retire_field(id: str) -> dict[str, Any]:
    """Hide a field: its values stay stored, and `restore` shows them again."""
    return CUSTOM_FIELD.one(custom_fields.retire(id).id)


@blueprint.operation("POST", "/fields/<id>/restore", response_view=CUSTOM_FIELD, conflicts=True)
def restore_field(id: str) -> dict[str, Any]:
    """Show a retired field and its values again."""
    return CUSTOM_FIELD.one(custom_fields.restore(id).id)


@blueprint.operation(
    "DELETE",
    "/fields/<id>",
    query=queries.DRY_RUN,
    answer=ok_answer("FieldDeletedOut", count=ma.Integer, batch_id=ma.String(allow_none=True)),
    conflicts=True,
)
def delete_field(id: str, query: Query) -> dict[str, Any]:
    """Delete a retired field; `count` records have a value.

    The values are hidden at once, and removed after 30 days, when the key is free; until then `POST
    /batches/<id>/undo` takes it back. A field that is not retired is refused: 409 `field_in_use`,
    with what names it, such as an inbound hook or a saved view, in `used_by`. Needs `fields:write`.
    """
    count, batch_id = removal.delete(id, query.dry_run)
    return {"status": "ok", "count": count, "batch_id": batch_id and str(batch_id)}


class AdoptionSchema(RecordSchema):
    """From where a field is filled."""

    from_extra = fields.Text(
        255,
        required=True,
        example="Порода",
        about="A key of `extra`; `custom.<key>` of what did not fit a field when it came.",
    )
    dry_run = fields.Boolean(about="Only find out what would be moved.")


UNFIT = ma.List(ma.Dict(), metadata={"description": "The first: `{id, value, code}`."})


@blueprint.operation(
    "POST",
    "/fields/<id>/adopt",
    body=AdoptionSchema.body("Adoption"),
    answer=ok_answer("AdoptedOut", **FOUND, unfit=UNFIT),
    other_status=202,
    other_answer=STARTED,
    conflicts=True,
)
def adopt_extra(id: str, data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], int]:
    """Move the values of a key of `extra` that fit into a field; the others stay there.

    Texts are read as the cells of files are. A record with a value of the field keeps both. More
    than 1000 records are changed in the background: 202. `POST /batches/<id>/undo` takes it back.
    Needs `fields:write` and the rights to read and write the records, such as `leads:read` and
    `leads:write`.
    """
    return respond(*adoption.adopt(id, data["from_extra"], bool(data.get("dry_run"))))
