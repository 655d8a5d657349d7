"""Integrations, Inbound hooks: addresses for other programs, what they sent, and which field each
value is. A mapping can be tried on a stored body before it is saved."""

import re
import tomllib
from collections.abc import Iterator
from functools import partial
from importlib import resources as package_files
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, formatting, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import confirmed, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import INBOUND_HOOKS as PATH
from crm.cabinet.settings.sections import pages, show
from crm.cabinet.spreadsheets.columns import is_offered
from crm.cabinet.spreadsheets.resource_pages import column_label
from crm.errors import Fault
from crm.records import verbs
from crm.records.custom import fields as custom_fields
from crm.resources import inbound
from crm.resources.clients.csv_columns import CLIENTS
from crm.resources.inbound import calls, hooks, targets
from crm.resources.inbound.body_values import iterate_values
from crm.spreadsheets.foreign.mapping import EXTRA

PRESETS: dict[str, dict[str, Any]] = tomllib.loads(
    package_files.files(inbound).joinpath("presets.toml").read_text("utf-8")
)
FIELDS = (
    *("name", "id_path", "known", "signature_header", "signature_algorithm"),
    *("takes_files", "active"),
)
EDITED = (*FIELDS, "mapping", "defaults")
MAX_CALLS = 10
MAX_VALUES, MAX_PATH_CHARACTERS = 300, 255  # of a body, to be chosen from
NUMBER_IN_PATH = re.compile(r"(?<=\.)\d+(?=\.)")


@pages.get(PATH)
def list_hooks(form: Form | None = None) -> Response:
    return show(
        "inbound_hooks.html",
        hooks=hooks.HOOK.every("TRUE ORDER BY id DESC"),
        presets=[(name, preset["name"]) for name, preset in PRESETS.items()],
        form=form or Form(),
    )


@pages.post(PATH, page=list_hooks, once=True)
def add_hook() -> Response:
    form = request.form
    preset = dict(PRESETS.get(form.get("preset", ""), {"target": form.get("target", "")}))
    if secret := form.get("signature_secret", "").strip():
        preset["signature_secret"] = secret
    else:
        preset.pop("signature_header", None)
    default_name = preset.get("name") or gettext("Another program")
    preset["name"] = form.get("name", "").strip() or default_name
    data = load_form(hooks.HOOK_IN, (), **preset)
    with identity.proven_change():
        id = hooks.create(data)
    return see_other(f"{PATH}/{id}", gettext("Hook added"))


@pages.get(f"{PATH}/<id>")
def show_hook(id: str, form: Form | None = None, outcome: dict[str, Any] | None = None) -> Response:
    """Show a hook. `outcome`: what would become of the chosen body by the form that was sent."""
    hook = hooks.HOOK.one(id)
    last = calls.CALL.every("hook_id = ? ORDER BY id DESC LIMIT ?", int(hook["id"]), MAX_CALLS)
    chosen = request.values.get("call", "")
    call = next((call for call in last if call["id"] == chosen), last[0] if last else None)
    mapping = _sent_rules()["mapping"] if form else hook["mapping"]
    defaults = "\n".join(f"{name}: {text}" for name, text in hook["defaults"].items())
    names = _names(hook["target"])
    return show(
        "inbound_hook.html",
        hook=hook,
        has_room=calls.has_room(int(hook["id"])),
        calls=[one | {"why": _explain(one, names)} for one in last],
        call=call,
        values=_list_values(call["body"] if call else "", mapping),
        fields=[*names.items()],
        form=form or edits.open_form(hook, EDITED, defaults=defaults),
        outcome=outcome and {"why": _explain(outcome, names), "values": _describe(hook, outcome)},
    )


@pages.post(f"{PATH}/<id>", page=show_hook)
def change_hook(id: str) -> Response:
    """Save the form, or show what would become of the chosen body by it."""
    secret = request.form.get("signature_secret", "").strip()
    added = _sent_rules() | ({"signature_secret": secret} if secret else {})
    data = load_form(hooks.HOOK_PATCH, FIELDS, **added)
    if "try" in request.form:
        outcome = calls.preview(id, data, calls.CALL.one(request.form.get("call", ""))["body"])
        return show_hook(id, form=Form(request.form), outcome=outcome)
    edits.save(hooks.HOOK, id, data, partial(hooks.update, id))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/delete")
def delete_hook(id: str) -> Response:
    with confirmed(
        gettext("Delete the hook “%(name)s”?", name=hooks.InboundHook.find(id).name),
        gettext("Delete"),
        f"{PATH}/{id}",
        gettext("Its address is refused at once, and what it was sent is deleted; records stay."),
    ):
        verbs.erase(hooks.InboundHook, id)
    return see_other(PATH, gettext("Hook deleted"))


@pages.post(f"{PATH}/<id>/calls/<call_id>/replay")
def replay_call(id: str, call_id: str) -> Response:
    is_done = calls.replay(call_id).state == calls.DONE
    text = gettext("Done.") if is_done else gettext("There is still no record: see the reasons.")
    return see_other(f"{PATH}/{id}", text, "success" if is_done else "danger")


@pages.post(f"{PATH}/<id>/calls/<call_id>/delete")
def delete_call(id: str, call_id: str) -> Response:
    verbs.erase(calls.InboundCall, call_id)
    return see_other(f"{PATH}/{id}")


def _sent_rules() -> dict[str, dict[str, str]]:
    """The mapping and the defaults of the form; a default is a line `field: text`."""
    sent = request.form
    mapping = {
        path: f"{EXTRA}{path.rpartition('.')[2]}" if field == EXTRA else field
        for path, field in zip(sent.getlist("path"), sent.getlist("field"), strict=False)
        if field
    }
    lines = [line.partition(":") for line in sent.get("defaults", "").splitlines()]
    defaults = {name.strip(): text.strip() for name, _, text in lines if text.strip()}
    return {"mapping": mapping, "defaults": defaults}


def _list_values(body: str, mapping: dict[str, str]) -> list[tuple[str, str, str]]:
    """(path, value, field) of a body's values, and of paths that are mapped and it lacks.

    The elements of a list are one: the first of them is shown. Longer paths are left out.
    """
    samples: dict[str, str] = {}
    for path, text in iterate_values(body, MAX_PATH_CHARACTERS):
        name = path if path in mapping else NUMBER_IN_PATH.sub("*", path)
        if len(path) <= MAX_PATH_CHARACTERS and (len(samples) < MAX_VALUES or name in mapping):
            samples.setdefault(name, text)
    paths = list(dict.fromkeys([*samples, *mapping]))[:MAX_VALUES]
    return [(path, samples.get(path, ""), mapping.get(path, "")) for path in paths]


def _names(target: str) -> dict[str, str]:
    """{field: what people call it} of the fields that a value may be."""
    names = {}
    for name in targets.list_fields(target):
        own = name.removeprefix(targets.PERSON)
        if own != name:
            label = f"{gettext('Client')}: {column_label(CLIENTS, own)}"
        elif name == targets.NOTE_FIELD:
            label = gettext("Text of the note")
        elif target == "payment":
            label = gettext(targets.PAYMENT[name].label)
        else:
            label = column_label(targets.RESOURCES[target], name)
        if is_offered(own):
            names[name] = label
    return names


def _explain(call: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    """Why no record came of a call."""
    for reason in call["reasons"]:
        label = names.get(reason["field"], reason["field"])
        why = formatting.fault(Fault("", reason["code"], reason["detail"]))
        yield f"{label}: {why}" if label else why


def _describe(hook: dict[str, Any], call: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, value) of the record that would come of a call."""
    target = hook["target"]
    nouns = {"note": "note", "payment": "paper"}
    noun = nouns.get(target) or targets.RESOURCES[target].singular
    record = call["record"] or {}
    return [
        (labels.field(noun, name), text)
        for name, value in custom_fields.by_name(record).items()
        if (text := labels.value(noun, name, value, record))
        and (name == targets.NOTE_FIELD or labels.field(noun, name) != name)
    ]
