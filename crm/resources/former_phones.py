"""Records with a phone that older releases stored with too few or too many digits (D2).

Nothing changes them: nobody knows which digit was meant. The doctor names them.
"""

from crm.resources.clients.record import Client, having
from crm.resources.leads.record import Lead
from crm.resources.users import User

CONDITION = "substr(phone, 1, 4) = '+380' AND (length(phone) <> 13 OR substr(phone, 5, 1) = '0')"


def list_ids() -> dict[str, list[int]]:
    """The ids of live records by what they are; of clients also those whose contact it is."""
    clients = Client.every(f"id IN ({having(CONDITION)}) ORDER BY id")
    leads, users = (model.every(f"{CONDITION} ORDER BY id") for model in (Lead, User))
    by_name = {"leads": leads, "clients": clients, "users": users}
    return {name: [record.id for record in records] for name, records in by_name.items()}
