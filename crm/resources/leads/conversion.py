"""How a lead becomes a deal: one rule behind three doors (spec: Leads; D5).

`POST /leads/{id}/convert`, `PATCH status=converted` and a new deal that names its lead all end in
convert(), one transaction. The client is the live one with the lead's e-mail, else with its phone,
else a new one: a company with the person as its contact when the lead names one. The lead's amount,
source, comment, tags and assignee go to the new deal unless something else is said. A lead may also
join a deal that is open. Once converted it stays so, and asking again changes nothing.
"""

from typing import Any

from crm.errors import Conflict, Fault, Invalid
from crm.outbox import events
from crm.records import fields
from crm.records.record import reference
from crm.records.schemas import RecordSchema
from crm.resources.clients import record as clients
from crm.resources.clients.record import CLIENT, Client, Contact
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL, Deal
from crm.resources.leads.record import LEAD, Lead
from crm.tenancy.database import now, transaction

OF_NEW_DEAL = ("title", "pipeline_id", "stage_id", "amount", "assigned_to")


def convert(lead: Lead, wanted: dict[str, Any]) -> bool:
    """Make a deal of the lead as wanted; inside a transaction. False when it was made before.

    `wanted` has fields of the new deal, or `deal_id` of an open one, and may name the client.
    Events in order: client.created if new, deal.created if new, lead.converted.
    Raises Invalid, or Conflict `deal_closed`.
    """
    if lead.status == "converted":
        return False
    joins = wanted.get("deal_id") is not None
    deal = _join(lead, wanted) if joins else _open(lead, wanted)
    _converted(lead, deal, now())
    return True


def move_in(lead: Lead, deal: Deal, converted_at: str | None) -> None:
    """A lead was converted before it came here, into a deal that is here, whatever became of that
    since (D17); inside a transaction. One lead.converted. Raises Invalid."""
    _belongs(lead, deal, None)
    _converted(lead, deal, converted_at or now())


def is_asked(lead: Lead, data: dict[str, Any]) -> bool:
    """Would these changed fields convert the lead?"""
    return data.get("status") == "converted" != lead.status


def change(lead: Lead, data: dict[str, Any]) -> None:
    """Change the sent fields of a lead; inside a transaction. The status converted converts it."""
    if is_asked(lead, data):
        lead.change({name: value for name, value in data.items() if name != "status"})
        convert(lead, {})
    else:
        lead.change(data)


def create_deal(data: dict[str, Any]) -> int:
    """Add a deal and give its id; with `lead_id` that lead is converted into it.

    Raises Invalid, or Conflict `lead_already_converted`.
    """
    if data.get("lead_id") is None:
        return deals.create(data)
    with transaction():
        reference(Lead, data["lead_id"], "lead_id")
        lead = Lead.find(data["lead_id"])
        if not convert(lead, data):
            raise Conflict(
                f"this lead was converted into the deal {lead.deal_id}", "lead_already_converted"
            )
        return lead.deal_id


def _open(lead: Lead, wanted: dict[str, Any]) -> Deal:
    """A new deal with what the lead tells, and with what is wanted before that."""
    client_id = _client(lead, wanted.get("client_id"))
    carried = {
        "contact_id": _contact(lead, client_id),
        "source": lead.source,
        "comment": lead.comment,
        "tags": lead.tags,
        "currency": lead.currency,
    }
    if lead.assigned_to is not None and "manager" not in wanted:
        carried["assigned_to"] = lead.assigned_to
    # An amount is nothing without its currency, nor beside that of items.
    if wanted.get("currency", lead.currency) == lead.currency and "amount_mode" not in wanted:
        carried["amount"] = lead.amount
    return Deal.find(
        deals.create({**carried, **wanted, "client_id": client_id, "lead_id": lead.id})
    )


def _join(lead: Lead, wanted: dict[str, Any]) -> Deal:
    """The open deal that the lead belongs to; what it lacks of lead and client it gets."""
    if strange := [name for name in OF_NEW_DEAL if name in wanted]:
        detail = "is for a new deal and does not go with deal_id"
        raise Invalid([Fault(f"/{name}", "not_with_deal_id", detail) for name in strange])
    reference(Deal, wanted["deal_id"], "deal_id")
    deal = Deal.find(wanted["deal_id"])
    if deal.status != "open":
        raise Conflict("this deal is closed: only an open one can be joined", "deal_closed")
    _belongs(lead, deal, wanted.get("client_id"))
    return deal


def _belongs(lead: Lead, deal: Deal, client_id: int | None) -> None:
    """The deal gets what it lacks of lead and client."""
    values: dict[str, Any] = {"lead_id": deal.lead_id or lead.id}
    if deal.client_id is None or Client.first("id = ?", deal.client_id) is None:
        values["client_id"] = _client(lead, client_id)
        values["contact_id"] = _contact(lead, values["client_id"])
    elif client_id not in (None, deal.client_id):
        raise Invalid.field("client_id", "client_conflict", "is not the client of this deal")
    deal.change(values)


def _converted(lead: Lead, deal: Deal, converted_at: str) -> None:
    values = {"status": "converted", "client_id": deal.client_id, "deal_id": deal.id}
    before = lead.put({**values, "converted_at": converted_at})
    shown = {
        "lead": LEAD.one(lead.id),
        "deal": DEAL.one(deal.id),
        "client": CLIENT.one(deal.client_id),
    }
    events.emit(events.LEAD_CONVERTED, lead.id, shown, LEAD.show(before))


def _client(lead: Lead, client_id: int | None) -> int:
    """The client that is named, else the one known by e-mail or phone, else a new one."""
    if client_id is not None:
        reference(Client, client_id, "client_id")
        return client_id
    if found := clients.match(lead.email, lead.phone):
        return found.id
    person = {"name": lead.name, "phone": lead.phone, "email": lead.email}
    values = {"source": lead.source, "assigned_to": lead.assigned_to}
    if lead.company:
        contact = {**person, "position": lead.position}
        return clients.create(
            {**values, "type": "company", "name": lead.company, "contacts": [contact]}
        )
    return clients.create({**values, **person, "type": "person"})


def _contact(lead: Lead, client_id: int) -> int | None:
    """The client's contact who is the lead's person, by e-mail, else by phone."""
    for name in ("email", "phone"):
        value = getattr(lead, name)
        if value and (found := Contact.first(f"client_id = ? AND {name} = ?", client_id, value)):
            return found.id
    return None


class ConversionSchema(RecordSchema):
    """What may be said of the deal that a lead becomes."""

    client_id = fields.Id(about="By default the client with the same email or phone, or a new one.")
    deal_id = fields.Id(about="An open deal to join, instead of a new one.")
    title = fields.Text(255, example="Крісла для офісу", about="By default the client's name.")
    pipeline_id = fields.Id(allow_none=False, about="By default the default pipeline.")
    stage_id = fields.Id(allow_none=False, about="By default the first open stage.")
    amount = fields.Amount(about="By default the lead's.")
    assigned_to = fields.Id(about="By default the lead's, else the key's user.")


class ConvertedOut(RecordSchema):
    """What a lead became."""

    status = fields.Choice("ok", dump_only=True)
    lead_id = fields.Id(dump_only=True)
    deal_id = fields.Id(dump_only=True)
    client_id = fields.Id(dump_only=True)


CONVERSION = ConversionSchema.body("Conversion")
CONVERTED = ConvertedOut.out("ConvertedOut")
