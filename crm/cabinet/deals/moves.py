"""Moves of a deal through its stages: by the board, by its card, and back again.

A move sends the version of the deal that the page showed, so it is refused if another user has
moved the deal meanwhile. Before a deal is lost, the user is asked for the reason. The message
about a move has a button that undoes it.
"""

from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.deals import choices
from crm.cabinet.deals.board import show_board
from crm.cabinet.deals.card import show_deal
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import (
    Pages,
    flash,
    flash_with_undo,
    next_path,
    render,
    rerender_on_error,
    see_other,
)
from crm.resources import deals
from crm.resources.deals.record import DEAL_PATCH, Deal
from crm.resources.pipelines.record import PIPELINE, Stage

MOVE_FIELDS = ("stage_id", "status", "lost_reason", "closed_at")  # what a move changes, and undoes

pages = Pages("deal_moves")


def _rerender_origin_page(form: Form, id: str) -> Response:
    """Show the page of the refused form again, with the reason why the deal was not moved."""
    if form["next"].startswith("/deals/"):
        return show_deal(id, form.with_faults_as_messages())
    return show_board(form.with_faults_as_messages(), Deal.find(id).pipeline_id)


@pages.post("/deals/<id>/stage")
@rerender_on_error(_rerender_origin_page)
def move_deal(id: str) -> Response:
    data = load_form(DEAL_PATCH, request.form, ["stage_id"])
    target = Stage.first("id = ?", data["stage_id"])
    if target and target.type == "lost" and _lacks_reason(id):
        return _ask_reason(id, target.pipeline_id)
    return _move(id, data, f"/deals?pipeline_id={(target or Deal.find(id)).pipeline_id}")


@pages.post("/deals/<id>/status")
@rerender_on_error(lambda form, id: show_deal(id, form.with_faults_as_messages()))
def close_deal(id: str) -> Response:
    """Close or reopen the deal."""
    data = load_form(DEAL_PATCH, request.form, ["status"])
    if data["status"] == "lost" and _lacks_reason(id):
        return _ask_reason(id, Deal.find(id).pipeline_id)
    return _move(id, data, f"/deals/{id}")


@pages.post("/deals/<id>/back")
@rerender_on_error(_rerender_origin_page)
def undo_move(id: str) -> Response:
    """Undo a move by the same verb, unless the deal was changed since."""
    form_names = [name for name in MOVE_FIELDS if name in request.form]
    data = load_form(DEAL_PATCH, request.form, form_names)
    deal = deals.update(id, data, edits.sent_version())
    stage = Stage.find(deal.stage_id)
    flash(gettext("“%(title)s” moved back to “%(stage)s”", title=deal.title, stage=stage.name))
    return see_other(next_path(f"/deals?pipeline_id={deal.pipeline_id}"))


def _lacks_reason(id: str) -> bool:
    """Whether the form lacks the reason of the loss. A deal that is lost already needs none."""
    return "lost_reason" not in request.form and Deal.find(id).status != "lost"


def _ask_reason(id: str, pipeline_id: int) -> Response:
    deal = Deal.find(id, edits.sent_version())
    own_fields = ("csrf_token", "lost_reason", "reason")
    back = next_path(f"/deals?pipeline_id={deal.pipeline_id}")
    return render(
        "deals/lost.html",
        deal=deal,
        back=back,
        reasons=choices.lost_reasons(PIPELINE.one(pipeline_id)),
        sent=[pair for pair in request.form.items(multi=True) if pair[0] not in own_fields],
    )


def _move(id: str, data: dict[str, Any], back: str) -> Response:
    """Move the deal, show a message with Undo, and redirect to the form's page, or `back`."""
    if "lost_reason" in request.form:
        # A text of one's own goes before the reason that was chosen from the list.
        text = request.form["lost_reason"].strip() or request.form.get("reason", "")
        data |= load_form(DEAL_PATCH, MultiDict({"lost_reason": text}), ["lost_reason"])
    before = Deal.find(id, edits.sent_version())
    deal = deals.update(id, data, before.version)
    stage = Stage.find(deal.stage_id)
    back = next_path(back)
    _flash_move(deal, stage, before, back)
    return see_other(back)


def _flash_move(deal: Deal, stage: Stage, before: Deal, back: str) -> None:
    names = {"title": deal.title, "stage": stage.name}
    if before.status == deal.status:
        text = gettext("“%(title)s” moved to “%(stage)s”", **names)
    elif deal.status == "won":
        text = gettext("“%(title)s” won. Well done!", **names)
    elif deal.status == "lost":
        text = gettext("“%(title)s” marked as lost", **names)
    else:
        text = gettext("“%(title)s” reopened at “%(stage)s”", **names)
    if before.version == deal.version:
        return flash(text)
    old_values = {name: getattr(before, name) for name in MOVE_FIELDS}
    if old_values["closed_at"] is None:
        del old_values["closed_at"]  # an empty text would be refused as a time
    undo_fields = {name: "" if value is None else value for name, value in old_values.items()}
    undo_fields |= {"version": deal.version, "next": back}
    return flash_with_undo(text, f"/deals/{deal.id}/back", undo_fields)
