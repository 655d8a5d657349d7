"""Deals: the record and its stages, the items it is made of, and the endpoints."""

from crm.resources.deals.record import Deal, create, create_with_client, delete, restore, update
