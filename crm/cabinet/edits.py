"""Edit forms of records that somebody else may change while the form is open.

A form carries, beside its fields, a digest of each value it was opened with (the hidden field
`shown`). A field that still has that value was not edited, so another person's change of it stays;
fields edited by one person only are all kept. Where both edited the same field, nothing is saved
until the second person has seen the other value.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from flask import request

from crm.cabinet import labels
from crm.cabinet.forms import Form, Overtaken
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import flash
from crm.errors import Fault
from crm.json import dumps
from crm.records.schemas import Payload
from crm.records.views import RecordView

DIGEST_BYTES = 6
MINUTES = len("2026-03-02T09:01")  # of a moment: forms show no seconds


def open_form(record: dict[str, Any], names: Iterable[str], **shown: Any) -> Form:
    """The form of a record as it is now; `shown` are values that the form has otherwise."""
    return Form({**record, **shown, "shown": _digests({name: record[name] for name in names})})


def keep_both(shape: RecordView, record: dict[str, Any], data: Payload) -> list[str]:
    """Take the fields out of `data` that were not edited; inside the transaction of the change.

    `record` is the record as it is now. Gives the labels of the fields that somebody else has
    changed since the form was opened. Raises Overtaken when the same field was edited here.
    """
    opened = dict(
        pair.split(":", 1) for pair in request.form.get("shown", "").split() if ":" in pair
    )
    typed = shape.show(data)
    for name in [name for name in data if opened.get(name) == _digest(name, typed[name])]:
        del data[name]
    theirs = [
        name
        for name, digest in opened.items()
        if name in record and digest != _digest(name, record[name])
    ]
    both = [name for name in theirs if name in data and typed[name] != record[name]]
    if both:
        now = {name: _digest(name, record[name]) for name in both}
        shown = " ".join(f"{name}:{digest}" for name, digest in {**opened, **now}.items())
        raise Overtaken(_faults(shape.table, record, both), {"shown": shown})
    return [labels.field(shape.table, name) for name in theirs if name not in data]


def tell_saved(theirs: list[str]) -> None:
    """Say that the change is saved, and what of somebody else's was kept beside it."""
    if theirs:
        fields = ", ".join(theirs)
        text = gettext(
            "Saved. Someone else has changed this in the meantime (%(fields)s):"
            " both changes are kept.",
            fields=fields,
        )
        flash(text)
    else:
        flash(gettext("Saved."))


def _faults(noun: str, record: dict[str, Any], names: list[str]) -> list[Fault]:
    about = gettext(
        "Someone else has changed the same fields in the meantime, so nothing is saved yet. Save"
        " again to replace their values with yours; their other changes are kept."
    )
    faults = [Fault("/", "changed_meanwhile", about)]
    for name in names:
        value = labels.value(noun, name, record[name], record) or "—"
        text = gettext("Someone else has changed this to “%(value)s”.", value=value)
        faults.append(Fault(f"/{name}", "changed_meanwhile", text))
    return faults


def _digests(record: dict[str, Any]) -> str:
    return " ".join(f"{name}:{_digest(name, value)}" for name, value in record.items())


def _digest(name: str, value: Any) -> str:
    if name.endswith("_at") and value:
        value = value[:MINUTES]
    return blake2b(dumps(value), digest_size=DIGEST_BYTES).hexdigest()
