"""Proposals: changes that an assistant asks for, what each would do now, and the decision."""

from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.access import api_keys
from crm.cabinet import formatting
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.records import bulk
from crm.cabinet.records.filters import address_of, describe_filter
from crm.cabinet.rendering import MANAGER, Pages, render, see_other
from crm.errors import Conflict, Invalid
from crm.resources import proposals as rules
from crm.resources.proposals import PROPOSAL, Proposal

PATH = "/proposals"
MAX_LISTED = 200

pages = Pages("proposals", role=MANAGER)


@pages.get(PATH)
def list_proposals() -> Response:
    """All proposals, those that wait first."""
    newest = PROPOSAL.every(f"TRUE ORDER BY state <> ?, id DESC LIMIT {MAX_LISTED}", rules.OPEN)
    for proposal in newest:
        proposal["action"] = _action(proposal)
    return render("proposals/list.html", proposals=newest)


@pages.get(f"{PATH}/<id>")
def show_proposal(id: str, form: Form | None = None) -> Response:
    """A proposal; while it waits, what accepting it would do now, or why it cannot be done."""
    proposal, tried, refused = PROPOSAL.one(id), None, ""
    if proposal["state"] == rules.OPEN:
        try:
            tried = Proposal.find(id).dry_run()
        except (Invalid, Conflict) as error:
            refused = formatting.refusal(error)
    plural, key_id = proposal["resource"], proposal["key_id"]
    where = [*MultiDict(proposal["change"].get("where", {})).items(multi=True)]
    return render(
        "proposals/proposal.html",
        proposal=proposal,
        action=_action(proposal),
        filters=[describe_filter(plural.removesuffix("s"), *pair) for pair in where],
        matching=address_of(f"/{plural}", [("view", "list"), *where]),
        key=api_keys.find(key_id).name if key_id else "",
        found=tried,
        reasons=bulk.reasons(tried["refusals"]) if tried else [],
        refused=refused,
        form=form or Form(),
    )


@pages.post(f"{PATH}/<id>/accept", page=show_proposal)
def accept_proposal(id: str) -> Response:
    proposal = Proposal.find_open(id)
    done = proposal.accept(request.form.get("expect", -1, type=int))
    return bulk.done(proposal.resource, PATH, *done)


@pages.post(f"{PATH}/<id>/decline", page=show_proposal)
def decline_proposal(id: str) -> Response:
    rules.decline(id)
    return see_other(PATH, gettext("Proposal declined"))


def _action(proposal: dict[str, Any]) -> str:
    return bulk.describe_change(proposal["resource"].removesuffix("s"), proposal["change"])
