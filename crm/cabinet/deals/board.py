"""The board of deals, a column for each stage of a pipeline, and all deals as a list.

A card moves by a form of its own (see moves.py): a stage is chosen and sent, or a script sends the
same form when the card is dropped on another column. In an open stage the board shows what is still
open.
"""

from typing import Any
from urllib.parse import urlencode

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import labels, list_pages, lists, user_choices
from crm.cabinet.deals import choices
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.list_pages import NUMBER, FilterField, Link, ListPage
from crm.cabinet.rendering import Pages, render
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL
from crm.resources.pipelines.record import PIPELINE, Pipeline
from crm.tenancy.database import rows
from crm.values import as_number

MAX_CARDS = 50  # of a column
HUNDREDTHS = 100  # amounts are stored in 1/10 000 and have 2 decimals

pages = Pages("deals")


@pages.get("/deals")
def show_deals() -> Response:
    return show_list() if request.args.get(lists.VIEW) == "list" else show_board()


def show_board(form: Form | None = None, pipeline_id: int | str = "") -> Response:
    pipeline = PIPELINE.one(pipeline_id or request.args.get("pipeline_id") or Pipeline.default().id)
    return render(
        "deals/board.html",
        form=form or Form(),
        pipeline=pipeline,
        pipelines=PIPELINE.every("TRUE ORDER BY position, id"),
        columns=_columns(pipeline),
        max_cards=MAX_CARDS,
        stages=[(stage["id"], stage["name"]) for stage in pipeline["stages"]],
        everyone=user_choices.everyone(),
    )


def show_list() -> Response:
    pipelines = [
        (pipeline["id"], pipeline["name"])
        for pipeline in PIPELINE.every("TRUE ORDER BY position, id")
    ]
    stages = choices.list_stages()
    statuses = labels.statuses("deal")
    filters = [
        FilterField("select", "stage_id", gettext("Stage"), stages),
        FilterField("select", "status", gettext("Status"), [*statuses.items()]),
        list_pages.assigned_to_filter(),
        FilterField("day", "closed_since", gettext("Closed from")),
        FilterField("day", "closed_until", gettext("Closed until")),
    ]
    if len(pipelines) > 1:
        filters.insert(0, FilterField("select", "pipeline_id", gettext("Pipeline"), pipelines))
    pipeline_id = request.args.get("pipeline_id")
    board = f"/deals?{urlencode({'pipeline_id': pipeline_id})}" if pipeline_id else "/deals"
    page = ListPage(
        noun="deal",
        path="/deals",
        title=gettext("Deals"),
        filters=filters,
        sorts=(
            ("", gettext("Newest first")),
            ("id", gettext("Oldest first")),
            ("-amount", gettext("Largest first")),
            ("expected_close_date", gettext("Closing soonest first")),
            ("-updated_at", gettext("Recently updated first")),
        ),
        columns=(
            (gettext("Title"), ""),
            (gettext("Client"), ""),
            (gettext("Stage"), ""),
            (gettext("Amount"), NUMBER),
            (gettext("Responsible"), ""),
            (gettext("Expected close date"), ""),
            (gettext("Created"), ""),
        ),
        empty=gettext("No deals yet."),
        links=(
            Link(board, gettext("Board"), "kanban"),
            Link("/deals/new", gettext("New deal"), "plus-lg", "primary", changes=True),
        ),
        fixed={lists.VIEW: "list"},
    )
    return list_pages.render_list(
        "deals/list.html", page, DEAL, DEAL_FILTER, stages=dict(stages), statuses=statuses
    )


def _columns(pipeline: dict[str, Any]) -> list[dict[str, Any]]:
    figures = _figures(pipeline["id"])
    return [_column(stage, figures.get(stage["id"], [])) for stage in pipeline["stages"]]


def _column(stage: dict[str, Any], figures: list[tuple[str, str, int, int]]) -> dict[str, Any]:
    """A stage with its newest deals, their number and their sums by currency."""
    statuses = ("open",) if stage["type"] == "open" else ("open", "won", "lost")
    counted = [figure for figure in figures if figure[0] in statuses]
    sums: dict[str, int] = {}
    for _, currency, _, amount in counted:
        sums[currency] = sums.get(currency, 0) + amount
    return {
        "stage": stage,
        "deals": _newest(stage["id"], statuses),
        "count": sum(count for _, _, count, _ in counted),
        "sums": [(as_number(sum, HUNDREDTHS), currency) for currency, sum in sums.items() if sum],
        "closed": sum(count for status, _, count, _ in figures if status not in statuses),
    }


def _newest(stage_id: str, statuses: tuple[str, ...]) -> list[dict[str, Any]]:
    """The deals that came to a stage last."""
    order = "ORDER BY stage_changed_at DESC, id DESC"
    placeholders = ", ".join("?" * len(statuses))
    condition = f"stage_id = ? AND deleted_at IS NULL AND status IN ({placeholders})"
    # Their ids are found first: to read all columns of more deals takes long.
    sql = f"id IN (SELECT id FROM deal WHERE {condition} {order} LIMIT ?) {order}"
    return DEAL.every(sql, int(stage_id), *statuses, MAX_CARDS)


def _figures(pipeline_id: str) -> dict[str, list[tuple[str, str, int, int]]]:
    """(status, currency, number of deals, their sum in 1/100) of each stage by its id.

    In 1/100, because amounts in 1/10 000 could add up to more than 64 bits.
    """
    figures: dict[str, list[tuple[str, str, int, int]]] = {}
    for stage_id, *figure in rows(
        "SELECT stage_id, status, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
        " WHERE pipeline_id = ? AND deleted_at IS NULL GROUP BY stage_id, status, currency"
        " ORDER BY count(*) DESC, currency, status",
        (int(pipeline_id),),
    ):
        figures.setdefault(str(stage_id), []).append(tuple(figure))
    return figures
