"""How a lead becomes a deal: one rule for every way there (spec: Leads; D5).

`POST /leads/{id}/convert`, `PATCH status=converted` and a new deal that names its lead all end in
_convert(), one transaction. The client is the live one with the lead's e-mail, else with its phone,
else a new one: a company with the person as its contact when the lead names one. A client who is
known gets what it lacks: the person as a contact, phone, e-mail and `extra`. The lead's amount,
source, comment, tags, extra and assignee go to the new deal unless the request has others. So do
values of own fields that deals have, too; of the others the client gets those that clients have. A
lead may also join a deal that is open. A converted lead stays so, and converting it again changes
nothing.
"""

from typing import Any

from marshmallow import fields as ma

from crm.access import rights
from crm.api.envelopes import ok_answer
from crm.errors import Conflict, Fault, Invalid
from crm.json import dumps, loads
from crm.outbox import events
from crm.records import fields, verbs
from crm.records.custom import values as custom_values
from crm.records.record import require_reference
from crm.records.schemas import RecordSchema
from crm.resources.clients import record as clients
from crm.resources.deals.record import DEAL, Deal, OnCreated, add_deal
from crm.resources.leads.record import LEAD, Lead, join_extra
from crm.storage.session import current_session, now, transaction

NEW_DEAL_FIELDS = ("title", "pipeline_id", "stage_id", "amount", "assigned_to")


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Lead:
    """Change the sent fields of a lead; the status `converted` converts it.

    Raises Invalid, NotFound, Stale, Conflict `lead_already_converted` for another status of a
    converted lead, and Forbidden for an actor who converts it and may not write deals.
    """
    with transaction():
        lead = Lead.find(id, expected_version)
        if data.get("status") == "converted" != lead.status:
            rights.require(["deals:write"])
            # The other fields first: the client and the deal are made of the values as sent.
            verbs.patch(lead, {name: value for name, value in data.items() if name != "status"})
            _convert(lead, {})
        else:
            verbs.patch(lead, data)
        return lead


def convert(id: int | str, data: dict[str, Any]) -> tuple[Lead, bool]:
    """Make a deal of a lead: the lead, and whether this call has converted it.

    `data` has fields of the new deal, or `deal_id` of an open one, and may name the client. Events
    in order: client.created if new, deal.created if new, lead.converted. Raises Invalid, NotFound,
    and Conflict `deal_closed`.
    """
    with transaction():
        lead = Lead.find(id)
        # A repeated call is no error: a client that got no response may send it again.
        is_new = lead.status != "converted"
        if is_new:
            _convert(lead, data)
        return lead, is_new


def import_converted(id: int | str, deal_id: int | str, converted_at: str | None) -> Lead:
    """Note that a lead was converted, before it was imported, into a deal that exists here.

    The deal may be closed by now (D17). One lead.converted. Raises Invalid and NotFound.
    """
    with transaction():
        lead, deal = Lead.find(id), Deal.find(deal_id)
        _complete_deal(lead, deal, None)
        _set_converted(lead, deal, converted_at or now())
        return lead


def create_deal(data: dict[str, Any], on_created: OnCreated) -> int:
    """Add the deal whose `lead_id` names the lead that is converted into it; gives its id.

    Raises Invalid, Forbidden, and Conflict `lead_already_converted`.
    """
    rights.require(["leads:write"])
    require_reference(Lead, data["lead_id"], "lead_id")
    lead = Lead.find(data["lead_id"])
    if lead.status == "converted":
        raise Conflict(
            f"this lead was converted into the deal {lead.deal_id}", "lead_already_converted"
        )
    return _convert(lead, data, on_created).id


def _convert(lead: Lead, data: dict[str, Any], on_created: OnCreated = lambda deal: None) -> Deal:
    if data.get("deal_id") is not None:
        deal = _open_deal(lead, data)
        _complete_deal(lead, deal, data.get("client_id"))
    else:
        deal = add_deal(_new_deal(lead, data), on_created)
    _set_converted(lead, deal, now())
    return deal


def _new_deal(lead: Lead, data: dict[str, Any]) -> dict[str, Any]:
    """The values of a new deal: those sent, and for the others the lead's."""
    client_id = _client_id(lead, data.get("client_id"))
    values = {
        "contact_id": _add_person(lead, client_id),
        "source": lead.source,
        "comment": lead.comment,
        "tags": lead.tags,
        "extra": lead.extra,
        "custom": _joined_custom(None, lead, "deals"),
        "currency": lead.currency,
    }
    # `manager` is another name of `assigned_to`: both with different users would be refused.
    if lead.assigned_to is not None and "manager" not in data:
        values["assigned_to"] = lead.assigned_to
    # An amount means nothing in another currency, nor beside that of items.
    if data.get("currency", lead.currency) == lead.currency and "amount_mode" not in data:
        values["amount"] = lead.amount
    data = {name: value for name, value in data.items() if name != "deal_id"}
    return {**values, **data, "client_id": client_id, "lead_id": lead.id}


def _open_deal(lead: Lead, data: dict[str, Any]) -> Deal:
    """The open deal that the lead joins. Raises Invalid, and Conflict `deal_closed`."""
    if unfit := [name for name in NEW_DEAL_FIELDS if name in data]:
        detail = "is for a new deal and does not go with deal_id"
        raise Invalid([Fault(f"/{name}", "not_with_deal_id", detail) for name in unfit])
    require_reference(Deal, data["deal_id"], "deal_id")
    deal = Deal.find(data["deal_id"])
    if deal.status != "open":
        raise Conflict("this deal is closed: only an open one can be joined", "deal_closed")
    return deal


def _complete_deal(lead: Lead, deal: Deal, client_id: int | None) -> None:
    """Fill in what a deal lacks: the lead, the client, the contact and `extra`."""
    values: dict[str, Any] = {"lead_id": deal.lead_id or lead.id}
    # A deleted client counts as none: a conversion must end with a live one.
    if deal.client_id is None or clients.Client.first("id = ?", deal.client_id) is None:
        values["client_id"] = _client_id(lead, client_id)
    elif client_id not in (None, deal.client_id):
        raise Invalid.field("client_id", "client_conflict", "is not the client of this deal")
    contact_id = _add_person(lead, values.get("client_id", deal.client_id))
    if "client_id" in values or deal.contact_id is None:
        values["contact_id"] = contact_id
    values |= {"extra": _joined_extra(deal, lead)}
    deal.update_fields({**values, "custom": _joined_custom(deal.custom, lead, "deals")})


def _set_converted(lead: Lead, deal: Deal, converted_at: str) -> None:
    values = {"status": "converted", "client_id": deal.client_id, "deal_id": deal.id}
    values |= {"lost_reason": None} if lead.status == "unqualified" else {}
    before = lead.save_changes({**values, "converted_at": converted_at})
    body = {
        "lead": LEAD.one(lead.id),
        "deal": DEAL.one(deal.id),
        "client": clients.CLIENT.one(deal.client_id),
    }
    events.emit(events.LEAD_CONVERTED, lead.id, body, LEAD.show(before))


def _client_id(lead: Lead, client_id: int | None) -> int:
    """The client that is sent, else the one known by e-mail or phone, else a new one."""
    if client_id is not None:
        require_reference(clients.Client, client_id, "client_id")
        return client_id
    if client := clients.match(lead.email, lead.phone):
        return client.id
    person = {"name": lead.name, "phone": lead.phone, "email": lead.email}
    values = {"source": lead.source, "assigned_to": lead.assigned_to, "extra": lead.extra}
    values |= {"custom": _joined_custom(None, lead, "clients")}
    # A lead with a company becomes a client of that name, with the person as its contact.
    if lead.company:
        contact = {**person, "position": lead.position}
        return clients.create(
            {**values, "type": "company", "name": lead.company, "contacts": [contact]}
        )
    return clients.create({**values, **person, "type": "person"})


def _add_person(lead: Lead, client_id: int) -> int | None:
    """Give the client what it lacks of the lead; the id of the contact who is the lead's person.

    Only empty fields are filled. An address that fits nowhere comes with a new contact, so that the
    next lead from it leads to this client. None if the person is the client itself.
    """
    client = clients.Client.first("id = ?", client_id, own=True)
    if client is None:
        return None  # it is somebody else's
    people, is_person = [*client.list_contacts(), client], client.type == "person"
    known = {
        name: [one for one in people if (getattr(one, name) or "").casefold() == value.casefold()]
        for name in ("email", "phone", "name")
        if (value := getattr(lead, name))
    }
    # A company is not the person, although it may have the address.
    persons = (one for name in known for one in known[name] if one.noun == "contact" or is_person)
    person = next(persons, None)
    # Leads that are imported with their deals are history, and so are their clients.
    if current_session().is_import:
        return person.id if isinstance(person, clients.Contact) else None
    new = {name: getattr(lead, name) for name in known if not known[name] and name != "name"}
    contact: dict[str, Any] = {}
    if person is None or any(getattr(person, name) for name in new):
        contact = {name: getattr(lead, name) for name in ("name", "position", "email", "phone")}
    elif isinstance(person, clients.Contact):
        contact = {"id": person.id, "position": person.position or lead.position, **new}
    contacts = [contact, *client.entries_except(contact.get("id"))]
    values = {"contacts": contacts} if contact else new
    values |= {"extra": _joined_extra(client, lead)}
    client.update_fields({**values, "custom": _joined_custom(client.custom, lead, "clients")})
    return contact.get("id") or (client.list_contacts()[-1].id if contact else None)


def _joined_extra(record: clients.Client | Deal, lead: Lead) -> str | None:
    """The record's `extra` with what only the lead has; as it is if that is too much."""
    try:
        return join_extra(record.extra, lead.extra)
    except Invalid:
        return record.extra


def _joined_custom(own: str | None, lead: Lead, plural: str) -> str | None:
    """The values of a record's own fields with those that only the lead has, where they fit."""
    fitting = custom_values.fitting("leads", lead.custom, plural)
    if plural == "clients":
        for_deal = custom_values.fitting("leads", lead.custom, "deals")
        fitting = {key: value for key, value in fitting.items() if key not in for_deal}
    return dumps(fitting | loads(own or "{}")).decode() if fitting else own


class ConversionSchema(RecordSchema):
    """The body of a conversion: fields of the deal that is made of the lead."""

    client_id = fields.Id(about="By default the client with the same email or phone, or a new one.")
    deal_id = fields.Id(about="An open deal to join, instead of a new one.")
    title = fields.Text(255, example="Крісла для офісу", about="By default the client's name.")
    pipeline_id = fields.Id(allow_none=False, about="By default the default pipeline.")
    stage_id = fields.Id(allow_none=False, about="By default the first open stage.")
    amount = fields.Amount(about="By default the lead's.")
    assigned_to = fields.Id(about="By default the lead's, else the key's user.")


CONVERSION = ConversionSchema.body("Conversion")
CONVERTED = ok_answer("ConvertedOut", lead_id=ma.String, deal_id=ma.String, client_id=ma.String)
