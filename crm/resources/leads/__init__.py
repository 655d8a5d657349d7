"""Leads: the record and its rules, their conversion into deals, and the endpoints."""

from crm.resources.leads.conversion import convert, update
from crm.resources.leads.record import Lead, create, delete, restore
