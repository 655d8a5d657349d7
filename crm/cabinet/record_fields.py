"""The fields of records as forms and cards show them, made from the fields of the API's schemas.

The type of a field decides the widget in forms and the way that cards show its value.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crm.cabinet import labels, lists, user_choices
from crm.cabinet.languages import gettext
from crm.records import fields
from crm.records.views import Body

# The first type that fits; types that extend another stand before it.
KINDS = (
    (fields.LongText, "textarea"),
    (fields.Phone, "tel"),
    (fields.Email, "email"),
    (fields.Text, "text"),
    (fields.Tags, "tags"),
    (fields.Currency, "currency"),
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


def record_fields(
    noun: str,
    schema: Body,
    names: Iterable[str],
    record: Mapping[str, Any] | None = None,
    **choices: Sequence[tuple[str, str]],
) -> list[RecordField]:
    """The named fields of a noun. `choices` are those of references and other selects by name.

    record: the record that the form or card shows, whose user stays among the choices after they
    have left.
    """
    assigned_to = record["assigned_to"] if record and "assigned_to" in record else None
    return [
        _record_field(noun, name, schema.fields[name], choices.get(name), assigned_to)
        for name in names
    ]


def _record_field(
    noun: str,
    name: str,
    field: Any,
    choices: Sequence[tuple[str, str]] | None,
    assigned_to: str | None,
) -> RecordField:
    kind = "url" if name in URLS else next(kind for type, kind in KINDS if isinstance(field, type))
    empty = "—" if field.allow_none else None
    if name == "assigned_to":
        kind, choices, empty = "user", user_choices.choices(assigned_to), gettext("Nobody")
    elif kind == "select" and choices is None:
        choices = labels.choices(noun, name)
    elif choices is not None:
        kind = "select"
    return RecordField(
        name,
        labels.field(noun, name),
        kind,
        field.required,
        labels.hint(noun, name),
        _attributes(field, kind),
        choices or (),
        empty,
        lists.known_values(noun, name) if name in SUGGESTED else (),
    )


def _attributes(field: Any, kind: str) -> dict[str, Any]:
    """Attributes of the input. Browsers must not propose the user's own name, phone and address."""
    attributes: dict[str, Any] = {"autocomplete": "off"}
    if kind in ("text", "url"):
        attributes["maxlength"] = field.longest
    elif kind == "currency":
        attributes["maxlength"] = 3
    elif kind == "money":
        attributes["inputmode"] = "decimal"
    elif kind == "number":
        attributes |= {"min": field.least, "max": field.most, "inputmode": "numeric"}
    return attributes
