"""Clients: the record with its contacts and tags and their rules, and the endpoints."""
