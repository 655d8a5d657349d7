"""The board of deals, a column for each stage of a pipeline, and all deals as a list.

A card moves by a form of its own (see moves.py): a stage is chosen and sent, or a script sends the
same form when the card is dropped on another column. In an open stage the board shows what is still
open.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import labels, lists, user_choices
from crm.cabinet.deals import choices
from crm.cabinet.forms import Form
from crm.cabinet.moving import exports
from crm.cabinet.rendering import Pages, render
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL
from crm.resources.pipelines.record import PIPELINE, Pipeline
from crm.tenancy.database import rows
from crm.values import as_number

SHOWN = 50  # cards of a column
KOPECKS = 100  # an amount is kept in 1/10 000 and has 2 decimals

pages = Pages("deals")


@pages.get("/deals")
def show_deals() -> Response:
    return show_list() if request.args.get(lists.VIEW) == "list" else show_board()


def show_board(form: Form | None = None, pipeline_id: int | str = "") -> Response:
    wanted = pipeline_id or request.args.get("pipeline_id") or Pipeline.default().id
    pipeline = PIPELINE.one(wanted)
    return render(
        "deals/board.html",
        form=form or Form(),
        pipeline=pipeline,
        pipelines=PIPELINE.every("1 ORDER BY position, id"),
        columns=_columns(pipeline),
        shown=SHOWN,
        everyone=user_choices.everyone(),
    )


def show_list() -> Response:
    return render(
        "deals/list.html",
        page=lists.page(DEAL, DEAL_FILTER),
        active_filters=lists.active_filters("deal"),
        narrowed=lists.is_narrowed(),
        ways=exports.ways("deals"),
        pipelines=PIPELINE.every("1 ORDER BY position, id"),
        stages=choices.stages(),
        statuses=labels.statuses("deal"),
        people=user_choices.names(),
        everyone=user_choices.everyone(),
    )


def _columns(pipeline: dict[str, Any]) -> list[dict[str, Any]]:
    figures = _figures(pipeline["id"])
    return [_column(stage, figures.get(stage["id"], [])) for stage in pipeline["stages"]]


def _column(stage: dict[str, Any], figures: list[tuple[str, str, int, int]]) -> dict[str, Any]:
    """A stage, its newest deals, and how many there are and what they come to."""
    seen = ("open",) if stage["type"] == "open" else ("open", "won", "lost")
    here = [figure for figure in figures if figure[0] in seen]
    sums: dict[str, int] = {}
    for _, currency, _, amount in here:
        sums[currency] = sums.get(currency, 0) + amount
    return {
        "stage": stage,
        "deals": _newest(stage["id"], seen),
        "count": sum(count for _, _, count, _ in here),
        "sums": [(as_number(sum, KOPECKS), currency) for currency, sum in sums.items() if sum],
        "closed": sum(count for status, _, count, _ in figures if status not in seen),
    }


def _newest(stage_id: str, seen: tuple[str, ...]) -> list[dict[str, Any]]:
    """The deals that came to a stage last, found before they are shown: that takes long."""
    order = "ORDER BY stage_changed_at DESC, id DESC"
    among = ", ".join("?" * len(seen))
    found = f"stage_id = ? AND deleted_at IS NULL AND status IN ({among})"
    sql = f"id IN (SELECT id FROM deal WHERE {found} {order} LIMIT ?) {order}"
    return DEAL.every(sql, int(stage_id), *seen, SHOWN)


def _figures(pipeline_id: str) -> dict[str, list[tuple[str, str, int, int]]]:
    """(status, currency, how many deals, their sum in 1/100) of each stage by its id.

    In 1/100, because amounts in 1/10 000 could add up to more than 64 bits.
    """
    found: dict[str, list[tuple[str, str, int, int]]] = {}
    for stage_id, *figure in rows(
        "SELECT stage_id, status, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
        " WHERE pipeline_id = ? AND deleted_at IS NULL GROUP BY stage_id, status, currency"
        " ORDER BY count(*) DESC, currency",
        (int(pipeline_id),),
    ):
        found.setdefault(str(stage_id), []).append(tuple(figure))
    return found
