"""Pipelines and their stages: the records with their rules, their removal, and the endpoints."""
