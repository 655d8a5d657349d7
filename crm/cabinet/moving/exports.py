"""Files to take away: the records of a list with its filters, and a sample of a file to send."""

from typing import Any, BinaryIO
from urllib.parse import urlencode

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import lists
from crm.cabinet.moving.nouns import each
from crm.cabinet.moving.samples import sample
from crm.cabinet.rendering import MANAGER, OWNER, Pages, me
from crm.records.queries import Filter
from crm.resources import csv_files, moving
from crm.resources.csv_files import as_file
from crm.resources.moving import PRODUCTS
from crm.resources.moving.endpoints import EXPORT_FILTERS
from crm.resources.products import endpoints as products

FILTERS: dict[str, Filter] = {PRODUCTS: products.EXPORT_FILTER, **EXPORT_FILTERS}

pages = Pages("exports")


def ways(noun: str, asked: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    """What `moving/_ways.html` needs on the page of a list, whose filters the files have.

    `asked` are the filters where the page's address doesn't say them.
    """
    sent = list(request.args.items(multi=True)) if asked is None else asked
    kept = [(name, text) for name, text in sent if name in FILTERS[noun].fields]
    return {
        "noun": noun,
        "for_api": urlencode(kept),
        "for_excel": urlencode([*kept, ("dialect", "excel")]),
    }


@each(pages, "GET", "export")
def export_records(noun: str) -> Response:
    chosen = FILTERS[noun]

    def export(to: BinaryIO, *wanted: Any) -> None:
        moving.export_csv(to, noun, *wanted, _may_read)

    data = csv_files.export_of(lists.read_query(chosen), chosen.fields["sort"], export)
    return as_file(moving.FILES[noun], data)


def _may_read(plural: str) -> bool:
    """Only owners see how users are reached: to others a file tells them by their ids."""
    return plural != "users" or me().role == OWNER


@each(pages, "GET", "import/sample.csv", role=MANAGER)
def download_sample(noun: str) -> Response:
    return as_file(f"{noun}-sample.csv", sample(noun))
