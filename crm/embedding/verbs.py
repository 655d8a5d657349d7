"""The verb behind each method that changes something: `VERBS["deals.items"]["create"]`.

A verb takes the ids of the path as texts, then what the operation declares: its query, its file,
its checked body. It gives an id (or ids, or an id and a secret) where something is created, an
answer where the operation has one of its own, else nothing. A method without a verb here runs the
function that its operation was declared with.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from crm.json import loads
from crm.outbox import deliveries, events
from crm.outbox.subscriptions import Webhook
from crm.records.pagination import Page
from crm.records.queries import Query
from crm.resources import csv_files, moving, notes, tasks, webhooks
from crm.resources.clients import record as clients
from crm.resources.clients.record import Client
from crm.resources.deals import items
from crm.resources.deals.items import ITEM, DealItem
from crm.resources.deals.record import Deal
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.leads.record import Lead
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines.record import Pipeline, Stage
from crm.resources.pipelines.removal import remove_pipeline, remove_stage
from crm.resources.products import record as products
from crm.resources.products.record import Product
from crm.resources.tasks import Task
from crm.tenancy.heavy_work import heavy_work

Verb = Callable[..., Any]
Values = dict[str, Any]


def read_file(resource: str, data: bytes, excel: bool) -> Any:
    """The rows of a CSV file of a resource, each cell checked. Raises Invalid, TooLarge."""
    with heavy_work():
        return moving.read(data, resource, excel)


def _import_file(query: Query, sheet: Any) -> Values:
    answer, _ = csv_files.answer_of(moving.import_csv(sheet, None, csv_files.is_dry(query)))
    return answer


def _convert_lead(id: str, data: Values) -> Values:
    lead = Lead.find(id)
    conversion.convert(lead, data)
    ids = {"lead_id": lead.id, "deal_id": lead.deal_id, "client_id": lead.client_id}
    return {"status": "ok", **{name: str(value) for name, value in ids.items()}}


def _create_items(deal_id: str, data: Values) -> int | list[int]:
    deal = Deal.find(deal_id)
    return items.add_all(deal, data["items"]) if "items" in data else items.add(deal, data["item"])


def _replace_items(deal_id: str, data: Values) -> Page:
    deal = Deal.find(deal_id)
    items.replace(deal, data["items"])
    return Page(ITEM.every("deal_id = ? ORDER BY position, id", deal.id))


def _update_item(deal_id: str, id: str, data: Values) -> None:
    deal = Deal.find(deal_id)
    DealItem.of(deal, id).change(deal, data)


def _delete_item(deal_id: str, id: str) -> None:
    deal = Deal.find(deal_id)
    DealItem.of(deal, id).remove(deal)


def _rotate_secret(id: str) -> Values:
    webhook = Webhook.find(id)
    return {"status": "ok", "webhook_id": str(webhook.id), "secret": webhook.rotate()}


def _recover(id: str, query: Query, data: Values) -> Values:
    is_dry = query.chosen.get("dry_run") == "true"
    return {"status": "ok", "count": deliveries.recover(id, data["since"], is_dry)}


def _delivery(send: Callable[[str], int], id: str) -> Values:
    return {"status": "ok", "delivery_id": str(send(id))}


def _list_events(query: Query) -> Values:
    kinds = query.chosen.get("type") or list(events.KINDS)
    bodies, next_after = events.since(query.chosen.get("after", 0), kinds, query.limit)
    return {"data": [loads(body) for body in bodies], "meta": {"next_after": next_after}}


def _notes_of(noun: str) -> dict[str, Verb]:
    return {
        "create": lambda id, data: notes.create(noun, id, data),
        "delete": lambda record_id, id: notes.find(noun, record_id, id).erase(),
    }


VERBS: dict[str, dict[str, Verb]] = {
    "leads": {
        "create": lambda data: leads.create(leads.assigned(data)),
        "update": lambda id, data: conversion.change(Lead.find(id), data),
        "delete": lambda id: Lead.find(id).remove(),
        "convert": _convert_lead,
        "import_csv": _import_file,
    },
    "clients": {
        "create": clients.create,
        "update": lambda id, data: Client.find(id).change(data),
        "delete": lambda id: Client.find(id).remove(),
        "import_csv": _import_file,
    },
    "clients.contacts": {
        "create": lambda client_id, data: Client.find(client_id).add_contact(data),
        "update": lambda client_id, id, data: Client.find(client_id).change_contact(id, data),
        "delete": lambda client_id, id: Client.find(client_id).remove_contact(id),
    },
    "deals": {
        "create": conversion.create_deal,
        "update": lambda id, data: Deal.find(id).change(data),
        "delete": lambda id: Deal.find(id).remove(),
        "import_csv": _import_file,
    },
    "deals.items": {
        "create": _create_items,
        "replace": _replace_items,
        "update": _update_item,
        "delete": _delete_item,
    },
    "products": {
        "create": products.create,
        "update": lambda id, data: Product.find(id).change(data),
        "delete": lambda id: Product.find(id).remove(),
        "import_csv": _import_file,
    },
    "tasks": {
        "create": tasks.create,
        "update": lambda id, data: Task.find(id).change(data),
        "delete": lambda id: Task.find(id).remove(),
        "complete": lambda id, data: Task.find(id).complete(data.get("result")),
        "import_csv": _import_file,
    },
    "pipelines": {
        "create": pipelines.create,
        "update": lambda id, data: Pipeline.find(id).change(data),
        "delete": lambda id, query: remove_pipeline(Pipeline.find(id), query.chosen.get("move_to")),
    },
    "pipelines.stages": {
        "create": lambda pipeline_id, data: Pipeline.find(pipeline_id).add_stage(data),
        "update": lambda pipeline_id, id, data: Stage.of(pipeline_id, id).change(data),
        "delete": lambda pipeline_id, id, query: remove_stage(
            Stage.of(pipeline_id, id), query.chosen.get("move_to")
        ),
    },
    "leads.notes": _notes_of("lead"),
    "clients.notes": _notes_of("client"),
    "deals.notes": _notes_of("deal"),
    "webhooks": {
        "create": webhooks.create,
        "update": lambda id, data: Webhook.find(id).change(data),
        "delete": lambda id: Webhook.find(id).erase(),
        "rotate": _rotate_secret,
        "test": partial(_delivery, deliveries.test),
        "recover": _recover,
    },
    "events": {"list": _list_events},  # its function gives stored bodies, for an answer's JSON
    "deliveries": {"resend": partial(_delivery, deliveries.resend)},
}
