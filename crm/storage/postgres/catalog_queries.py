"""The queries in catalog_queries.sql by their names: long ones of PostgreSQL's catalogs."""

from functools import cache
from importlib import resources


@cache
def _queries() -> dict[str, str]:
    text = resources.files(__package__).joinpath("catalog_queries.sql").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("-- name: ")[1:])
    return {name: sql for name, _, sql in parts}


def query(name: str) -> str:
    """Return a query by its name."""
    return _queries()[name]
