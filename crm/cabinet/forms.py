"""Forms of pages: the same schemas as the API, fed with what a browser sends.

A browser sends texts. Which value is meant, the schema's field tells: a decimal comma, a list with
commas, a checkbox, a local time. What doesn't fit comes back as it was typed.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from crm.cabinet import formatting
from crm.errors import Conflict, CRMError, Fault, Invalid
from crm.records import fields
from crm.records.schemas import Body, Payload

GROUPS = str.maketrans({"\u00a0": "", "\u202f": "", " ": "", ",": "."})


class Overtaken(Invalid):
    """Somebody else has changed the same fields. `values` are what the form has instead."""

    def __init__(self, faults: list[Fault], values: dict[str, Any]):
        super().__init__(faults)
        self.values = values


class Form:
    """The values and faults of a form that is shown.

    Made from a record's fields to begin with, and from what was sent when it was refused.
    """

    def __init__(self, values: Any = None, refused: CRMError | None = None):
        self._values = values or {}
        self._instead = refused.values if isinstance(refused, Overtaken) else {}
        self.faults: dict[str, str] = {}
        self.told: list[str] = []  # what belongs to no field
        if isinstance(refused, Invalid) and refused.faults:
            for fault in refused.faults:
                name = fault.where.strip("/").replace("/", "-")
                self.faults.setdefault(name, formatting.fault(fault))
            self.told = [text for name, text in self.faults.items() if name not in self._values]
        elif refused is not None:
            self.told = [formatting.refusal(refused)]

    def __getitem__(self, name: str) -> Any:
        """The value to show in the field, as text."""
        value = self._instead.get(name, self._values.get(name))
        if value is None:
            return ""
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return value

    def every(self, name: str) -> list[str]:
        """All values of a name that may come more than once."""
        if isinstance(self._values, MultiDict):
            return self._values.getlist(name)
        value = self._values.get(name) or []
        return [str(each) for each in (value if isinstance(value, list) else [value])]

    def fault(self, name: str) -> str:
        """Why the field's value was refused, or the empty text."""
        return self.faults.get(name, "")

    def spoken(self) -> "Form":
        """All faults are said above the form: it has no room for them at its fields."""
        self.told = list(dict.fromkeys([*self.told, *self.faults.values()]))
        return self


def take(schema: Body, sent: MultiDict, names: Iterable[str] | None = None, **more: Any) -> Payload:
    """The stored form of the fields of `schema` that the form has, or Invalid.

    `names`: those that the page shows, by default all that came; an unchecked box counts as no.
    `more`: values that the page itself adds, as on the wire.
    """
    shown = [name for name in (names or sent) if name in schema.fields]
    return schema.parse({name: typed(schema.fields[name], sent, name) for name in shown} | more)


def typed(field: Any, sent: MultiDict, name: str) -> Any:
    """What was typed into one field, as the API takes it."""
    text = sent.get(name, "").strip()
    if isinstance(field, fields.Boolean):
        return name in sent and text not in ("", "0", "false")
    if isinstance(field, fields.Tags):
        found = (part.strip() for each in sent.getlist(name) for part in each.split(","))
        return list(filter(None, found))
    if not text:
        return None if field.allow_none else ""
    if isinstance(field, fields.Number):
        return text.translate(GROUPS)
    if isinstance(field, fields.Integer) and text.isdecimal() and len(text) < 18:
        return int(text)
    if isinstance(field, fields.DateTime):
        return _with_offset(text)
    return sent.get(name)


def _with_offset(text: str) -> str:
    """A local time of the tenant's zone, as `datetime-local` sends it, with its offset."""
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        return text
    if local.tzinfo is None:
        local = local.replace(tzinfo=ZoneInfo(formatting.time_zone()))
    return local.isoformat()


__all__ = ["Conflict", "Form", "take", "typed"]
