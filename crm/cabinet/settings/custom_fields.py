"""Fields: those that a tenant adds to its records. A form shows what it makes while it is typed."""

from collections.abc import Collection
from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.records.record_fields import own_record_field, record_fields
from crm.cabinet.rendering import see_other
from crm.cabinet.settings.sections import pages, show
from crm.json import dumps
from crm.records.custom_fields import CustomField
from crm.records.custom_types import TYPES, Text
from crm.records.schemas import Body, Payload
from crm.resources.custom_fields import record

PATH = "/settings/fields"
PLACES = ("in_form", "in_card", "in_list")
EDITED = ("label", "help", *PLACES, "required_in_workspace", "searched", "filtered")
NEW = ("resource", "key", "type", *EDITED)


@pages.get(PATH)
def list_fields(refused: Form | None = None) -> Response:
    """The fields of a resource, the retired ones apart."""
    resource = _resource()
    fields = record.CUSTOM_FIELD.every(
        "resource = ? AND deleted_at IS NULL ORDER BY position, id", resource
    )
    return show(
        "fields.html",
        resource=resource,
        resources=record.RESOURCES,
        fields=[field for field in fields if not field["retired_at"]],
        retired=[field for field in fields if field["retired_at"]],
        types=_types(),
        form=refused or Form(),
    )


@pages.get(f"{PATH}/new")
def new_field(form: Form | None = None) -> Response:
    return _show_form(form or Form({"type": Text.type_name, "in_form": 1, "in_card": 1}))


@pages.post(PATH, page=new_field, once=True)
def add_field() -> Response:
    # Without a key the name makes one.
    names = [name for name in NEW if name != "key" or request.form.get(name)]
    record.create(_load(record.CUSTOM_FIELD_IN, names, request.form.get("type", "")))
    return see_other(f"{PATH}?resource={_resource()}", gettext("Field added"))


@pages.get(f"{PATH}/<id>")
def edit_field(id: str, form: Form | None = None, refused: Form | None = None) -> Response:
    """Show a field. `refused` is another refused form of the page."""
    field = _find(id)
    archived = [option["key"] for option in field["options"] if option["archived"]]
    if form is None:
        form = edits.open_form(field, EDITED, refused, options="", archived=archived)
    return _show_form(form, field)


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
    return _show_form(Form(request.form), _find(id) if id else None)


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


def _find(id: str) -> dict[str, Any]:
    return record.CUSTOM_FIELD.one(id)


def _resource() -> str:
    resource = request.values.get("resource", "")
    return resource if resource in record.RESOURCES else record.RESOURCES[0]


def _types() -> dict[str, str]:
    return {name: gettext(type.label) for name, type in TYPES.items()}


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


def _show_form(form: Form, field: dict[str, Any] | None = None) -> Response:
    type = TYPES.get(field["type"] if field else form["type"], Text)
    resource = field["resource"] if field else _resource()
    options = field["options"] if field and request.method == "GET" else _sent_options()
    chosen_from = [{"key": one["label"], "archived": False, **one} for one in options]
    shown = (form["label"] or "…", form["help"], type.type_name, dumps(chosen_from))
    flags = [0, 0, 1, 0, 0, bool(form["required_in_workspace"]), 0, 0, 0]
    inputs = record_fields("custom_field", NEW[1:], type=[*_types().items()])
    by_name = {input.name: input for input in inputs}
    own = CustomField((0, resource, "preview", *shown, *flags))
    return show(
        "field.html",
        field=field,
        resource=resource,
        form=form,
        inputs=by_name,
        places=PLACES,
        empty=Form(),
        type=type,
        options=[option for option in options if "key" in option],
        preview=own_record_field("", own),
    )
