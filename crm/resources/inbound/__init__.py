"""Inbound hooks: addresses that other programs send to, and the records made of what they send."""
