"""The labels of the fields of records, from their declarations, and values as people read them."""

from collections.abc import Collection, Iterable
from typing import Any

from flask import g

from crm.cabinet import formatting
from crm.cabinet.languages import TEXTS, catalog, gettext
from crm.json import dumps, integer_id
from crm.papers.requisites import Requisites
from crm.records import columns, fields
from crm.records.custom import fields as custom_fields
from crm.records.custom.fields import PREFIX
from crm.records.record import Record
from crm.records.schemas import Body
from crm.resources import users
from crm.resources.clients.record import Client, Contact
from crm.resources.custom_fields.record import CustomFieldRecord
from crm.resources.deals.record import Deal
from crm.resources.leads.record import Lead
from crm.resources.pipelines.record import Pipeline, Stage
from crm.resources.products.record import Product
from crm.resources.tasks import Task
from crm.spreadsheets import labels as file_labels
from crm.storage.dialect import among
from crm.values.recurrence import parts_of

MODELS: dict[str, Any] = {
    model.noun: model
    for model in (Lead, Client, Contact, Deal, Product, Task, Pipeline, Stage, users.User)
} | {"custom_field": CustomFieldRecord}
# The labels of values, by noun and field.
CHOICES: dict[tuple[str, str], dict[str, str]] = {
    (noun, name): choices
    for noun, names in TEXTS["choices"].items()
    for name, choices in names.items()
}
MAX_VALUE_CHARACTERS = 200  # of a value in a sentence

file_labels.Registered.choices = CHOICES
file_labels.Registered.gettext = lambda text, language: catalog(language).gettext(text)


def choices(noun: str, name: str) -> dict[str, str]:
    """The values of a field that has a fixed set of them, each with its label; else nothing."""
    return {value: gettext(label) for value, label in CHOICES.get((noun, name), {}).items()}


def choice_label(noun: str, name: str, value: str) -> str:
    """The label of one value of such a field; the value itself if it has none."""
    if name.startswith(PREFIX) and (own := declaration(noun, name)):
        return own.shown_text(value)
    label = CHOICES.get((noun, name), {}).get(value)
    return gettext(label) if label else value


def rule(text: str) -> str:
    """The rule by which a task repeats, as people say it: “Every week: every 2 weeks, Mon, Wed”."""
    if (label := choice_label("task", "repeat", text)) != text:
        return label
    parts = parts_of(text)
    label = choice_label("task", "repeat", f"FREQ={parts['FREQ']}")
    return f"{label}: {', '.join(formatting.rule_parts(parts))}"


def batch_note(batch: dict[str, Any]) -> str:
    """What a batch changed, in words: work.py notes the names of fields, or of an action."""
    if batch["kind"] != "bulk":
        return batch["note"]
    names = batch["note"].partition(";")[0].split(", ")
    return ", ".join(field(batch["noun"], choice_label("batch", "note", name)) for name in names)


def user_names() -> dict[str, str]:
    """Names of all users by id (as text), deactivated ones too."""
    # Kept for the request: the fields of a page look users up again and again.
    if (names := g.get("user_names")) is None:
        names = g.user_names = users.names()
    return names


def user_name(id: str | None) -> str:
    """The name of a user; the empty text for none."""
    return user_names().get(str(id), "")


def user_choices(selected_id: str | None = None) -> list[tuple[str, str]]:
    """(id, name) of the active users, and of the user `selected_id` even if deactivated."""
    if "active_users" not in g:
        g.active_users = users.names("active = 1 ORDER BY sort_key, id")
    selected = {selected_id: user_name(selected_id)} if selected_id in user_names() else {}
    return list({**g.active_users, **selected}.items())


def field(noun: str, name: str) -> str:
    """The label of a noun's field, which its model declares; else its name on the wire."""
    declared = declaration(noun, name)
    if declared and declared.label:
        return declared.label if name.startswith(PREFIX) else gettext(declared.label)
    undeclared = {"items": gettext("Items"), "deleted_at": gettext("Deleted")}
    return undeclared.get(name, name)


def declaration(noun: str, name: str) -> Any:
    """The declared column of a name, or the tenant's own field; None if there is neither."""
    if name.startswith(PREFIX):
        return custom_fields.of(f"{noun}s").get(name.removeprefix(PREFIX))
    return columns.declared(MODELS[noun]).get(name) if noun in MODELS else None


def with_own(noun: str, names: Iterable[str], place: str = "form") -> list[str]:
    """The names, with those of the tenant's own fields in place of `custom`.

    place: the attribute that says where they stand: `form`, `in_card` or `in_list`.
    """
    own = [one.name for one in custom_fields.of(f"{noun}s").values() if getattr(one, place)]
    return [one for name in names for one in (own if name == "custom" else [name])]


def flat(noun: str, record: dict[str, Any]) -> dict[str, Any]:
    """A record as it is shown, with the values of the tenant's own fields, and of a client's
    requisites, by their names, too."""
    own, values = custom_fields.of(f"{noun}s"), record.get("custom") or {}
    flat = {**record, **{field.name: values.get(key) for key, field in own.items()}}
    if noun == "client":
        flat |= flat_object("requisites", Requisites.parts, record.get("requisites") or {})
    return flat


def flat_object(name: str, parts: Body, value: dict[str, Any]) -> dict[str, Any]:
    """The parts of an object by the names of their inputs, such as `requisites-iban`."""
    return {f"{name}-{part}": value.get(part) for part in parts.fields}


def hint(noun: str, name: str) -> str:
    """Return the help text below a form field; empty for a field without one."""
    hints = TEXTS["hints"]
    text = hints.get(noun, {}).get(name) or hints["all"].get(name)
    return gettext(text) if text else ""


def value(noun: str, name: str, wire_value: Any, record: dict[str, Any]) -> str:
    """A value as people read it, the empty text for none.

    `record` has the currency of its amounts.
    """
    if wire_value in (None, "", [], {}):
        return ""
    if name == "items":
        wire_value = [
            f"{item['name']} × {formatting.number(item['quantity'])}" for item in wire_value
        ]
    if name == "contacts":
        return ", ".join(contact["name"] for contact in wire_value)
    if name == "source":
        return formatting.source(wire_value)
    declared = declaration(noun, name)
    wire = declared.wire if declared else None
    if isinstance(wire, fields.Phone):
        return formatting.phone(wire_value)
    if isinstance(wire, (fields.Amount, fields.Price)):
        own = name.startswith(PREFIX)  # which is in the tenant's currency
        return formatting.money(wire_value, None if own else record.get("currency"))
    if isinstance(wire, fields.Number):
        return formatting.number(wire_value, exact=True)
    if isinstance(wire, fields.Boolean):
        return gettext("Yes") if wire_value else gettext("No")
    if isinstance(wire, fields.DateTime) or name == "deleted_at":
        return formatting.moment(wire_value)
    if isinstance(wire, fields.Date):
        return formatting.day(wire_value)
    if isinstance(wire, fields.Id):
        referred = name_of(declared.references or name.removesuffix("_id"), wire_value)
        return referred or str(wire_value)
    if name == "repeat":
        return rule(wire_value)
    if isinstance(wire, fields.Extra):
        wire_value = plain(wire_value)
    if isinstance(wire, Requisites):
        wire_value = [*wire_value.values()]
    texts = wire_value if isinstance(wire_value, list) else [wire_value]
    text = ", ".join(choice_label(noun, name, str(one)) for one in texts)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"


def name_of(noun: str, id: str | None, live: bool = False) -> str:
    """The name or title of a record; the empty text if there is none, or it is not live."""
    if id is None or noun not in MODELS:
        return ""
    if noun == "user":
        return user_name(id)
    known = g.get("named_records", {})
    record = known.get((noun, id)) or MODELS[noun].find_any(integer_id(id))
    if record is None or (live and getattr(record, "deleted_at", None)):
        return ""
    return title(record)


def read_names(noun: str, ids: Collection[str]) -> None:
    """Read the records of these ids at once, whose names the page shows by name_of()."""
    if not ids:
        return
    live = MODELS[noun].every(among("id"), dumps([*map(integer_id, ids)]).decode())
    g.named_records = {(noun, str(one.id)): one for one in live}


def title(record: Record) -> str:
    """What people call a record."""
    return getattr(record, "title", "") or getattr(record, "name", "")


def plain(value: Any) -> str:
    """Any value of `extra` as a text."""
    return value if isinstance(value, str) else dumps(value).decode()
