"""The page that merges two clients, or two leads: their fields side by side, and what moves."""

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import SELLER, Pages, render, see_other, with_undo
from crm.resources import AUDITED_VIEWS, merging

PATH = "/<any(leads, clients):plural>/<id>/merge/<other_id>"

pages = Pages("merging")


@pages.get(PATH, role=SELLER)
def ask_merge(plural: str, id: str, other_id: str, form: Form | None = None) -> Response:
    noun, view = plural.removesuffix("s"), AUDITED_VIEWS[plural]
    into, other = view.one(id), view.one(other_id)
    names = [name for name in view.fields if name in merging.FIELDS[noun]]
    into, other = labels.flat(noun, into), labels.flat(noun, other)
    # As if the external ids were chosen, which the form asks for.
    choices = {"external_id": "into"}
    moved = {} if form else merging.merge(noun, id, other_id, choices, dry_run=True)[1]
    return render(
        "merging.html",
        path=f"/{plural}/{into['id']}",
        into=into,
        other=other,
        form=form or Form(),
        moved=moved,
        compared=[
            (name, labels.field(noun, name), *texts, _chosen(name, *texts))
            for name in labels.with_own(noun, names, "is_live")
            if (texts := [labels.value(noun, name, one[name], one) for one in (into, other)])
            and texts[0] != texts[1]
        ],
    )


@pages.post(PATH, page=ask_merge)
def merge_records(plural: str, id: str, other_id: str) -> Response:
    noun = plural.removesuffix("s")
    names = labels.with_own(noun, merging.FIELDS[noun], "is_live")
    choices = {name: side for name in names if (side := request.form.get(name))}
    batch_id, _ = merging.merge(noun, id, other_id, choices)
    text = gettext("Merged. The merge can be undone for 30 days.")
    return see_other(f"/{plural}/{id}", with_undo(text, f"/{plural}/batches/{batch_id}/undo"))


def _chosen(name: str, own: str, others: str) -> str:
    """The choice that the form begins with; empty: the tags of both."""
    return request.form.get(
        name, "" if name == "tags" and own and others else "into" if own else "from"
    )
