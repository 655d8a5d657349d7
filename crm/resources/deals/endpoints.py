"""Endpoints of deals and their items, in the specification's order (spec: Deals and deal items)."""

from typing import Any

from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import page_of
from crm.records import fields, parameters
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.queries import amount_range, filter_of, period, sorted_by
from crm.records.tags import Tag
from crm.resources.deals import figures, items
from crm.resources.deals import record as deals
from crm.resources.deals.history import STAGE_MOVE
from crm.resources.deals.items import ITEM, ITEM_IN, ITEMS_PUT, DealItem
from crm.resources.task_figures import DEALS_WITH_STEP, STEP_OF_DEAL

EXPECTED = "coalesce(expected_close_date, '9999')"


class DealFilter(filter_of(deals.Deal)):  # type: ignore[misc]  # made from the declaration
    closed_since, closed_until = period("closed_at", "Won or lost", is_order=False)
    tag = Tag("deal")
    amount_from, amount_to = amount_range()
    expected_close_from = parameters.Since(
        EXPECTED, "Expected to close on this day or later.", inner=fields.Date(), absent="'9999'"
    )
    expected_close_to = parameters.UpTo(
        EXPECTED, "Expected to close on this day or earlier.", inner=fields.Date(), absent="'9999'"
    )
    has_expected_close_date = parameters.HasValue(EXPECTED, absent="'9999'")
    has_open_task = parameters.HasRelated(
        STEP_OF_DEAL, DEALS_WITH_STEP, "`false`: only deals for which nothing is left to do."
    )
    currency = parameters.Unindexed(fields.Currency())
    source = parameters.Equals(fields.Text(64), rare=True, in_order=True)
    has_source = parameters.HasValue("source", is_indexed=False)
    lost_reason = parameters.Equals(fields.Text(255), rare=True, in_order=True)
    has_lost_reason = parameters.HasValue("lost_reason", is_indexed=False)
    reached_stage_id = parameters.RelatedTo(
        figures.REACHED, "Deals that have ever come to this stage of their pipeline, or further."
    )
    left_stage_id = parameters.RelatedTo(figures.LEFT, "Deals that have ever left this stage.")


DEAL_FILTER = DealFilter()
ITEM_FILTER = sorted_by("position", position="position")

blueprint = Blueprint(
    "deals", "What is being sold, stage by stage, and the items it is made of.", N_("Deals")
)


def create_items(id: str, data: dict[str, Any]) -> int | list[int]:
    """Add the item of the body, or its `items`."""
    if "items" in data:
        return items.create_all(id, data["items"])
    return items.create(id, data["item"])


def of_deal(id: str) -> tuple[str, list[int]]:
    """The condition of the parts of a live deal."""
    return "deal_id = ?", [deals.Deal.find(id).id]


all_deals = Endpoints(blueprint, "/deals", deals.DEAL)
all_deals.list(DEAL_FILTER)
all_deals.create(
    deals.create,
    "Create a deal; with `lead_id` that lead is converted into it.",
    example={"title": "Крісла для офісу", "amount": 12500, "source": "site-form"},
)
all_deals.get()
all_deals.change(
    deals.update,
    "Change the sent fields of a deal: its stage, amount, manager and so on.",
    example={"stage_id": "3", "amount": 11900.5},
)
all_deals.delete(deals.delete)


Endpoints(blueprint, "/deals/<id>/history", STAGE_MOVE).list(
    sorted_by("id"),
    "List the moves of a deal from stage to stage, the oldest first.",
    where=of_deal,
    name="list_deal_history",
)

deal_items = Endpoints(blueprint, "/deals/<id>/items", ITEM, "deal_item", id="itemId")
deal_items.list(ITEM_FILTER, "List the items of a deal, in their order.", where=of_deal)
deal_items.create(
    create_items,
    "Add an item to a deal, or several as `items`.",
    body=ITEM_IN,
    example={"name": "Доставка", "price": 350.5, "quantity": 2},
    several=True,
    conflicts=True,
)


@blueprint.operation(
    "PUT",
    "/deals/<id>/items",
    body=ITEMS_PUT,
    example={"items": [{"name": "Доставка", "price": 350.5, "quantity": 2}]},
    kind="page",
    answer=page_of(ITEM.schema, deleted=False),
    noun="item",
)
def replace_deal_items(id: str, data: dict[str, Any]) -> Page:
    """Replace all items of a deal."""
    return Page(items.items_of(items.replace(id, data["items"])))


deal_items.get(
    "Get one item of a deal.", lambda id, one: ITEM.one(DealItem.of(deals.Deal.find(id), one).id)
)
deal_items.change(
    items.update,
    "Change quantity, discount, price or other fields of an item.",
    example={"quantity": 3, "discount": 10},
)
deal_items.delete(items.delete, "Remove an item from a deal.")
