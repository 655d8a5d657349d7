"""The audit trail of a record: old and new values of each change, its time and user (D17).

`SoftDeletedRecord.save_changes` writes it; here it is read, in the form that the record itself has
on the wire. A note is no change, nor is a deletion, after which the trail is as unseen as the
record; undoing one is.
"""

from functools import partial
from typing import Any

from crm.api.blueprints import Blueprint
from crm.api.envelopes import page_of
from crm.records import fields, nested, pagination, queries
from crm.records.deletions import IS_DELETION
from crm.records.parameters import Query
from crm.records.record import require_live
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.storage import own_rows
from crm.storage.dialect import json_row

own_rows.declare_parts_of_any("audit_entry")


class ChangeKeySchema(RecordSchema):
    id = fields.Id(dump_only=True)
    name = fields.Text(255, dump_only=True)


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
    tool = fields.Text(
        64, dump_only=True, allow_none=True, about="The tool, of a change by an assistant (MCP)."
    )
    before = fields.Extra(dump_only=True, about="The fields that changed, as they were.")
    after = fields.Extra(dump_only=True, about="The same fields, as they became.")


CHANGE = RecordView(ChangeSchema.out("ChangeOut"), "audit_entry", live=False)
CHANGE_FILTER = queries.sorted_by("-id")


def of_record(view: RecordView, id: int | str, query: Query) -> pagination.Page:
    """A page of the changes of a live record, the newest first."""
    noun = view.table
    condition = f"noun = ? AND record_id = ? AND NOT {IS_DELETION}"
    params = (noun, require_live(noun, id))
    page = pagination.page(CHANGE, query, CHANGE_FILTER.fields["sort"], condition, params)
    for change in page.records:
        for side in ("before", "after"):
            change[side] = view.show(change[side])
    return page


def add_lists(
    blueprint: Blueprint, views: dict[str, RecordView], about: str, function: Any, **declared: Any
) -> None:
    """Add `GET /<plural>/<id>/<name of the blueprint>`, a page of what belongs to one record.

    function: takes the view, the id and the query. declared: attributes of the operations.
    """
    for plural, view in views.items():
        blueprint.add(
            "GET",
            f"/{plural}/<id>/{blueprint.name}",
            name=f"list_{view.table}_{blueprint.name}",
            about=about.format(view.table),
            function=partial(function, view),
            needs=(f"{plural}:read",),
            kind="page",
            **declared,
        )


def endpoints(views: dict[str, RecordView]) -> Blueprint:
    """The endpoints of `{"leads": LEAD, …}`: how the changes of each noun are shown."""
    blueprint = Blueprint("changes", "What changed in a record, when and by whom.")
    about, page = "List the changes of a {}.", page_of(CHANGE.schema, deleted=False)
    add_lists(blueprint, views, about, of_record, query=CHANGE_FILTER, answer=page)
    return blueprint
