"""Edit forms of records that another user may change while the form is open.

A form carries, beside its fields, a digest of each value it was opened with (the hidden field
`shown`). A field that still has that value was not edited, so another person's change of it stays;
fields edited by one person only are all kept. Where both edited the same field, nothing is saved
until the second person has seen the other value.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from flask import abort, request

from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form, Overtaken
from crm.cabinet.languages import N_, gettext
from crm.cabinet.rendering import flash, see_other
from crm.errors import Fault, NotFound, Stale
from crm.json import dumps
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import PREFIX
from crm.records.views import RecordView
from crm.storage.session import current_session

DIGEST_BYTES = 6


def open_form(
    record: dict[str, Any],
    names: Iterable[str],
    refused: Form | None = None,
    noun: str = "",
    **overrides: Any,
) -> Form:
    """The form of a record as it is now, with the digests of the values that `names` names.

    refused: another form of the page that was refused. noun: of a record with fields of the
    tenant's own. overrides: values that the form has otherwise.
    """
    record = labels.flat(noun, record)
    names = labels.with_own(noun, names)
    shown = " ".join(f"{name}:{_digest(name, record[name])}" for name in names)
    if "source" in record:
        overrides["source"] = formatting.source(record["source"])
    return Form({**record, **overrides, "shown": shown}).with_refusal(refused)


def save(
    view: RecordView,
    id: int | str,
    data: dict[str, Any],
    update: Callable[[dict[str, Any], int], Any],
    record: dict[str, Any] | None = None,
) -> None:
    """Update a record by its edit form and keep what another user has changed meanwhile.

    The next page shows that it is saved, and which fields somebody else has changed.

    `data` are the values of the form, and `update(values, expected_version)` the verb that stores
    those that were edited. `record` is the record by `view` if the page has just read it. Raises
    Overtaken when both have edited the same field, and what the verb raises. A seller who has given
    the record to a colleague is led to the list.
    """
    # Each round sends the version it has compared with, so a change between reading and writing is
    # found as Stale and merged, too, instead of being overwritten.
    while True:
        record = record or view.one(id)
        edited, changed_by_others = _merge(view, record, data)
        try:
            update(edited, record["version"])
        except Stale:
            record = None  # another user changed it since it was read: read and compare again
        else:
            break
    if current_session().own_user_id is not None:
        try:
            view.one(id)
        except NotFound:
            text = gettext("Saved. It belongs to a colleague now.")
            abort(see_other(f"/{view.noun}s", text))
    text = N_(
        "Saved. Someone else has changed this in the meantime (%(fields)s): both changes are kept."
    )
    names = ", ".join(labels.field(view.table, name) for name in changed_by_others)
    flash(gettext(text, fields=names) if names else gettext("Saved."))


def was_edited(name: str, value: Any) -> bool:
    """Whether a value of the sent form is another one than it was opened with."""
    return opened_digests().get(name) != _digest(name, value)


def sent_version() -> int | None:
    """The version of the record that the page showed, for verbs; None if the form has none."""
    return request.form.get("version", type=int)


def _merge(
    view: RecordView, record: dict[str, Any], data: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values edited in the form, and the names of fields changed by another user.

    Raises Overtaken if both changed the same field to different values.
    """
    opened = opened_digests()
    record = labels.flat(view.noun, record)
    # Digests are of values as the view shows them, so both sides are compared in that form.
    typed = custom_fields.by_name(view.show(data))
    edited = {
        name: data.get(name, value)
        for name, value in typed.items()
        if opened.get(name) != _digest(name, value)
    }
    changed_by_others = [
        name
        for name, digest in opened.items()
        if name in record and digest != _digest(name, record[name])
    ]
    # The same value typed by both users is no conflict.
    conflicting = [
        name for name in changed_by_others if name in edited and typed[name] != record[name]
    ]
    if conflicting:
        # The form is shown again with the current digests: saving it once more replaces the other
        # user's values, now on purpose.
        opened |= {name: _digest(name, record[name]) for name in conflicting}
        shown = " ".join(f"{name}:{digest}" for name, digest in opened.items())
        raise Overtaken([*_faults(view.table, record, conflicting)], {"shown": shown})
    others = [name for name in changed_by_others if name not in edited]
    names = [name for name in edited if name.startswith(PREFIX)]
    if own := {name.removeprefix(PREFIX): edited.pop(name) for name in names}:
        edited["custom"] = dumps(own).decode()
    return edited, others


def opened_digests() -> dict[str, str]:
    """The digests of the values that the sent form was opened with, by field."""
    pairs = request.form.get("shown", "").split()
    return dict(pair.split(":", 1) for pair in pairs if ":" in pair)


def _faults(noun: str, record: dict[str, Any], names: list[str]) -> Iterator[Fault]:
    about = gettext(
        "Someone else has changed the same fields in the meantime, so nothing is saved yet. Save"
        " again to replace their values with yours; their other changes are kept."
    )
    yield Fault("/", "changed_meanwhile", about)
    for name in names:
        value = labels.value(noun, name, record[name], record) or "—"
        text = gettext("Someone else has changed this to “%(value)s”.", value=value)
        yield Fault(f"/{name}", "changed_meanwhile", text)


def _digest(name: str, value: Any) -> str:
    if name.endswith("_at") and not name.startswith(PREFIX):
        value = formatting.local_input(value)  # as forms show it, without its seconds
    if isinstance(value, dict):
        value = sorted(value.items())
    if value is False or value == []:  # a form has no other way to show none
        value = None
    return blake2b(dumps(value), digest_size=DIGEST_BYTES).hexdigest()
