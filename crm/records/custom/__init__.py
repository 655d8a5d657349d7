"""Fields of a tenant's own: their types, which there are, and the values of records."""
