"""The database engines: where tenants' data lives, and what differs between them at run time."""
