"""Forms of pages: they are read by the API's schemas, from the texts that a browser sends.

The type of a schema's field decides how its text is read: numbers may have a decimal comma, tags
are separated by commas, a checkbox is true or false, a time is local. Text that is refused is shown
again as it was typed.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from flask import request
from werkzeug.datastructures import MultiDict

from crm import values
from crm.cabinet import formatting
from crm.errors import CRMError, Fault, Invalid
from crm.records import fields
from crm.records.custom.fields import PREFIX
from crm.records.schemas import Body, Payload

TO_PLAIN_NUMBER = str.maketrans({"\u00a0": "", "\u202f": "", " ": "", ",": "."})


class Overtaken(Invalid):
    """Another user has changed the same fields; `values` replace those of the form."""

    def __init__(self, faults: list[Fault], values: dict[str, Any]):
        super().__init__(faults)
        self.values = values


class Form:
    """The values of a form to be shown, and why they were refused.

    `values` are a record's fields, or the request's form when it was refused with the error
    `refused`. `faults` are reasons by field, `messages` those that belong to no field of the form.
    `code` is that of the error. `prefix` begins the ids of the fields, on a page where another form
    has fields of those names.
    """

    def __init__(self, values: Any = None, refused: CRMError | None = None, prefix: str = ""):
        self.prefix = prefix
        self._values = values or {}
        self._replaced = refused.values if isinstance(refused, Overtaken) else {}
        self.code = refused.code if refused else ""
        self.faults: dict[str, str] = {}
        self.messages: list[str] = []
        if isinstance(refused, Invalid) and refused.faults:
            for fault in refused.faults:
                where = fault.where.strip("/").replace("custom/", PREFIX)
                name = where.replace("/", "-")
                self.faults.setdefault(name, formatting.fault(fault))
            shown = (*self._values, *(name for name in self.faults if name.startswith(PREFIX)))
            self.messages = [text for name, text in self.faults.items() if name not in shown]
        elif refused is not None:
            self.messages = [formatting.refusal(refused)]

    def __getitem__(self, name: str) -> Any:
        """The value of a field as its widget takes it; the empty text for none."""
        value = self._replaced.get(name, self._values.get(name))
        if value is None:
            return ""
        if isinstance(value, list):
            return ", ".join(map(str, value))
        if isinstance(value, (float, Decimal)):  # as people write it, and as it is read again
            return formatting.typed_number(value, name.endswith(("amount", "price")))
        return value

    def every(self, name: str) -> list[str]:
        """All values of a name that may come more than once."""
        if isinstance(self._values, MultiDict):
            return self._values.getlist(name)
        value = self._values.get(name) or []
        return [str(item) for item in (value if isinstance(value, list) else [value])]

    def fault(self, name: str) -> str:
        """Why the field's value was refused, or the empty text."""
        return self.faults.get(name, "")

    def with_faults_as_messages(self) -> "Form":
        """The form with all reasons above it, for a page that does not show its fields."""
        self.messages = list(dict.fromkeys([*self.messages, *self.faults.values()]))
        return self

    def with_refusal(self, refused: "Form | None") -> "Form":
        """The form with the messages of another one of the page that was refused.

        Faults of fields that both forms have are left out: they belong to the refused form.
        """
        if refused:
            self.messages = refused.messages
            faults = refused.faults.items()
            self.faults = {name: text for name, text in faults if name not in self._values}
        return self


def load_form(schema: Body, names: Iterable[str] | None = None, **added: Any) -> Payload:
    """Read the form that was sent by a schema; returns the values as they are stored.

    `names` are the fields that the page shows, by default those that were sent: a checkbox that is
    not checked is not sent, and counts as false. `added` are values that the page itself adds, as
    on the wire. Raises Invalid.
    """
    sent = request.form
    field_names = [name for name in (names or sent) if name in schema.fields]
    return schema.parse(
        {name: wire_value(schema.fields[name], sent, name) for name in field_names} | added
    )


def wire_value(field: Any, sent: MultiDict, name: str) -> Any:
    """The text of one field as the API takes its value."""
    text = sent.get(name, "").strip()
    # Text that does not fit goes on as it is: the schema refuses it with a reason.
    if isinstance(field, fields.Boolean):
        return name in sent and text not in ("", "0", "false")
    if isinstance(field, fields.Tags):
        tags = (tag.strip() for text in sent.getlist(name) for tag in text.split(","))
        return list(filter(None, tags))
    if not text:
        return None if field.allow_none else ""
    if isinstance(field, fields.Number):
        return text.translate(TO_PLAIN_NUMBER)
    if isinstance(field, fields.Integer) and text.isdecimal() and len(text) < 18:
        return int(text)
    if isinstance(field, fields.DateTime):
        return _moment(field, text)
    if name == "source":
        return next(iter(formatting.source_codes(text)), text)
    return sent.get(name)


def object_value(field: Any, name: str) -> dict[str, Any]:
    """The sent parts of an object, whose inputs are named as its faults: `requisites-iban`."""
    sent = {
        part: wire_value(wire, request.form, f"{name}-{part}")
        for part, wire in field.parts.fields.items()
    }
    return {part: None if value in ("", []) else value for part, value in sent.items()}


def _moment(field: fields.DateTime, text: str) -> str:
    """A time in UTC; `datetime-local` sends that of the tenant's zone, without an offset."""
    zone = ZoneInfo(formatting.time_zone())
    with suppress(values.InvalidValue):
        return values.local_day(text, field.time_of_day, zone)
    try:
        local = datetime.fromisoformat(text)
        if local.tzinfo is None:
            return values.local_moment(local, zone)
        return values.moment(local)
    except ValueError:
        return text  # the schema refuses it
