"""Files on records: their rules, and the endpoints."""
