"""Endpoints of deals and their items, in the specification's order (spec: Deals and deal items)."""

from typing import Any

from flask import g

from crm.access import rights
from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.records import pagination, parameters, queries
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.resources.deals import items
from crm.resources.deals import record as deals
from crm.resources.deals.csv_columns import DEALS
from crm.resources.deals.history import STAGE_MOVE
from crm.resources.deals.items import ITEM, ITEM_IN, ITEM_PATCH, ITEMS_PUT, DealItem
from crm.resources.deals.record import (
    DEAL,
    DEAL_IN,
    DEAL_PATCH,
    Deal,
)
from crm.spreadsheets.endpoints import add_endpoints


class DealFilter(filter_of(Deal)):  # type: ignore[misc]  # made from the declaration
    closed_since = parameters.Since(
        "closed_at", "Won or lost at or after this moment.", is_order=False
    )
    closed_until = parameters.Before(
        "closed_at",
        "Won or lost before this moment; the moment itself is not included.",
        is_order=False,
    )


class DealItemFilter(queries.Filter):
    sort = parameters.Sort("position", position="position")


class StageMoveFilter(queries.Filter):
    sort = parameters.Sort("id")


DEAL_FILTER = DealFilter()
ITEM_FILTER = DealItemFilter()
MOVE_FILTER = StageMoveFilter()
ITEM_PAGE = page_of(ITEM.schema)

blueprint = Blueprint(
    "deals", "What is being sold, stage by stage, and the items it is made of.", N_("Deals")
)


@blueprint.get("/deals")
@blueprint.arguments(DEAL_FILTER, location="query")
@blueprint.page(page_of(DEAL.schema, deleted=True))
def list_deals(query: Query) -> Page:
    """List deals, the newest first."""
    return pagination.page(DEAL, query, DEAL_FILTER.fields["sort"])


@blueprint.post("/deals")
@blueprint.arguments(
    DEAL_IN, example={"title": "Крісла для офісу", "amount": 12500, "source": "site-form"}
)
@blueprint.created("deal", DEAL)
@blueprint.conflicts()
def create_deal(data: dict[str, Any]) -> int:
    """Create a deal; with `lead_id` that lead is converted into it."""
    if data.get("lead_id") is not None:
        rights.require(g.caller.scopes, ["leads:write"])
    return deals.create(data)


@blueprint.get("/deals/<id>")
@blueprint.one(DEAL)
def get_deal(id: str) -> dict[str, Any]:
    """Get one deal."""
    return DEAL.one(id)


@blueprint.patch("/deals/<id>")
@blueprint.arguments(DEAL_PATCH, example={"stage_id": "3", "amount": 11900.5})
@blueprint.one(DEAL)
@blueprint.conflicts()
def change_deal(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a deal: its stage, amount, manager and so on."""
    return DEAL.one(deals.update(id, data, expected_version).id)


@blueprint.delete("/deals/<id>")
@blueprint.empty()
def delete_deal(id: str, expected_version: int | None = None) -> None:
    """Delete a deal."""
    deals.delete(id, expected_version)


@blueprint.get("/deals/<id>/history")
@blueprint.arguments(MOVE_FILTER, location="query")
@blueprint.page(page_of(STAGE_MOVE.schema))
def list_deal_history(query: Query, id: str) -> Page:
    """List the moves of a deal from stage to stage, the oldest first."""
    deal = Deal.find(id)
    return pagination.page(STAGE_MOVE, query, MOVE_FILTER.fields["sort"], "deal_id = ?", [deal.id])


@blueprint.get("/deals/<id>/items")
@blueprint.arguments(ITEM_FILTER, location="query")
@blueprint.page(ITEM_PAGE)
def list_deal_items(query: Query, id: str) -> Page:
    """List the items of a deal, in their order."""
    deal = Deal.find(id)
    return pagination.page(ITEM, query, ITEM_FILTER.fields["sort"], "deal_id = ?", [deal.id])


@blueprint.post("/deals/<id>/items")
@blueprint.arguments(ITEM_IN, example={"name": "Доставка", "price": 350.5, "quantity": 2})
@blueprint.created("item", ITEM, several=True)
@blueprint.conflicts()
def create_deal_item(data: dict[str, Any], id: str) -> int | list[int]:
    """Add an item to a deal, or several as `items`."""
    if "items" in data:
        return items.create_all(id, data["items"])
    return items.create(id, data["item"])


@blueprint.put("/deals/<id>/items")
@blueprint.arguments(
    ITEMS_PUT, example={"items": [{"name": "Доставка", "price": 350.5, "quantity": 2}]}
)
@blueprint.page(ITEM_PAGE, noun="item")
def replace_deal_items(data: dict[str, Any], id: str) -> Page:
    """Replace all items of a deal."""
    return Page(items.items_of(items.replace(id, data["items"])))


@blueprint.get("/deals/<id>/items/<itemId>")
@blueprint.one(ITEM)
def get_deal_item(id: str, itemId: str) -> dict[str, Any]:
    """Get one item of a deal."""
    return ITEM.one(DealItem.of(Deal.find(id), itemId).id)


@blueprint.patch("/deals/<id>/items/<itemId>")
@blueprint.arguments(ITEM_PATCH, example={"quantity": 3, "discount": 10})
@blueprint.one(ITEM)
def change_deal_item(
    data: dict[str, Any], id: str, itemId: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change quantity, discount, price or other fields of an item."""
    return ITEM.one(items.update(id, itemId, data, expected_version).id)


@blueprint.delete("/deals/<id>/items/<itemId>")
@blueprint.empty()
def delete_deal_item(id: str, itemId: str, expected_version: int | None = None) -> None:
    """Remove an item from a deal."""
    items.delete(id, itemId, expected_version)


add_endpoints(blueprint, DEALS, DealFilter)
