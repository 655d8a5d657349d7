"""Names of schemas and other objects in PostgreSQL."""


def quoted(name: str) -> str:
    """Return an identifier in quotes, as labels with hyphens need it."""
    return '"' + name.replace('"', '""') + '"'
