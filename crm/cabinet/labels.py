"""What fields and their values are called on the pages of leads, clients and deals."""

from typing import Any

from crm.cabinet import formatting, user_choices
from crm.cabinet.languages import gettext
from crm.json import dumps
from crm.tenancy.database import row

NAMED = ("lead", "client", "contact", "pipeline", "stage")
LONGEST = 200  # characters of a value in a sentence


def statuses(noun: str) -> dict[str, str]:
    """The statuses of a lead, a deal or a task and what they are called."""
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


def task_types() -> list[tuple[str, str]]:
    return [("call", gettext("Call")), ("meeting", gettext("Meeting")), ("email", "E-mail")]


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


def field(name: str) -> str:
    """What a field is called; one that is not known here, by its name on the wire."""
    found = {
        "name": gettext("Name or company"),
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
    return found.get(name, name)


def value(noun: str, name: str, shown: Any, record: dict[str, Any]) -> str:
    """A value as people read it, the empty text for none. `shown` is its form on the wire, and
    `record` has the currency of its amounts."""
    if shown in (None, "", [], {}):
        return ""
    if name == "phone":
        return formatting.phone(shown)
    if name == "amount":
        return formatting.money(shown, record.get("currency"))
    if name == "assigned_to":
        return user_choices.everyone().get(str(shown), str(shown))
    if name.endswith("_at"):
        return formatting.moment(shown)
    if name.endswith("_date"):
        return formatting.day(shown)
    if name.endswith("_id") and (known := name_of(name.removesuffix("_id"), shown)):
        return known
    if name == "items":
        shown = [f"{line['name']} × {formatting.number(line['quantity'])}" for line in shown]
    if name == "contacts":
        return ", ".join(contact["name"] for contact in shown)
    if name == "extra":
        shown = plain(shown)
    words: dict[str, str] = {}
    if name == "status":
        words = statuses(noun)
    elif name == "role":
        words = roles()
    elif name == "type":
        words = stage_types() if noun == "stage" else client_types() | dict(task_types())
    elif name == "amount_mode":
        words = {"manual": gettext("entered manually"), "items": gettext("calculated from items")}
    text = ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown)
    text = words.get(text, text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def name_of(noun: str, id: str | None, live: bool = False) -> str:
    """What a record is called, unless `live` also one that was deleted; the empty text for none."""
    column = "title" if noun == "deal" else "name" if noun in NAMED else ""
    if id is None or not column:
        return ""
    kept = "AND deleted_at IS NULL" if live else ""
    found = row(f"SELECT {column} FROM {noun} WHERE id = ? {kept}", (int(id),))
    return found[0] if found else ""


def plain(value: Any) -> str:
    """Any value of `extra` as a text."""
    return value if isinstance(value, str) else dumps(value).decode()
