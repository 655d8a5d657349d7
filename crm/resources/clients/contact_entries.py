"""The list of contacts that is sent for a client: what it may be, and who is primary (D6)."""

from typing import Any

from crm.access import rights
from crm.errors import FaultCollector
from crm.records.schemas import READ_ONLY


def check_entries(contacts_by_id: dict[int, Any], entries: list, read_only: frozenset) -> None:
    """Check entries against the contacts that the client has; raises Invalid.

    read_only: the fields that may only be sent as the contact has them.
    """
    faults, seen_ids, has_primary = FaultCollector(), set(), False
    for number, entry in enumerate(entries):
        pointer = f"contacts/{number}"
        id: int | None = entry.get("id")
        if id and id not in contacts_by_id:
            faults.add(f"{pointer}/id", "unknown_id", "this client has no contact with this id")
        if id and id in seen_ids:
            faults.add(f"{pointer}/id", "repeated", "this contact is listed twice")
        if not id and "name" not in entry:
            faults.add(f"{pointer}/name", "required", "this field is required")
        if has_primary and entry.get("is_primary"):
            faults.add(f"{pointer}/is_primary", "second_primary", "only one contact can be primary")
        # Without the right to read any value is refused: guesses would reveal the stored one.
        contact = contacts_by_id.get(id) if id and rights.can_read("clients") else None
        for name, value in entry.items():
            if name in read_only and (contact is None or getattr(contact, name) != value):
                faults.add(f"{pointer}/{name}", *READ_ONLY)
        seen_ids.add(id)
        has_primary = has_primary or bool(entry.get("is_primary"))
    faults.raise_any()


def find_primary(
    existing: dict[int, Any], entry_of: dict[int, dict[str, Any]], entries: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return the entry whose contact becomes or stays the primary one; None if no contact is.

    The one sent as such, else the one that is, else the first, unless it is sent as none.
    """
    sent = [entry for entry in entries if entry.get("is_primary")]
    was = [
        entry_of[id] for id, contact in existing.items() if contact.is_primary and id in entry_of
    ]
    listed = [entry_of[id] for id in sorted(entry_of)]
    new = [entry for entry in entries if not entry.get("id")]
    willing = [entry for entry in (*was, *listed, *new) if "is_primary" not in entry]
    return next(iter(sent + willing), None)
