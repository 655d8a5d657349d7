"""The verb behind each method that changes something: `VERBS["deals.items"]["create"]`.

A verb takes the ids of the path as texts, then what the operation declares: its query, its file,
its checked body. It gives an id (or ids, or an id and a secret) where something is created, an
answer where the operation has one of its own, else nothing. A method without a verb here runs the
function that its operation was declared with.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from crm import spreadsheets
from crm.json import loads
from crm.outbox import deliveries, events, subscriptions
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.resources import notes, tasks, webhooks
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.deals.items import ITEM
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines import removal
from crm.resources.products import record as products
from crm.spreadsheets import ParsedFile
from crm.tenancy.heavy_work import heavy_work
from crm.values.ids import integer_id

Verb = Callable[..., Any]
Values = dict[str, Any]


def read_file(resource: str, data: bytes, excel: bool) -> Any:
    """The rows of a CSV file of a resource, each cell checked. Raises Invalid, TooLarge."""
    with heavy_work():
        return spreadsheets.read_file(data, spreadsheets.find_resource(resource), excel)


def _import_file(query: Query, file: ParsedFile) -> Values:
    is_dry = query.options.get("dry_run") == "true"
    return {"status": "ok", **spreadsheets.import_file(file, dry_run=is_dry).counts()}


def _convert_lead(id: str, data: Values) -> Values:
    lead, _ = conversion.convert(id, data)
    ids = {"lead_id": lead.id, "deal_id": lead.deal_id, "client_id": lead.client_id}
    return {"status": "ok", **{name: str(value) for name, value in ids.items()}}


def _create_items(deal_id: str, data: Values) -> int | list[int]:
    if "items" in data:
        return items.create_all(deal_id, data["items"])
    return items.create(deal_id, data["item"])


def _replace_items(deal_id: str, data: Values) -> Page:
    deal = items.replace(deal_id, data["items"])
    return Page(ITEM.every("deal_id = ? ORDER BY position, id", deal.id))


def _rotate_secret(id: str) -> Values:
    secret = subscriptions.rotate_secret(id)
    return {"status": "ok", "webhook_id": str(integer_id(id)), "secret": secret}


def _recover(id: str, query: Query, data: Values) -> Values:
    is_dry = query.options.get("dry_run") == "true"
    return {"status": "ok", "count": deliveries.recover(id, data["since"], is_dry)}


def _delivery(send: Callable[[str], int], id: str) -> Values:
    return {"status": "ok", "delivery_id": str(send(id))}


def _list_events(query: Query) -> Values:
    kinds = query.options.get("type") or list(events.KINDS)
    bodies, next_after = events.list_bodies_after(query.options.get("after", 0), kinds, query.limit)
    return {"data": [loads(body) for body in bodies], "meta": {"next_after": next_after}}


def _notes_of(noun: str) -> dict[str, Verb]:
    return {"create": partial(notes.create, noun), "delete": partial(notes.delete, noun)}


VERBS: dict[str, dict[str, Verb]] = {
    "leads": {
        "create": lambda data: leads.create(leads.with_known_assignee(data)),
        "update": conversion.update,
        "delete": leads.delete,
        "convert": _convert_lead,
        "import_csv": _import_file,
    },
    "clients": {
        "create": clients.create,
        "update": clients.update,
        "delete": clients.delete,
        "import_csv": _import_file,
    },
    "clients.contacts": {
        "create": clients.create_contact,
        "update": clients.update_contact,
        "delete": clients.delete_contact,
    },
    "deals": {
        "create": deals.create,
        "update": deals.update,
        "delete": deals.delete,
        "import_csv": _import_file,
    },
    "deals.items": {
        "create": _create_items,
        "replace": _replace_items,
        "update": items.update,
        "delete": items.delete,
    },
    "products": {
        "create": products.create,
        "update": products.update,
        "delete": products.delete,
        "import_csv": _import_file,
    },
    "tasks": {
        "create": tasks.create,
        "update": tasks.update,
        "delete": tasks.delete,
        "complete": lambda id, data: tasks.complete(id, data.get("result")),
        "import_csv": _import_file,
    },
    "pipelines": {
        "create": pipelines.create,
        "update": pipelines.update,
        "delete": lambda id, query: removal.delete(id, query.options.get("move_to")),
    },
    "pipelines.stages": {
        "create": pipelines.create_stage,
        "update": pipelines.update_stage,
        "delete": lambda pipeline_id, id, query: removal.delete_stage(
            pipeline_id, id, query.options.get("move_to")
        ),
    },
    "leads.notes": _notes_of("lead"),
    "clients.notes": _notes_of("client"),
    "deals.notes": _notes_of("deal"),
    "webhooks": {
        "create": webhooks.create,
        "update": webhooks.update,
        "delete": subscriptions.delete,
        "rotate": _rotate_secret,
        "test": partial(_delivery, deliveries.send_test),
        "recover": _recover,
    },
    "events": {"list": _list_events},  # its function gives stored bodies, for an answer's JSON
    "deliveries": {"resend": partial(_delivery, deliveries.resend)},
}
