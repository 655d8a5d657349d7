"""The audit trail of a record: old and new values of each change, its time and user (D17).

`SoftDeletedRecord.put` writes it; here it is read, in the form that the record itself has on the
wire. A note is no change, nor is a deletion, after which the trail is as unseen as the record;
undoing one is.
"""

from crm.api.envelopes import page_of
from crm.api.operations import Blueprint, named
from crm.records import fields, nested, pagination, parameters, queries
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.record import live
from crm.records.schemas import RecordSchema
from crm.records.sizes import MAX_PARTS_BYTES
from crm.records.views import RecordView
from crm.tenancy.dialect import json_row


class ChangeKeySchema(RecordSchema):
    id = fields.Id(dump_only=True)
    name = fields.Text(255, dump_only=True)


class Columns(fields.Extra):
    """Some columns of a record, as they were."""

    max_bytes = MAX_PARTS_BYTES + (1 << 18)


class ChangeSchema(RecordSchema):
    id = fields.Id(dump_only=True)
    at = fields.DateTime(dump_only=True)
    user_id = fields.Id(dump_only=True, allow_none=True)
    key = nested.Nested(
        ChangeKeySchema.out("ChangeKeyOut"),
        column=json_row(
            {"id": "id", "name": "name"}, "api_key WHERE api_key.id = audit_entry.key_id"
        ),
        dump_only=True,
        allow_none=True,
        about="The API key that was used; null for a change made in the cabinet.",
    )
    before = Columns(dump_only=True, about="The fields that changed, as they were.")
    after = Columns(dump_only=True, about="The same fields, as they became.")


class ChangeFilter(queries.Filter):
    sort = parameters.Sort("-id")


CHANGE = RecordView(ChangeSchema.out("ChangeOut"), "audit_entry", live=False)
CHANGE_PAGE = page_of(CHANGE.schema)
CHANGE_FILTER = ChangeFilter()


def of_record(shape: RecordView, id: int | str, query: Query) -> Page:
    """A page of the changes of a live record, the newest first."""
    noun = shape.table
    condition, params = "noun = ? AND record_id = ?", (noun, live(noun, id))
    page = pagination.page(CHANGE, query, CHANGE_FILTER.fields["sort"], condition, params)
    for change in page.records:
        for side in ("before", "after"):
            change[side] = shape.show(change[side])
    return page


def endpoints(shapes: dict[str, RecordView]) -> Blueprint:
    """The endpoints of `{"leads": LEAD, …}`: how the changes of each noun are shown."""
    blueprint = Blueprint("changes", "What changed in a record, when and by whom.")

    def add_endpoint(plural: str, shape: RecordView) -> None:
        @blueprint.get(f"/{plural}/<id>/changes")
        @blueprint.needs(f"{plural}:read")
        @blueprint.arguments(CHANGE_FILTER, location="query")
        @blueprint.page(CHANGE_PAGE)
        @named(f"list_{shape.table}_changes", f"List the changes of a {shape.table}.")
        def list_changes(query: Query, id: str) -> Page:
            return of_record(shape, id, query)

    for plural, shape in shapes.items():
        add_endpoint(plural, shape)
    return blueprint
