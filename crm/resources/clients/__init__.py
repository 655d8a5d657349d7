"""Clients: the record with its contacts and tags and their rules, and the endpoints."""

from crm.resources.clients.record import (
    Client,
    create,
    create_contact,
    delete,
    delete_contact,
    restore,
    update,
    update_contact,
)

__all__ = [
    "Client",
    "create",
    "create_contact",
    "delete",
    "delete_contact",
    "restore",
    "update",
    "update_contact",
]
