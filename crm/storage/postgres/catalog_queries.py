"""Files of SQL beside this module: long queries of the catalogs, and the tables of tenants."""

from functools import cache
from importlib import resources


@cache
def parts_of(file: str) -> dict[str, str]:
    """Return the parts of a file, each of which begins with `-- name: …`, by their names."""
    text = resources.files(__package__).joinpath(file).read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("-- name: ")[1:])
    return {name: sql for name, _, sql in parts}


def query(name: str) -> str:
    """Return a query of catalog_queries.sql by its name."""
    return parts_of("catalog_queries.sql")[name]
