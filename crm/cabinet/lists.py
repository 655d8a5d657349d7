"""Lists of records: the API's filters in the address of the page, and what there is to choose."""

from flask import request
from werkzeug.datastructures import MultiDict

from crm.rest.filters import Filter, Query
from crm.tenancy.database import rows

MOST = 100  # values to choose from
VIEW = "view"  # in the address of a page with several views; no filter


def asked(filter: Filter) -> Query:
    """The query that the page's address asks for; a field left blank narrows nothing.

    Raises Invalid as the API does.
    """
    sent = [(name, text) for name, text in request.args.items(multi=True) if text.strip()]
    return filter.read(MultiDict((name, text) for name, text in sent if name != VIEW))


def is_narrowed() -> bool:
    """Is this only a part of the list?"""
    kept = ("sort", "cursor", "limit", VIEW)
    return any(text.strip() for name, text in request.args.items(multi=True) if name not in kept)


def known(table: str, column: str) -> list[str]:
    """The values that live records of a table have in a column."""
    return [
        value
        for (value,) in rows(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
            f" AND deleted_at IS NULL ORDER BY {column} LIMIT {MOST}"
        )
    ]
