"""The board of deals, a column for each open stage of a pipeline, and moves.

It shows open deals, narrowed by the filters of the list; a closed stage is a field on which cards
are dropped, with the number of its deals. A card moves by a form of its own: a stage is chosen and
sent, or a script sends the same form when the card is dropped on another column.

A move sends the version of the deal that the page showed, so it is refused if another user has
moved the deal meanwhile. Before a deal is lost, the user is asked for the reason. The message
about a move has a button that undoes it.
"""

from decimal import Decimal
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import choices, edits
from crm.cabinet.deals.card import show_deal
from crm.cabinet.deals.deal_list import BOARD, show_list
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records import lists
from crm.cabinet.records.filters import MORE, VIEW, address_of, own_filters
from crm.cabinet.rendering import Pages, next_path, render, see_other, with_undo
from crm.records.conditions import Condition
from crm.records.totals import HUNDREDTHS, Totals
from crm.resources import agenda, deals
from crm.resources.deals import figures, history
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL_PATCH, Deal
from crm.resources.pipelines.record import PIPELINE, Pipeline, Stage
from crm.storage.session import now
from crm.values import as_number

MAX_CARDS, MAX_MORE_CARDS = 30, 200  # of a column; of one that shall show more
MOVE_FIELDS = ("stage_id", "status", "lost_reason", "closed_at")  # what a move changes, and undoes
# What is said after a move: that the stage was changed, or the status.
MOVE_TEXTS = {
    "moved": N_("“%(title)s” moved to “%(stage)s”"),
    "won": N_("“%(title)s” won"),
    "lost": N_("“%(title)s” marked as lost"),
    "open": N_("“%(title)s” reopened at “%(stage)s”"),
}

pages = Pages("deals")


@pages.get("/deals")
def show_deals() -> Response:
    return show_list() if request.args.get(VIEW) == "list" else show_board()


def show_board(form: Form | None = None, pipeline_id: int | str = "") -> Response:
    pipeline = PIPELINE.one(pipeline_id or request.args.get("pipeline_id") or Pipeline.default().id)
    pipelines = choices.pipelines()
    page = BOARD
    if len(pipelines) > 1:
        page = BOARD._replace(fixed={"pipeline_id": pipeline["id"]})
    of_board = (*BOARD.filters, "q", *(field.name for field in own_filters("deal")))
    filters = [pair for pair in page.parameters() if pair[0] in of_board]
    conditions = DEAL_FILTER.read(MultiDict(filters)).conditions
    counts = figures.of_pipeline(pipeline["id"], conditions)
    columns = [
        _column(stage, counts.get(stage["id"], []), conditions) for stage in pipeline["stages"]
    ]
    open_deals = Totals()
    for column in columns:
        if column["stage"]["type"] == "open":
            open_deals.add_all(column["totals"])
    return render(
        "deals/board.html",
        **lists.selection(page),
        form=form or Form(),
        pipeline=pipeline,
        pipelines=pipelines,
        columns=columns,
        count=open_deals.count,
        sums=_amounts(open_deals),
        next_steps=agenda.next_steps(deal["id"] for column in columns for deal in column["deals"]),
        now=now(),
        # An address of the board itself, so that a move from it keeps the filters.
        here=request.full_path.rstrip("?") if request.method == "GET" else "",
    )


def _column(
    stage: dict[str, Any], counts: list[tuple[str, str, int, int]], conditions: list[Condition]
) -> dict[str, Any]:
    """A stage, the number of its deals and their sums by currency; of an open one its newest deals.

    `closed` is the number of deals that were closed in an open stage.
    """
    is_open = stage["type"] == "open"
    totals, hidden = Totals(), 0
    for status, currency, count, amount in counts:
        if is_open and status != "open":
            hidden += count
        else:
            totals.add(currency, count, amount)
    more = stage["id"] in request.args.getlist(MORE)
    limit = MAX_MORE_CARDS if more else MAX_CARDS
    deals = []
    if is_open:
        deals = figures.newest_in_stage(stage["id"], limit, conditions, totals.count <= limit)
    return {
        "stage": stage,
        "deals": deals,
        "totals": totals,
        "sums": _amounts(totals),
        "more": totals.count - len(deals) if is_open else 0,
        "shows_more": more,
        "more_address": address_of(
            "/deals", [*request.args.items(multi=True), (MORE, stage["id"])]
        ),
        "closed": hidden,
    }


def _amounts(totals: Totals) -> list[tuple[int | Decimal, str]]:
    return [(as_number(sum, HUNDREDTHS), currency) for currency, sum in totals.sums.items()]


def _show_deal(form: Form, id: str) -> Response:
    """Show the card again, with the reason why the deal was not moved."""
    return show_deal(id, form.with_faults_as_messages())


def _show_origin(form: Form, id: str) -> Response:
    """Show the page of the refused form again, with the reason why the deal was not moved."""
    if form["next"].startswith("/deals/"):
        return _show_deal(form, id)
    return show_board(form.with_faults_as_messages(), Deal.find(id).pipeline_id)


@pages.post("/deals/<id>/stage", page=_show_origin)
def move_deal(id: str) -> Response:
    data = load_form(DEAL_PATCH, ["stage_id"])
    stage = Stage.first("id = ?", data["stage_id"])
    return _move(id, data, is_lost=stage is not None and stage.type == "lost")


@pages.post("/deals/<id>/status", page=_show_deal)
def close_deal(id: str) -> Response:
    """Close or reopen the deal."""
    data = load_form(DEAL_PATCH, ["status"])
    deal = Deal.find(id)
    if data["status"] == "open" and (stage_id := history.stage_before_closing(deal.id)):
        data["stage_id"] = stage_id
    return _move(id, data, is_lost=data["status"] == "lost")


@pages.post("/deals/<id>/back", page=_show_origin)
def undo_move(id: str) -> Response:
    """Undo a move by the same verb, unless the deal was changed since."""
    form_names = [name for name in MOVE_FIELDS if name in request.form]
    deal = deals.update(id, load_form(DEAL_PATCH, form_names), edits.sent_version())
    stage = Stage.find(deal.stage_id)
    return see_other(
        next_path(f"/deals?pipeline_id={deal.pipeline_id}"),
        gettext("“%(title)s” moved back to “%(stage)s”", title=deal.title, stage=stage.name),
    )


def _move(id: str, data: dict[str, Any], is_lost: bool) -> Response:
    """Move the deal and go back, with a message with Undo. Of a lost one the reason is asked."""
    before = Deal.find(id, edits.sent_version())
    back = next_path(f"/deals?pipeline_id={before.pipeline_id}")
    # A text of one's own goes before the reason that was chosen from the list.
    text = request.form.get("lost_reason", "").strip() or request.form.get("reason")
    if text is not None:
        data |= DEAL_PATCH.parse({"lost_reason": text or None})
    elif is_lost and before.status != "lost":
        not_sent = ("csrf_token", "lost_reason")
        return render(
            "deals/lost.html",
            deal=before,
            back=back,
            reasons=choices.lost_reasons(PIPELINE.one(before.pipeline_id)),
            is_unanswered="lost_reason" in request.form,
            sent=[pair for pair in request.form.items(multi=True) if pair[0] not in not_sent],
        )
    deal = deals.update(id, data, before.version)
    stage = Stage.find(deal.stage_id)
    kind = "moved" if before.status == deal.status else deal.status
    text = gettext(MOVE_TEXTS[kind], title=deal.title, stage=stage.name)
    undo_fields = {name: getattr(before, name) or "" for name in MOVE_FIELDS}
    if before.closed_at is None:
        del undo_fields["closed_at"]  # an empty text would be refused as a time
    undo_fields |= {"version": deal.version, "next": back}
    return see_other(back, with_undo(text, f"/deals/{id}/back", undo_fields))
