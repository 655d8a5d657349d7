"""Pages of batches: what imports and others changed at once in a resource, and its undo."""

from typing import Any

from werkzeug.wrappers import Response

from crm.cabinet import formatting, labels
from crm.cabinet.forms import Form
from crm.cabinet.languages import coded_text, gettext
from crm.cabinet.rendering import SELLER, Pages, next_path, see_other
from crm.cabinet.spreadsheets.resource_pages import (
    one_of_resource,
    refresh_while_running,
    render_list,
    render_page,
    resource_page,
)
from crm.errors import Conflict, CRMError
from crm.resources.batches import undo
from crm.resources.batches.endpoints import BATCH, kept_response

# Of those without a page.
PATHS = {"user": "/settings/users", "stage": "/settings/pipelines", "field": "/settings/fields"}
MAX_UNDONE_AT_ONCE = 1000  # records, within a request

pages = Pages("batches")


@resource_page(pages, "GET", "batches")
def list_batches(plural: str) -> Response:
    return render_list("spreadsheets/batches.html", plural, BATCH)


@resource_page(pages, "GET", "batches/<id>", role=SELLER)
def show_batch(plural: str, id: str, form: Any = None) -> Response:
    """Show what was changed, and what an undo would reverse and keep, or why it is refused."""
    batch, tried, refused = one_of_resource(BATCH, plural, id), None, ""
    try:
        tried = undo.undo(id, dry_run=True)
    except CRMError as error:
        refused = formatting.refusal(error)
    listed = tried.listed if tried else undo.kept(id)[: undo.MAX_LISTED]
    left = [
        (
            PATHS.get(noun, f"/{noun}s/{record_id}"),
            labels.name_of(noun, str(record_id)) or record_id,
            coded_text("kept", why) or formatting.refusal(Conflict(why, why)),
        )
        for noun, record_id, why in listed
    ]
    context = {"tried": tried, "refused": refused, "kept": left, "form": form or Form()}
    response = render_page("spreadsheets/batch.html", plural, batch=batch, **context)
    return refresh_while_running(response, batch["state"])


@resource_page(pages, "POST", "batches/<id>/undo", page=show_batch)
def undo_batch(plural: str, id: str) -> Response:
    batch = one_of_resource(BATCH, plural, id)
    is_long = batch["created"] + batch["updated"] + batch["deleted"] > MAX_UNDONE_AT_ONCE
    undone = undo.undo(id, in_background=is_long)
    text = gettext("Undone: %(count)s", count=formatting.number(undone.reversed))
    page = f"/{plural}/batches/{id}"  # which also has what was kept
    return see_other(page if is_long or undone.kept else next_path(page), "" if is_long else text)


@resource_page(pages, "GET", "batches/<id>/kept.csv", role=SELLER)
def download_kept(plural: str, id: str) -> Response:
    one_of_resource(BATCH, plural, id)
    return kept_response(id)
