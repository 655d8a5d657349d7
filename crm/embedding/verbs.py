"""The verb behind each method that changes something: `VERBS["deals.items"]["create"]`.

A verb takes the ids of the path as texts, then what the operation declares: its query, its file,
its checked body. It gives an id (or ids, or an id and a secret) where something is created, an
answer where the operation has one of its own, else nothing. A method without a verb here runs the
function that its operation was declared with, which does more than call one verb but needs no
request: that of `leads.convert`, for instance, makes an answer of what the verb returns.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from crm import spreadsheets
from crm.json import loads
from crm.outbox import events, subscriptions
from crm.records.parameters import Query
from crm.resources import notes, tasks, webhooks
from crm.resources.clients import record as clients
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines import removal
from crm.resources.products import record as products
from crm.spreadsheets import ParsedFile
from crm.tenancy.heavy_work import heavy_work

Verb = Callable[..., Any]
Values = dict[str, Any]


def read_file(resource: str, data: bytes, excel: bool) -> Any:
    """The rows of a CSV file of a resource, each cell checked. Raises Invalid, TooLarge."""
    with heavy_work():
        return spreadsheets.read_file(data, spreadsheets.find_resource(resource), excel)


def _import_file(query: Query, file: ParsedFile) -> Values:
    is_dry = query.options.get("dry_run") == "true"
    return {"status": "ok", **spreadsheets.import_file(file, dry_run=is_dry).counts()}


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
    },
    "events": {"list": _list_events},  # its function gives stored bodies, for an answer's JSON
}
