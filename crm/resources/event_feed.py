"""The event feed: what happened, read by asking (spec: Events; D12, D15).

A poller keeps `meta.next_after` and asks again. Rows are the bodies that webhooks get, oldest
first, of the last 30 days. Kinds whose nouns the key may not read are left out, and `next_after`
passes them too; to ask for one of them by `type` is refused. Other records in `data` are left out
if the key may not read them.
"""

from functools import cache
from typing import Any

import orjson
from marshmallow import Schema
from marshmallow import fields as ma

from crm import values
from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import Events, Open, Records, event_of
from crm.outbox import events
from crm.records import fields, parameters, queries
from crm.records.schemas import RecordSchema
from crm.resources import personal_data
from crm.resources.clients.record import CLIENT
from crm.resources.deals.items import ITEM
from crm.resources.deals.record import DEAL
from crm.resources.leads.record import LEAD
from crm.resources.pipelines.record import STAGE
from crm.resources.products.record import PRODUCT
from crm.resources.tasks import TASK


class ImportSummarySchema(RecordSchema):
    """The counts of an import."""

    id = fields.Id(dump_only=True)
    created = fields.Integer(dump_only=True)
    updated = fields.Integer(dump_only=True)
    skipped = fields.Integer(dump_only=True)


# The schemas of the records in `data`, by their names in it. Those of personal_data may be erased.
DATA_SCHEMAS = {
    "lead": LEAD.schema,
    "client": CLIENT.schema,
    "deal": DEAL.schema,
    "from_stage": STAGE.schema,
    "to_stage": STAGE.schema,
    "items": ITEM.schema,
    "product": PRODUCT.schema,
    "import": ImportSummarySchema.out("ImportSummaryOut"),
    "task": TASK.schema,
}


def _describe_data(kind: str) -> dict[str, Records]:
    """The fields of an event's `data`: its own record, which is always there, and further ones."""
    own = next(iter(events.scopes_of_data(kind)))
    return {
        name: Records(
            DATA_SCHEMAS[name],
            several=name == "items",
            required=name == own,
            is_listed=name in personal_data.RECORDS,
        )
        for name in events.scopes_of_data(kind)
    }


@cache  # made for the documentation alone
def event_schemas() -> dict[str, Schema]:
    """The schema of each kind of event."""
    return {kind: event_of(kind, _describe_data(kind)) for kind in events.KINDS}


class FeedMeta(Open):
    next_after = ma.Integer(
        required=True, metadata={"description": "Send it as `after` the next time."}
    )


def _feed() -> Schema:
    parts = {"data": Events(*event_schemas().values()), "meta": ma.Nested(FeedMeta, required=True)}
    return type("EventFeed", (Open,), parts)()


class After(parameters.Parameter):
    """The sequence of the last event that the client has read."""

    def apply(self, sent: list[str], query: parameters.Query) -> None:
        text = sent[0]
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise values.InvalidValue("invalid_number", "must be a sequence number, or 0")
        query.options[self.name] = int(text)

    def schema_type(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0, "maximum": 10**18 - 1, "default": 0}


class EventFilter(queries.Filter):
    after = After(about="Only events later than this sequence.")
    type = parameters.Option(fields.Choice(*events.KINDS), "Only of these kinds.", repeated=True)


EVENT_FILTER = EventFilter(only=("after", "limit", "type"))

blueprint = Blueprint("events", "What happened, oldest first.")


# Which scopes it needs, depends on the kinds.
@blueprint.operation("GET", "/events", needs=(), query=EVENT_FILTER, answer=_feed)
def list_events(query: parameters.Query) -> dict[str, Any]:
    """List events later than a sequence, the oldest first.

    Each kind needs the right to read its noun, such as `leads:read`. Other records in `data`, such
    as the deal and the client of `lead.converted`, are left out if the key may not read them. A key
    for own records only may read none.
    """
    rights.require_all_records()  # an event has other records beside its own
    scopes, after = rights.granted(), query.options.get("after", 0)
    scope_of = {kind: next(iter(events.scopes_of_data(kind).values())) for kind in events.KINDS}
    kinds = query.options.get("type", [])
    rights.require(scope_of[kind] for kind in kinds)
    lacking = "this key may read no event: it lacks leads:read"
    kinds = kinds or rights.require_any(scope_of, lacking)
    bodies, following = events.list_bodies_after(after, kinds, query.limit, scopes)
    return {"data": list(map(orjson.Fragment, bodies)), "meta": {"next_after": following}}
