"""The fields of records as forms and cards show them, made from the declarations of the models.

The type of a field on the wire decides the widget in forms and the way that cards show its value.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crm.cabinet import labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.records.filters import suggest
from crm.records import columns, fields

# The first type that fits; types that extend another stand before it.
KINDS = (
    (fields.LongText, "textarea"),
    (fields.Phone, "tel"),
    (fields.Email, "email"),
    (fields.Text, "text"),
    (fields.Tags, "tags"),
    (fields.Currency, "currency"),
    (fields.Color, "color"),
    (fields.Number, "money"),
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

    kind: one of KINDS, "url", or "user" for an id of a user. attributes: of the input element.
    choices: (value, text) of a select; empty: the text of no choice, None if there must be one.
    suggestions: values that the browser proposes.
    """

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
    def is_seldom_needed(self) -> bool:
        return self.name in SELDOM_NEEDED


def form_names(noun: str, new: bool = False, also: Collection[str] = ()) -> tuple[str, ...]:
    """The names of the declared fields that forms of a noun have, in the order of declaration.

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
    record: Mapping[str, Any] | None = None,
    **choices: Sequence[tuple[str, str]],
) -> list[RecordField]:
    """The named fields of a noun. `choices` are those of references and other selects by name.

    record: the record that the form or card shows; its user is among the choices even if they
    cannot be chosen any more.
    """
    declared = columns.declared(labels.MODELS[noun])
    assigned_to = record.get("assigned_to") if record else None
    return [
        _record_field(noun, name, declared[name].wire, choices.get(name), assigned_to)
        for name in names
    ]


def with_focus(fields: list[RecordField], form: Form | None) -> list[RecordField]:
    """The fields, the browser being in the first input; of a refused form the faults come first."""
    inputs = ("text", "tel", "email", "url", "money", "number")
    first = next((field for field in fields if field.kind in inputs), None)
    if first and not form:
        first.attributes["autofocus"] = True
    return fields


def _record_field(
    noun: str,
    name: str,
    wire: Any,
    choices: Sequence[tuple[str, str]] | None,
    assigned_to: str | None,
) -> RecordField:
    # By the first type that fits, so KINDS has subclasses before their base classes.
    kind = "url" if name in URLS else next(kind for type, kind in KINDS if isinstance(wire, type))
    empty = "—" if wire.allow_none else None
    if name == "assigned_to":
        kind, choices, empty = "user", labels.user_choices(assigned_to), gettext("Nobody")
    elif kind == "select" and choices is None:
        choices = [(value, labels.choice_label(noun, name, value)) for value in wire.choices]
    elif choices is not None:
        kind = "select"
    return RecordField(
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


def _attributes(wire: Any, kind: str) -> dict[str, Any]:
    """Attributes of the input. Browsers must not propose the user's own name, phone and address."""
    attributes: dict[str, Any] = {"autocomplete": "off"}
    limits = wire.schema_type()
    if kind in ("text", "url"):
        attributes["maxlength"] = limits["maxLength"]
    elif kind == "money":
        attributes["inputmode"] = "decimal"
    elif kind == "number":
        attributes |= {"min": limits["minimum"], "max": limits["maximum"], "inputmode": "numeric"}
    return attributes
