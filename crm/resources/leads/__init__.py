"""Leads: the record and its rules, their conversion into deals, and the endpoints."""
