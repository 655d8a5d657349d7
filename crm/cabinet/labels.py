"""The labels of the fields of records, from their declarations, and values as people read them."""

from typing import Any

from crm.cabinet import formatting, user_choices
from crm.cabinet.languages import gettext
from crm.json import dumps
from crm.records import columns, fields
from crm.records.record import Record
from crm.resources.clients.record import Client, Contact
from crm.resources.deals.record import Deal
from crm.resources.leads.record import Lead
from crm.resources.pipelines.record import Pipeline, Stage
from crm.resources.products.record import Product
from crm.resources.tasks import Task
from crm.resources.users import User
from crm.tenancy.database import row

MODELS: dict[str, type[Record]] = {
    "lead": Lead,
    "client": Client,
    "contact": Contact,
    "deal": Deal,
    "product": Product,
    "task": Task,
    "pipeline": Pipeline,
    "stage": Stage,
    "user": User,
}
NAME_COLUMNS = {"lead": "name", "client": "name", "contact": "name", "deal": "title"}
NAME_COLUMNS |= {"pipeline": "name", "stage": "name"}
MAX_VALUE_CHARACTERS = 200  # of a value in a sentence


def statuses(noun: str) -> dict[str, str]:
    """The labels of the statuses of a lead, a deal or a task."""
    if noun == "deal":
        return {"open": gettext("Still open"), "won": gettext("Won"), "lost": gettext("Lost")}
    if noun == "task":
        return {
            "open": gettext("Open"),
            "in_progress": gettext("In progress"),
            "done": gettext("Done"),
            "cancelled": gettext("Cancelled"),
        }
    return {
        "new": gettext("New"),
        "in_progress": gettext("In progress"),
        "qualified": gettext("Qualified"),
        "unqualified": gettext("Unqualified"),
        "converted": gettext("Converted"),
    }


def client_types() -> dict[str, str]:
    return {"company": gettext("Company"), "person": gettext("Person")}


def task_types() -> dict[str, str]:
    return {"call": gettext("Call"), "meeting": gettext("Meeting"), "email": "E-mail"}


def stage_types() -> dict[str, str]:
    return {
        "open": gettext("Open stage"),
        "won": gettext("Won stage"),
        "lost": gettext("Lost stage"),
    }


def roles() -> dict[str, str]:
    return {
        "owner": gettext("Owner: everything, settings too"),
        "manager": gettext("Manager: works with clients and deals"),
        "viewer": gettext("Viewer: can only view"),
    }


def priorities() -> dict[str, str]:
    return {"low": gettext("Low"), "normal": gettext("Normal"), "high": gettext("High")}


def amount_modes() -> dict[str, str]:
    return {"manual": gettext("entered manually"), "items": gettext("calculated from items")}


def choices(noun: str, name: str) -> list[tuple[str, str]]:
    """The values of a field that has a fixed set of them, each with its label; else nothing."""
    labelled: dict[str, str] = {}
    if name == "status":
        labelled = statuses(noun)
    elif name == "role":
        labelled = roles()
    elif name == "type":
        types = {"task": task_types, "stage": stage_types}
        labelled = types.get(noun, client_types)()
    elif name == "priority":
        labelled = priorities()
    elif name == "amount_mode":
        labelled = amount_modes()
    return [*labelled.items()]


def field(noun: str, name: str) -> str:
    """The label of a noun's field, which its model declares; else its name on the wire."""
    declaration = _declaration(noun, name)
    if declaration and declaration.label:
        return gettext(declaration.label)
    undeclared = {"items": gettext("Items"), "deleted_at": gettext("Deleted")}
    return undeclared.get(name, name)


def _declaration(noun: str, name: str) -> Any:
    return columns.declared(MODELS[noun]).get(name) if noun in MODELS else None


def hint(noun: str, name: str) -> str:
    """Return the help text below a form field; empty for a field without one."""
    if noun == "deal" and name == "title":
        return gettext("If empty, the client's name is used.")
    if noun == "stage" and name == "type":
        return gettext("Status of deals in this stage: open, won or lost.")
    hints = {
        "tags": gettext("Separated by commas."),
        "external_id": gettext("The ID of this record in another system."),
        "sku": gettext("Identifies the product in price lists."),
    }
    return hints.get(name, "")


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
    if name == "assigned_to":
        return user_choices.everyone().get(str(wire_value), str(wire_value))
    declaration = _declaration(noun, name)
    wire = declaration.wire if declaration else None
    if isinstance(wire, fields.Phone):
        return formatting.phone(wire_value)
    if isinstance(wire, fields.Number):
        return formatting.money(wire_value, record.get("currency"))
    if isinstance(wire, fields.Boolean):
        return gettext("Yes") if wire_value else gettext("No")
    if isinstance(wire, fields.DateTime) or name == "deleted_at":
        return formatting.moment(wire_value)
    if isinstance(wire, fields.Date):
        return formatting.day(wire_value)
    if isinstance(wire, fields.Id) and (referred := name_of(name.removesuffix("_id"), wire_value)):
        return referred
    if isinstance(wire, fields.Extra):
        wire_value = plain(wire_value)
    text = ", ".join(map(str, wire_value)) if isinstance(wire_value, list) else str(wire_value)
    text = dict(choices(noun, name)).get(text, text)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"


def name_of(noun: str, id: str | None, live: bool = False) -> str:
    """The name or title of a record; the empty text if there is none, or it is not live."""
    column = NAME_COLUMNS.get(noun)
    if id is None or not column:
        return ""
    is_live = "AND deleted_at IS NULL" if live else ""
    values = row(f"SELECT {column} FROM {noun} WHERE id = ? {is_live}", (int(id),))
    return values[0] if values else ""


def plain(value: Any) -> str:
    """Any value of `extra` as a text."""
    return value if isinstance(value, str) else dumps(value).decode()
