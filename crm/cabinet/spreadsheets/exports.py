"""Pages that give files: the records of a list with its filters, and a sample of a file."""

from typing import Any
from urllib.parse import urlencode

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import lists
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me
from crm.cabinet.spreadsheets.labels import resource_page
from crm.cabinet.spreadsheets.sample_file import sample_file
from crm.spreadsheets import find_resource
from crm.spreadsheets.endpoints import csv_response, export_filter_of, export_response

pages = Pages("exports")


def export_links(plural: str, filters: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """What `spreadsheets/_links.html` needs on the page of a list.

    The files have the filters of the page's address, or `filters` where that does not have them.
    """
    parameters = list(request.args.items(multi=True)) if filters is None else filters
    filter_fields = export_filter_of(plural).fields
    query = [(name, text) for name, text in parameters if name in filter_fields]
    return {
        "plural": plural,
        "for_api": urlencode(query),
        "for_excel": urlencode([*query, ("dialect", "excel")]),
    }


@resource_page(pages, "GET", "export")
def export_records(plural: str) -> Response:
    query = lists.read_query(export_filter_of(plural))
    return export_response(find_resource(plural), query, _may_read)


def _may_read(plural: str) -> bool:
    # Only owners see how users are reached; others get the ids of users.
    return plural != "users" or me().role == OWNER


@resource_page(pages, "GET", "import/sample.csv", role=MANAGER)
def download_sample(plural: str) -> Response:
    return csv_response(f"{plural}-sample.csv", sample_file(find_resource(plural)))
