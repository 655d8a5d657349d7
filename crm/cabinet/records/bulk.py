"""Changing or deleting many records of a list: what is asked before, and the change itself."""

from typing import Any
from urllib.parse import parse_qs

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import TEXTS, gettext, ngettext
from crm.cabinet.records.record_fields import own_value, record_fields
from crm.cabinet.rendering import Pages, next_path, render, see_other, with_undo
from crm.errors import Conflict, Invalid
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import PREFIX
from crm.resources.bulk import work
from crm.resources.bulk.endpoints import BULK

# The fields that the bar of each list sets, beside tags and deleting.
FIELDS = {
    "lead": ("assigned_to", "status"),
    "client": ("assigned_to",),
    "deal": ("assigned_to", "stage_id"),
    "task": ("assigned_to", "status"),
    "product": ("active",),
}
NOBODY = "none"
ON_THE_WIRE = {NOBODY: None, "true": True, "false": False}  # values that are no texts

pages = Pages("bulk")


def change_many(plural: str) -> Response:
    """Ask, with what a dry run has found; do it once the form says how many records it expects.

    If there are others by then, nothing is changed.
    """
    back = next_path(f"/{plural}")
    noun = plural.removesuffix("s")
    own, do = request.form.get("own", ""), request.form.get("do")
    if do == "own" and own.startswith(PREFIX) and labels.declaration(noun, own):
        (field,) = record_fields(noun, [own])
        replaced = ("do", "own", "csrf_token")
        pairs = [pair for pair in request.form.items(multi=True) if pair[0] not in replaced]
        return render("bulk_value.html", field=field, form=Form(), sent=pairs, back=back)
    try:
        wire = _wire(noun)
        sent = BULK.parse(wire)
        if "expect" in request.form:
            return done(plural, back, *work.run(plural, sent))
        tried, _ = work.run(plural, sent, dry_run=True)
    except (Invalid, Conflict) as error:
        return see_other(back, formatting.refusal(error), "danger")
    own_fields = ("csrf_token", "expect")
    return render(
        "bulk.html",
        **tried,
        back=back,
        asked=len(wire["ids"]) if "ids" in wire else 0,
        action=describe_change(noun, wire),
        is_deletion=wire.get("action") == "delete",
        reasons=reasons(tried["refusals"]),
        sent=[pair for pair in request.form.items(multi=True) if pair[0] not in own_fields],
    )


def _wire(noun: str) -> dict[str, Any]:
    """The form as a request of the API."""
    form, do = request.form, request.form.get("do", "")
    sent: dict[str, Any] = {"ids": form.getlist("ids")}
    if "everything" in form:
        sent = {"where": parse_qs(form.get("query", ""))}
    if "expect" in form:
        sent["expect"] = form.get("expect", type=int)
    if do.startswith(PREFIX) and (own := labels.declaration(noun, do)):
        value = own_value(own)
        if own.is_required and not value:
            raise Invalid.field(f"custom/{own.key}", "required", "people must fill this in")
        return sent | {"set": {"custom": {own.key: value}}}
    if do in FIELDS[noun]:
        value = form.get(do, "")
        return sent | {"set": {do: ON_THE_WIRE.get(value, value)}}
    if do == "add_tag":
        sent["tag"] = form.get("tag", "")
    return sent | {"action": do}


def describe_change(noun: str, change: dict[str, Any]) -> str:
    """What a bulk change does, in words; `change` is its body on the wire."""
    if action := change.get("action"):
        text = TEXTS["bulk_actions"][action]
        return gettext(text, tag=change.get("tag", ""))
    sent, empty = custom_fields.by_name(change["set"]), {"assigned_to": gettext("Nobody")}
    parts = (
        (name, labels.value(noun, name, value, sent) or empty.get(name, "—"))
        for name, value in sent.items()
    )
    return "; ".join(f"{labels.field(noun, name)}: {text}" for name, text in parts)


def reasons(refusals: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """(reason, how many records) of each refusal that a dry run has found."""
    return [
        (formatting.refusal(Conflict(one["code"], one["code"])), one["count"]) for one in refusals
    ]


def done(plural: str, back: str, answer: Any, goes_on: bool, before: str = "") -> Response:
    """Go back, with a message that tells what was changed, behind the text `before`.

    answer, goes_on: what work.run() returns.
    """
    batch = f"/{plural}/batches/{answer['batch_id']}"
    if goes_on:
        return see_other(batch, gettext("The records are being changed; this page shows how far."))
    text = before + ngettext("%(num)d record changed", "%(num)d records changed", answer["changed"])
    for count, note in (
        (answer["refused"], gettext("not changed: %(count)s")),
        (answer["count"] - answer["changed"] - answer["refused"], gettext("already so: %(count)s")),
    ):
        text += f" · {note % {'count': count}}" if count else ""
    return see_other(back, with_undo(text, f"{batch}/undo", {"next": back}))


for noun in FIELDS:  # each has a rule of its own, because `/tasks/<id>` would take it for a task
    plural = f"{noun}s"
    pages.add_url_rule(
        f"/{plural}/bulk", plural, change_many, methods=["POST"], defaults={"plural": plural}
    )
