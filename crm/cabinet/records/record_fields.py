"""The fields of records as forms and cards show them, made from the declarations of the models and
of the tenant.

The type of a field on the wire decides the widget in forms and the way that cards show its value.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from flask import request

from crm.cabinet import edits, labels
from crm.cabinet.choices import chosen_client
from crm.cabinet.forms import Form, load_form, object_value, wire_value
from crm.cabinet.languages import coded_text, gettext
from crm.cabinet.records.filters import suggest
from crm.errors import Fault, Invalid
from crm.papers.requisites import Requisites, Terms, VatRate
from crm.records import columns, fields
from crm.records.custom import fields as custom_fields
from crm.records.custom import types as custom_types
from crm.records.custom.fields import PREFIX, CustomField
from crm.records.schemas import Body, Payload

# The first type that fits; types that extend another stand before it.
KINDS = (
    (fields.LongText, "textarea"),
    (Terms, "textarea"),
    (VatRate, "select"),
    (fields.Phone, "tel"),
    (fields.Email, "email"),
    (custom_types.Url, "url"),
    (fields.Text, "text"),
    (custom_types.Choices, "options"),
    (fields.Tags, "tags"),
    (fields.Currency, "currency"),
    (fields.Color, "color"),
    (fields.Amount, "money"),
    (fields.Price, "money"),
    (fields.Number, "decimal"),
    (fields.Integer, "number"),
    (fields.Boolean, "checkbox"),
    (fields.DateTime, "datetime-local"),
    (fields.Date, "date"),
    (fields.Choice, "select"),
    (fields.Id, "reference"),
)
URLS = frozenset(["website", "page_url", "referrer"])  # texts that are web addresses
SUGGESTED = frozenset(["source", "category", "unit", "lost_reason"])  # known values are proposed
SELDOM_NEEDED = frozenset(["external_id", "amount_mode"])  # shown under “More”


class RecordField(NamedTuple):
    """A field of a form or a card.

    kind: one of KINDS, "url", or "user" and "client" for the id of one. attributes: of the input.
    choices: (value, text) of a select; empty: the text of no choice, None if there must be one.
    suggestions: values that the browser proposes.
    """

    noun: str
    name: str
    label: str
    kind: str
    is_required: bool
    hint: str
    attributes: dict[str, Any]
    choices: Sequence[tuple[str, str]]
    empty: str | None
    suggestions: Sequence[str]

    @property
    def group(self) -> str:
        """The object that it is a part of, such as `requisites`; else empty."""
        return self.name.partition("-")[0] if "-" in self.name else ""

    @property
    def is_seldom_needed(self) -> bool:
        return self.name in SELDOM_NEEDED

    def text(self, record: dict[str, Any]) -> str:
        """The value of a record as people read it."""
        return labels.value(self.noun, self.name, record[self.name], record)


def form_names(noun: str, new: bool = False, also: Collection[str] = ()) -> tuple[str, ...]:
    """The names of the declared fields that forms of a noun have, in the order of declaration.

    `custom` stands for the tenant's own fields.
    new: those of the form for a new record. also: fields that only this form has; references are
    among them, for their choices are not known here.
    """
    declared = columns.declared(labels.MODELS[noun])
    return tuple(
        name
        for name, declaration in declared.items()
        if name in also
        or (declaration.form == "new" if new else declaration.form)
        and (name == "assigned_to" or not isinstance(declaration.wire, fields.Id))
    )


def record_fields(
    noun: str,
    names: Iterable[str],
    record: dict[str, Any] | None = None,
    place: str = "form",
    **choices: Sequence[tuple[str, str]],
) -> list[RecordField]:
    """The named fields of a noun. `choices` are those of references and other selects by name.

    record: the record that the form or card shows; its users and options are among the choices even
    if they cannot be chosen any more. place: as in labels.with_own().
    """
    record, made = labels.flat(noun, record or {}), list[RecordField]()
    for name in labels.with_own(noun, names, place):
        if name == "requisites":
            made += object_fields(name, Requisites.parts)
        else:
            made.append(_record_field(noun, name, choices.get(name), record.get(name)))
    return made


def object_fields(name: str, parts: Body) -> list[RecordField]:
    """The parts of an object, whose labels are in a table of texts.toml that has its name."""
    made = []
    for part, wire in parts.fields.items():
        kind, label, hint = kind_of(wire), coded_text(name, part), labels.hint(name, part)
        options = _options(name, part, wire) if kind == "select" else ()
        described = (name, f"{name}-{part}", label, kind, False, hint, _attributes(wire, kind))
        made.append(RecordField(*described, options, None, ()))
    return made


def with_focus(fields: list[RecordField], form: Form | None) -> list[RecordField]:
    """The fields, the browser being in the first input; of a refused form the faults come first."""
    inputs = ("text", "tel", "email", "url", "money", "number")
    first = next((field for field in fields if field.kind in inputs), None)
    if first and not form:
        first.attributes["autofocus"] = True
    return fields


def load_record(noun: str, schema: Body, names: Iterable[str] = (), **added: Any) -> Payload:
    """As load_form(), with those of the tenant's own fields that were sent.

    A form that has `custom` among its names must have those that people are required to fill in.
    Raises Invalid.
    """
    values, faults = dict[str, Any](), list[Fault]()
    opened, is_whole = edits.opened_digests(), "custom" in names
    for key, field in custom_fields.of(f"{noun}s").items():
        # What is not checked is not sent; an older form has not had a new field.
        has = field.name in {*request.form, *opened} or (is_whole and not opened)
        if not (field.form and (has or is_whole)):
            continue
        try:
            value = own_value(field)
        except Invalid as invalid:
            faults += invalid.faults
            continue
        if field.is_required and not value:
            faults.append(Fault(f"/custom/{key}", "required", "people must fill this in"))
        # A record that was not edited may be one that cannot be chosen any more.
        elif has and (not field.references or edits.was_edited(field.name, value)):
            values[key] = value
    if values:
        added["custom"] = values
    if "requisites" in names and "requisites-legal_name" in request.form:
        added["requisites"] = object_value(schema.fields["requisites"], "requisites")
    try:
        flat = [name for name in names if name not in ("custom", "requisites")]
        payload = load_form(schema, flat, **added)
    except Invalid as invalid:
        raise Invalid([*invalid.faults, *faults]) from None
    if faults:
        raise Invalid(faults)
    return payload


def own_value(field: CustomField) -> Any:
    """The sent value of one of the tenant's own fields, as on the wire. Raises Invalid."""
    text_name = f"{field.name}-name"  # of a client, who is looked up by it
    if text_name not in request.form:
        return wire_value(field.wire, request.form, field.name)
    text, id = request.form[text_name].strip(), request.form.get(field.name)
    return chosen_client(text, id, f"custom/{field.key}")


def own_record_field(noun: str, field: CustomField, value: Any = None) -> RecordField:
    """A field of the tenant's own; `value` is among the choices even if it is archived."""
    kind = field.references or kind_of(field.wire)
    chosen = value if isinstance(value, list) else [value]
    choices = [
        (option["key"], option["label"])
        for option in field.options
        if not option["archived"] or option["key"] in chosen
    ]
    if kind == "user":
        choices = labels.user_choices(value)
    attributes, is_required = _attributes(field.wire, kind), bool(field.is_required)
    hint = field.help or ""
    return RecordField(
        noun, field.name, field.label, kind, is_required, hint, attributes, choices, "—", ()
    )


def _record_field(
    noun: str, name: str, choices: Sequence[tuple[str, str]] | None, value: Any
) -> RecordField:
    declaration = labels.declaration(noun, name)
    if name.startswith(PREFIX):
        return own_record_field(noun, declaration, value)
    wire = declaration.wire
    kind = "url" if name in URLS else kind_of(wire)
    empty = "—" if wire.allow_none else None
    if declaration.references == "user":
        kind, choices, empty = "user", labels.user_choices(value), gettext("Nobody")
    elif kind == "select" and choices is None:
        choices = _options(noun, name, wire)
    elif choices is not None:
        kind = "select"
    return RecordField(
        noun,
        name,
        labels.field(noun, name),
        kind,
        wire.required,
        labels.hint(noun, name),
        _attributes(wire, kind),
        choices or (),
        empty,
        suggest(noun, name) if name in SUGGESTED else (),
    )


def _options(noun: str, name: str, wire: Any) -> list[tuple[str, str]]:
    return [(one, labels.choice_label(noun, name, one)) for one in wire.choices]


def kind_of(wire: Any) -> str:
    """By the first type that fits, so KINDS has subclasses before their base classes."""
    return next(kind for type, kind in KINDS if isinstance(wire, type))


def _attributes(wire: Any, kind: str) -> dict[str, Any]:
    """Attributes of the input. Browsers must not propose the user's own name, phone and address."""
    attributes: dict[str, Any] = {"autocomplete": "off"}
    limits = wire.schema_type()
    if kind in ("text", "url"):
        attributes["maxlength"] = limits["maxLength"]
    elif kind in ("money", "decimal"):
        attributes["inputmode"] = "decimal"
    elif kind == "number":
        attributes |= {"min": limits["minimum"], "max": limits["maximum"], "inputmode": "numeric"}
    return attributes
