"""Deals with their items in files (spec: Deals and deal items; D7, D8): one row per item.

An item is found by its id, else by its sku, else by its name in the deal, the n-th of them by the
n-th row; else it is a new one. Items that the file does not name stay as they are. The amount of a
deal with items is their total, unless the file has another one without the mode `items`.

Pipelines and stages go by name or id, a client by id, external_id, or by its name if no other has
the same, a contact by its id or by its name at the client. Letter case does not matter in names.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from crm.json import integer_id
from crm.resources.clients import record as clients
from crm.resources.clients.csv_columns import CLIENTS
from crm.resources.deals import deal_with_items
from crm.resources.deals.items import DealItem
from crm.resources.deals.record import DEAL_IN, Deal
from crm.resources.pipelines.record import Pipeline, Stage, create_stage
from crm.resources.user_references import ImportableRecord, resolve_user
from crm.spreadsheets.csv_columns import (
    id_column,
    plain_column,
    reference_column,
    reference_columns,
)
from crm.spreadsheets.foreign.aliases import SEVERAL
from crm.spreadsheets.references import References, contradiction, name_for_file, require_one
from crm.spreadsheets.resource import Entry
from crm.storage.dialect import equals
from crm.storage.session import rows
from crm.values.folding import fold

LIVE_CLIENT_NAME = (
    "(SELECT name FROM client WHERE client.id = deal.client_id AND deleted_at IS NULL)"
)
CONTACT_OF_LIVE_CLIENT = (
    "(SELECT contact.{} FROM contact JOIN client ON client.id = contact.client_id"
    " WHERE contact.id = deal.contact_id AND client.deleted_at IS NULL)"
)


def find_pipeline(references: References, text: str, is_foreign: bool = False) -> int:
    """The id of the pipeline that a cell names; raises Invalid.

    is_foreign: the file is of another tenant, so its ids mean nothing here.
    """
    ids = references.ids_named("pipeline", text) or _ids_of("pipeline", text, is_foreign)
    return require_one(ids, "pipeline", text, "pipeline")


def find_stage(
    references: References, text: str, pipeline_id: int | None, is_foreign: bool = False
) -> int:
    """The id of the stage that a cell names; raises Invalid.

    It is looked for in this pipeline; without one in the default pipeline, then in all.
    """
    home_pipeline_id = pipeline_id or Pipeline.default().id
    ids = references.ids_named("stage", text, "pipeline_id = ?", home_pipeline_id)
    if not (ids or pipeline_id):
        ids = references.ids_named("stage", text)
    return require_one(ids or _ids_of("stage", text, is_foreign), "stage", text, "stage")


def _ids_of(table: str, text: str, is_foreign: bool) -> list[int]:
    found = [] if is_foreign else rows(f"SELECT id FROM {table} WHERE id = ?", (integer_id(text),))
    return [id for (id,) in found]


def find_client(
    values: dict[str, Any], source: str | None, record: Any, references: References
) -> int | None:
    """The id of the client that any column of a deal's row names; takes those out of `values`.

    `record` is the deal if it exists. A phone or an e-mail goes before the name, unless the row has
    a contact, whose they are then. Raises Invalid.
    """
    reach = {} if "contact" in values else _take_reach(values)
    name = values.pop("client", None) or reach.get("email") or reach.get("phone")
    client_id = references.find_record("client", values, source)
    if name is not None and record is not None and fold(record.client_name or "") == fold(name):
        return client_id or record.client_id  # unchanged, even if the client was deleted since

    def find(name: str) -> list[int]:
        for key, value in reach.items():
            sql = f"SELECT DISTINCT id FROM {CLIENTS.keyed_by(key)} WHERE {equals(key)}"
            if ids := [id for (id,) in rows(f"{sql} AND deleted_at IS NULL", (value,))]:
                return ids
        ids = references.ids_named("client", name, "deleted_at IS NULL")
        # One with another phone is another one.
        return [id for id in ids if "phone" not in reach or not clients.Client.find(id).phone]

    def create(name: str) -> int:
        return clients.create({"name": name, "type": "person" if reach else "company", **reach})

    within = "client", *reach.values()
    return _find_named(references, "client", client_id, name, find, create, within)


def find_contact(
    values: dict[str, Any], source: str | None, client_id: int | None, references: References
) -> int | None:
    """The id of the contact that a deal's row names by id or name; takes both out of `values`.

    Raises Invalid.
    """
    id, name = values.pop("contact_id", None), values.pop("contact", None)
    reach = _take_reach(values)

    def find(name: str) -> list[int]:
        return references.ids_named("contact", name, "client_id = ?", client_id)

    def create(name: str) -> int:
        return clients.create_contact(client_id or 0, {"name": name, **reach})

    own_id = None if source else id
    within = "contact", client_id
    return _find_named(
        references, "contact", own_id, name, find, create if client_id else None, within
    )


def _take_reach(values: dict[str, Any]) -> dict[str, str]:
    """Take the phone and e-mail of the client or its contact out of values."""
    return {n: values.pop(f"client_{n}") for n in SEVERAL if f"client_{n}" in values}


def _find_named(
    references: References,
    noun: str,
    id: int | None,
    name: str | None,
    find: Callable[[str], list[int]],
    create: Callable[[str], int] | None = None,
    within: Any = None,
) -> int | None:
    """The id that an id and a name stand for, either of which may be missing; raises Invalid.

    create, within: as in References.resolve().
    """
    if name is None:
        return id
    if id is None:
        return references.resolve(
            noun, name, lambda name: require_one(find(name), noun, name, noun), create, within
        )
    if id not in find(name):
        raise contradiction(noun, f"is not the name of the {noun} {id}")
    return id


class ImportableDeals(ImportableRecord):
    record, body, part_record, part_order = Deal, DEAL_IN, DealItem, "position, id"
    part_names = ("sku", "name")
    replaced_columns = {
        "client_id": (
            *reference_columns(Deal, "client_id"),
            reference_column("client", LIVE_CLIENT_NAME),
            *(replace(plain_column(clients.Client, n, "client_"), sql="") for n in SEVERAL),
        ),
        "contact_id": (
            id_column("contact_id", CONTACT_OF_LIVE_CLIENT.format("id")),
            reference_column("contact", CONTACT_OF_LIVE_CLIENT.format("name"), shows="clients"),
        ),
        "pipeline_id": (reference_column("pipeline", "deal.pipeline_id"),),
        "stage_id": (reference_column("stage", "deal.stage_id"),),
        "manager": (reference_column("manager", ""),),
    }
    column_of_field = {"pipeline_id": "pipeline", "stage_id": "stage"}
    column_of_conflict = {"duplicate_external_id": "external_id", "currency_fixed": "currency"}

    def reference_names(self, references: References) -> dict[str, Callable[[Any], str]]:
        def pipeline_name(id: int) -> str:
            find = partial(find_pipeline, references)
            return name_for_file(id, [Pipeline.find(id).name], find)

        def stage_name(id: int) -> str:
            stage = Stage.find(id)
            find = partial(find_stage, references, pipeline_id=stage.pipeline_id)
            return name_for_file(id, [stage.name], find)

        names = super().reference_names(references)
        return {"pipeline": pipeline_name, "stage": stage_name, **names}

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        is_foreign = source is not None
        super().resolve_references(values, record, source, references)
        resolve_user(values, "manager", source, references)
        manager = values.pop("manager", None)
        if manager is not None and values.setdefault("assigned_to", manager) != manager:
            raise contradiction("manager", "is not the user of assigned_to")
        # In this order: a contact is looked up at the client, a stage in the pipeline.
        client_id = find_client(values, source, record, references)
        client_of_contact = client_id or (record.client_id if record else None)
        contact_id = find_contact(values, source, client_of_contact, references)
        pipeline_id = record.pipeline_id if record else None
        if (text := values.pop("pipeline", None)) is not None:
            found_id = references.resolve(
                "pipeline", text, lambda text: find_pipeline(references, text, is_foreign)
            )
            if found_id is not None:
                pipeline_id = values["pipeline_id"] = found_id
        if (text := values.pop("stage", None)) is not None:
            stage_id = references.resolve(
                "stage",
                text,
                lambda text: find_stage(references, text, pipeline_id, is_foreign),
                lambda name: create_stage(pipeline_id or Pipeline.default().id, {"name": name}),
                within=("stage", pipeline_id),
            )
            if stage_id is not None:
                values["stage_id"] = stage_id
        ids = {"client_id": client_id, "contact_id": contact_id}
        values |= {name: id for name, id in ids.items() if id is not None}
        if record is not None and values.get("amount") == record.amount:
            # An unchanged amount may be the total of items that this file changes: sending it
            # would set the amount by hand.
            values.pop("amount", None)
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        if "manager" in data:  # an empty cell
            data.setdefault("assigned_to", data.pop("manager"))
        lines = [line for _, line in self.match_parts(entry, source, [])]
        return deal_with_items.create(data, lines)

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        items = DealItem.every("deal_id = ? ORDER BY position, id", record.id)
        lines = self.match_parts(entry, source, items)
        return deal_with_items.update(record.id, data, lines).version

    def put_back(self, record: Any, values: dict[str, Any]) -> None:
        deal_with_items.put_back(record, values)


DEALS = ImportableDeals()
