"""What the fields of records and their values are called on the pages."""

from typing import Any

from crm.cabinet import formatting, user_choices
from crm.cabinet.languages import gettext
from crm.json import dumps
from crm.tenancy.database import row

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
    """The types of stages and what they are called."""
    return {
        "open": gettext("Open stage"),
        "won": gettext("Won stage"),
        "lost": gettext("Lost stage"),
    }


def roles() -> dict[str, str]:
    """The roles of users and what each may do."""
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
    elif name == "type":
        labelled = {"task": task_types, "stage": stage_types}.get(noun, client_types)()
    elif name == "role":
        labelled = roles()
    elif name == "priority":
        labelled = priorities()
    elif name == "amount_mode":
        labelled = amount_modes()
    return [*labelled.items()]


def field(noun: str, name: str) -> str:
    """The label of a noun's field; of a field without one, its name on the wire."""
    if name == "name":
        names = {"client": gettext("Name or company"), "product": gettext("Name")}
        names |= dict.fromkeys(("stage", "pipeline"), gettext("Name"))
        return names.get(noun, gettext("Full name"))
    if noun == "task" and name in ("title", "assigned_to"):
        return gettext("Task") if name == "title" else gettext("Who")
    common = {
        "phone": gettext("Phone"),
        "email": gettext("E-mail"),
        "company": gettext("Company"),
        "position": gettext("Position"),
        "source": gettext("Source"),
        "status": gettext("Status"),
        "assigned_to": gettext("Responsible"),
        "comment": gettext("Comment"),
        "category": gettext("Category"),
        "description": gettext("Description"),
        "amount": gettext("Amount"),
        "currency": gettext("Currency"),
        "tags": gettext("Tags"),
        "page_url": gettext("Page"),
        "referrer": gettext("Referrer"),
        "lost_reason": gettext("Lost reason"),
        "client_id": gettext("Client"),
        "deal_id": gettext("Deal"),
        "lead_id": gettext("Lead"),
        "contact_id": gettext("Contact"),
        "contacts": gettext("Contacts"),
        "type": gettext("Type"),
        "website": gettext("Website"),
        "address": gettext("Address"),
        "tax_number": gettext("Tax number"),
        "title": gettext("Title"),
        "pipeline_id": gettext("Pipeline"),
        "stage_id": gettext("Stage"),
        "amount_mode": gettext("Amount is"),
        "items": gettext("Items"),
        "expected_close_date": gettext("Expected close date"),
        "closed_at": gettext("Closed on"),
        "deleted_at": gettext("Deleted"),
        "external_id": gettext("External ID"),
        "extra": gettext("Other data"),
        "due_at": gettext("Due"),
        "priority": gettext("Priority"),
        "result": gettext("Result"),
        "sku": gettext("SKU"),
        "price": gettext("Price"),
        "unit": gettext("Unit"),
        "active": gettext("For sale"),
        "role": gettext("Role"),
        "probability": gettext("Probability, %%") % (),
        "color": gettext("Colour"),
        "lost_reasons": gettext("Why deals are lost"),
    }
    return common.get(name, name)


def hint(noun: str, name: str) -> str:
    """What a form says below a field, the empty text for nothing."""
    if noun == "deal" and name == "title":
        return gettext("If empty, the client's name is used.")
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
    if name == "phone":
        return formatting.phone(wire_value)
    if name == "amount":
        return formatting.money(wire_value, record.get("currency"))
    if name == "assigned_to":
        return user_choices.everyone().get(str(wire_value), str(wire_value))
    if name.endswith("_at"):
        return formatting.moment(wire_value)
    if name.endswith("_date"):
        return formatting.day(wire_value)
    if name.endswith("_id") and (record_name := name_of(name.removesuffix("_id"), wire_value)):
        return record_name
    if name == "items":
        wire_value = [
            f"{item['name']} × {formatting.number(item['quantity'])}" for item in wire_value
        ]
    if name == "contacts":
        return ", ".join(contact["name"] for contact in wire_value)
    if name == "extra":
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
    found = row(f"SELECT {column} FROM {noun} WHERE id = ? {is_live}", (int(id),))
    return found[0] if found else ""


def plain(value: Any) -> str:
    """Any value of `extra` as a text."""
    return value if isinstance(value, str) else dumps(value).decode()
