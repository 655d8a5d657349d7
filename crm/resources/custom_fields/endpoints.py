"""Endpoints of a tenant's own fields: `/fields`."""

from typing import Any

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import queries
from crm.records.columns import N_
from crm.resources.custom_fields import record as custom_fields
from crm.resources.custom_fields.record import CUSTOM_FIELD, CustomFieldRecord

blueprint = Blueprint("fields", "Fields of your own, of records.", N_("Own fields"))
FIELD_FILTER = queries.filter_of(CustomFieldRecord, queries.Filter, "position")()

all_fields = Endpoints(blueprint, "/fields", CUSTOM_FIELD)
all_fields.list(FIELD_FILTER, "List fields, in the order of forms; retired ones too.")
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
all_fields.get()
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
