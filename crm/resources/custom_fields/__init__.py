"""Fields of a tenant's own: what they are, and what becomes of their values."""
