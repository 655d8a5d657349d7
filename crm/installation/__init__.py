"""All tenants of an installation: which there are, where each lives, and what they share."""
