"""Fields: those that a tenant adds to its records. A form shows what it makes while it is typed."""

from collections.abc import Collection
from functools import partial
from typing import Any
from urllib.parse import urlencode

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records.record_fields import own_record_field, record_fields
from crm.cabinet.rendering import confirmed, see_other, with_undo
from crm.cabinet.settings.sections import pages, show
from crm.json import dumps
from crm.records.custom.fields import CustomField
from crm.records.custom.types import TYPES, Text
from crm.records.schemas import Body, Payload
from crm.resources.custom_fields import adoption, record, removal

PATH = "/settings/fields"
FLAGS = ("in_form", "in_card", "in_list", "required_in_workspace", "searched", "filtered")
EDITED = ("label", "help", *FLAGS)
NEW = ("resource", "key", "type", *EDITED)


@pages.get(PATH)
def list_fields() -> Response:
    """The fields of a resource, retired ones too."""
    resource = _resource()
    live = "resource = ? AND deleted_at IS NULL ORDER BY position, id"
    return show(
        "fields.html",
        resource=resource,
        resources=record.RESOURCES,
        fields=record.CUSTOM_FIELD.every(live, resource),
        types=TYPES,
        extra_keys=adoption.list_extra_keys(resource),
    )


@pages.get(f"{PATH}/new")
def new_field(form: Form | None = None) -> Response:
    """The form of a new field. `extra` of the query is a key of other data that it is to have."""
    usual = {"label": request.args.get("extra"), "in_form": 1, "in_card": 1}
    return _show_form(form or Form(usual), _sent_options())


@pages.post(PATH, page=new_field, once=True)
def add_field() -> Response:
    # Without a key the name makes one.
    names = [name for name in NEW if name != "key" or request.form.get(name)]
    id = record.create(_load(record.CUSTOM_FIELD_IN, names, request.form.get("type", "")))
    extra = request.form.get("extra")
    path = f"/{id}?{urlencode({'extra': extra})}#fill" if extra else f"?resource={_resource()}"
    return see_other(f"{PATH}{path}", gettext("Field added"))


@pages.get(f"{PATH}/<id>")
def edit_field(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """Show a field. `refused` is another refused form of the page."""
    field = _find(id)
    opened = edits.open_form(field, EDITED, refused, options="")
    return _show_form(form or opened, _sent_options() if form else field["options"], field)


@pages.post(f"{PATH}/<id>", page=edit_field)
def change_field(id: str) -> Response:
    field = _find(id)
    data = _load(record.CUSTOM_FIELD_PATCH, EDITED, field["type"])
    edits.save(record.CUSTOM_FIELD, id, data, partial(record.update, id), field)
    return see_other(f"{PATH}?resource={field['resource']}")


@pages.post(f"{PATH}/preview", defaults={"id": ""})
@pages.post(f"{PATH}/<id>/preview")
def preview_field(id: str) -> Response:
    """The page of the form as it was sent, which changes nothing; an option may go up in it."""
    return _show_form(Form(request.form), _sent_options(), _find(id) if id else None)


@pages.post(f"{PATH}/<id>/move")
def move_field(id: str) -> Response:
    field = record.update(id, load_form(record.CUSTOM_FIELD_PATCH, ("position",)))
    return see_other(f"{PATH}?resource={field.resource}")


@pages.post(f"{PATH}/<id>/retire")
def retire_field(id: str) -> Response:
    field = record.retire(id)
    return see_other(f"{PATH}?resource={field.resource}", gettext("Field hidden"))


@pages.post(f"{PATH}/<id>/restore", page=edit_field, form_name="refused")
def restore_field(id: str) -> Response:
    field = record.restore(id)
    return see_other(f"{PATH}?resource={field.resource}", gettext("Field shown again"))


@pages.post(f"{PATH}/<id>/delete", page=edit_field, form_name="refused")
def delete_field(id: str) -> Response:
    field = _find(id)
    count, _ = removal.delete(id, dry_run=True)
    question = gettext("Delete the field “%(name)s”?", name=field["label"])
    detail = gettext("Records whose values are removed after 30 days: %(count)s", count=count)
    with confirmed(question, gettext("Delete"), f"{PATH}/{id}", detail):
        _, batch_id = removal.delete(id)
    undo = f"/{field['resource']}/batches/{batch_id}/undo"
    return see_other(
        f"{PATH}?resource={field['resource']}", with_undo(gettext("Field deleted"), undo)
    )


@pages.post(f"{PATH}/<id>/adopt", page=edit_field, form_name="refused")
def fill_field(id: str) -> Response:
    """Move values of other data into a field, after a question that says which do not fit."""
    field, key = _find(id), request.form.get("from_extra", "")
    trial, _ = adoption.adopt(id, key, dry_run=True)
    question = gettext("Move the values of “%(key)s” into the field?", key=key)
    fit, unfit = trial["count"] - trial["refused"], [one["value"] for one in trial["unfit"]]
    detail = gettext("%(fit)s of %(count)s fit.", fit=fit, count=trial["count"])
    if unfit:
        values = ", ".join(map(labels.plain, unfit))
        detail += " " + gettext("These stay where they are: %(values)s", values=values)
    with confirmed(question, gettext("Move"), f"{PATH}/{id}", detail):
        pass  # what is moved in several transactions cannot be tried in one
    answer, goes_on = adoption.adopt(id, key)
    text = gettext("The values are being moved.") if goes_on else gettext("Values moved")
    undo = f"/{field['resource']}/batches/{answer['batch_id']}/undo"
    return see_other(f"{PATH}/{id}", with_undo(text, undo))


def _find(id: str) -> dict[str, Any]:
    return record.CUSTOM_FIELD.one(record.find(id).id)


def _resource() -> str:
    resource = request.values.get("resource", "")
    return resource if resource in record.RESOURCES else record.RESOURCES[0]


def _load(schema: Body, names: Collection[str], type_name: str) -> Payload:
    """The form without what a field of the type does not have, which the page hides."""
    type = TYPES.get(type_name, Text)
    names = [name for name in names if name != "filtered" or type.found_in]
    return load_form(schema, names, **({"options": _sent_options()} if type.has_options else {}))


def _sent_options() -> list[dict[str, Any]]:
    """The options of the form: known ones with their keys, and a new one of each line."""
    form, archived = request.form, request.form.getlist("archived")
    known = zip(form.getlist("option_key"), form.getlist("option_label"), strict=False)
    options = [{"key": key, "label": text, "archived": key in archived} for key, text in known]
    if 0 < (at := form.get("up", 0, int)) < len(options):
        options[at - 1], options[at] = options[at], options[at - 1]
    lines = form.get("options", "").splitlines()
    return [*options, *({"label": line.strip()} for line in lines if line.strip())]


def _show_form(
    form: Form, options: list[dict[str, Any]], field: dict[str, Any] | None = None
) -> Response:
    opened = field if request.method == "GET" else None  # a preview is asked for at each key
    type = TYPES.get(field["type"] if field else form["type"], Text)
    resource = field["resource"] if field else _resource()
    chosen_from = [{"key": one["label"], "archived": False, **one} for one in options]
    shown = (form["label"] or "…", form["help"], type.type_name, dumps(chosen_from))
    flags = [0, 0, 1, 0, 0, bool(form["required_in_workspace"]), 0, 0, 0]
    types = [(name, gettext(type.label)) for name, type in TYPES.items()]
    inputs = record_fields("custom_field", ("type", *EDITED), type=types)
    return show(
        "field.html",
        field=field,
        resource=resource,
        extra_keys=adoption.list_extra_keys(resource) if opened else (),
        used_by=removal.users_of(record.find(opened["id"])) if opened else (),
        form=form,
        inputs={input.name: input for input in inputs},
        empty=Form(),
        type=type,
        options=[option for option in options if "key" in option],
        preview=own_record_field("", CustomField((0, resource, "preview", *shown, *flags))),
    )
