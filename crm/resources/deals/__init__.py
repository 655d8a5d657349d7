"""Deals: the record and its stages, the items it is made of, and the endpoints."""
