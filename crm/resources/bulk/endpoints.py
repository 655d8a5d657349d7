"""Endpoints that change or delete many records at once (D16)."""

from typing import Any

from marshmallow import fields as ma

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import ok_answer
from crm.records import fields
from crm.records.nested import ValueList
from crm.records.parameters import Query
from crm.records.queries import DRY_RUN
from crm.records.schemas import RecordSchema
from crm.resources.bulk import work
from crm.resources.bulk.work import MAX_IDS, MAX_LISTED
from crm.resources.saved_views import ListQuery


class BulkChangeSchema(RecordSchema):
    """Which records, by `ids` or `where`, and what is done with them: `set` or `action`."""

    ids = ValueList(fields.Id(), MAX_IDS, example=["12", "13"])
    where = ListQuery(
        example={"status": ["new"]}, about="Parameters of the list; `{}` for all records."
    )
    set = fields.Extra(example={"assigned_to": "2"}, about="Fields, as PATCH takes them.")
    action = fields.Choice("delete", "add_tag", "remove_tag")
    tag = fields.Text(64, about="Of add_tag and remove_tag.")


class BulkSchema(BulkChangeSchema):
    """A change of many records, as it is sent."""

    expect = fields.Integer(about="How many records match, as a dry run counted them.")


class RefusalSchema(RecordSchema):
    code = fields.Text(64, dump_only=True, example="lead_already_converted")
    count = fields.Integer(dump_only=True)
    ids = ValueList(fields.Id(), MAX_LISTED, dump_only=True, example=["12"])


BULK = BulkSchema.body("Bulk")
FOUND: dict[str, Any] = {  # of an answer with what a change, or a dry run of it, met
    "count": ma.Integer(required=True, metadata={"description": "Records that match."}),
    "changed": ma.Integer(metadata={"description": "Not of a dry run."}),
    "batch_id": ma.String(metadata={"description": "Whose undo takes it back. Not of a dry run."}),
    "refused": ma.Integer(required=True, metadata={"description": "As far as they were tried."}),
    "refusals": ma.List(ma.Nested(RefusalSchema.out("RefusalOut")), required=True),
    "samples": ma.List(ma.Dict(), metadata={"description": f"Of a dry run: {MAX_LISTED} records."}),
}
BULK_OUT = ok_answer("BulkDoneOut", **FOUND)
STARTED = ok_answer("BulkStartedOut", says="running", batch_id=ma.String)


def respond(answer: dict[str, Any], goes_on: bool) -> tuple[dict[str, Any], dict[str, str], int]:
    """The response of what work.run() returns."""
    id = answer.get("batch_id")
    headers = {"Location": f"/batches/{id}"} if id else {}
    status = "running" if goes_on else "ok"
    return {"status": status, **answer}, headers, 202 if goes_on else 200


def add_endpoint(blueprint: Blueprint, plural: str) -> None:
    """Add `POST /<plural>/bulk` to the blueprint of a resource."""

    @blueprint.operation(
        "POST",
        f"/{plural}/bulk",
        name=f"change_many_{plural}",
        about=f"Change or delete many {plural} at once, as one batch.\n\n"
        "`dry_run=true` counts them; send the count as `expect`, else 409 `count_changed`. More"
        f" than {MAX_IDS} are changed in the background: 202. `POST /batches/<id>/undo` takes it"
        f" back. Needs `{plural}:write`; `where` and `dry_run` also `{plural}:read`.",
        needs=(f"{plural}:write",),
        query=DRY_RUN,
        body=BULK,
        example={"ids": ["12", "13"], "set": {"assigned_to": "2"}, "expect": 2},
        answer=BULK_OUT,
        other_status=202,
        other_answer=STARTED,
        conflicts=True,
    )
    def change_many(
        query: Query, data: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str], int]:
        if query.dry_run or "where" in data:  # counts and samples tell what is stored
            rights.require([f"{plural}:read"])
        return respond(*work.run(plural, data, query.dry_run))
