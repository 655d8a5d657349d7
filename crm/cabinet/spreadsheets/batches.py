"""Pages of batches: what imports and others changed at once in a resource, and its undo."""

from typing import Any

from werkzeug.wrappers import Response

from crm.cabinet import formatting
from crm.cabinet.forms import Form
from crm.cabinet.languages import coded_text, gettext
from crm.cabinet.rendering import MANAGER, Pages, see_other
from crm.cabinet.spreadsheets.imports import page_query
from crm.cabinet.spreadsheets.resource_pages import one_of_resource, render_page, resource_page
from crm.errors import Conflict, CRMError
from crm.records import pagination
from crm.resources.batches import undo
from crm.resources.batches.endpoints import BATCH, BATCH_FILTER, kept_response
from crm.spreadsheets import find_resource

MAX_UNDO_SECONDS = 20  # of one request; after it the page has a button to go on

pages = Pages("batches")


@resource_page(pages, "GET", "batches")
def list_batches(plural: str) -> Response:
    singular = find_resource(plural).singular
    query, sort = page_query(), BATCH_FILTER.fields["sort"]
    page = pagination.page(BATCH, query, sort, "noun = ?", [singular])
    return render_page("spreadsheets/batches.html", plural, page=page)


@resource_page(pages, "GET", "batches/<id>", role=MANAGER)
def show_batch(plural: str, id: str, form: Any = None) -> Response:
    """Show what was changed, and what an undo would reverse and keep, or why it is refused."""
    batch, tried, refused = _batch(plural, id), None, ""
    try:
        tried = undo.undo(id, dry_run=True)
    except CRMError as error:
        refused = formatting.refusal(error)
    listed = tried.listed if tried else undo.kept(id)[: undo.MAX_LISTED]
    kept = [(f"/{noun}s/{record_id}", record_id, _why(why)) for noun, record_id, why in listed]
    context = {"tried": tried, "refused": refused, "kept": kept, "form": form or Form()}
    return render_page("spreadsheets/batch.html", plural, batch=batch, **context)


@resource_page(pages, "POST", "batches/<id>/undo", page=show_batch)
def undo_batch(plural: str, id: str) -> Response:
    _batch(plural, id)
    undone = undo.undo(id, max_seconds=MAX_UNDO_SECONDS)
    is_undone = _batch(plural, id)["state"] == "undone"
    text = gettext("Undone: %(count)s", count=formatting.number(undone.reversed))
    return see_other(f"/{plural}/batches/{id}", text if is_undone else "")


@resource_page(pages, "GET", "batches/<id>/kept.csv", role=MANAGER)
def download_kept(plural: str, id: str) -> Response:
    _batch(plural, id)
    return kept_response(id)


def _batch(plural: str, id: str) -> dict[str, Any]:
    """A batch of this resource; raises NotFound, also for that of another."""
    return one_of_resource(BATCH, plural, id)


def _why(code: str) -> str:
    return coded_text("kept", code) or formatting.refusal(Conflict(code, code))
