"""Changes of deals that follow from changes of their clients and contacts (D6).

Deals import clients, so crm/resources/__init__.py gives this module to clients.
"""

from crm.access import rights
from crm.errors import Conflict
from crm.resources.clients.record import Client, Contact
from crm.resources.deals.record import Deal
from crm.storage.dialect import without_index

# A client has fewer deals than there are open ones.
OPEN_OF_CLIENT = f"client_id = ? AND {without_index('status')} = 'open'"
MAX_NAMED_DEALS = 10  # open deals that the sentence of a refusal names, at most


def refuse_with_open_deals(client: Client) -> None:
    """Raise Conflict `client_has_open_deals`, which names those that the caller may read."""
    if Deal.first(OPEN_OF_CLIENT, client.id) is None:
        return
    open_deals = Deal.every(f"{OPEN_OF_CLIENT} ORDER BY id", client.id, own=True)
    if not (rights.can_read("deals") and open_deals):
        raise Conflict("the client has open deals", "client_has_open_deals")
    named = ", ".join(f"{deal.title} ({deal.id})" for deal in open_deals[:MAX_NAMED_DEALS])
    raise Conflict(
        f"the client has open deals: {named}",
        "client_has_open_deals",
        deals=[{"id": str(deal.id), "title": deal.title} for deal in open_deals],
    )


def copy_client_name(client: Client) -> None:
    """Give the client's new name to the client's deals."""
    for deal in Deal.every("client_id = ? ORDER BY id", client.id):
        deal.save_changes({"client_name": client.name})


def clear_contact(contact: Contact) -> None:
    """Take a contact off the deals, before the contact is deleted."""
    for deal in Deal.every("contact_id = ? ORDER BY id", contact.id):
        deal.save_changes({"contact_id": None})
