"""Endpoints of batches: what was changed at once, and its undo."""

from typing import Any

from flask import Response
from marshmallow import fields as ma

from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import ok_answer
from crm.records import fields
from crm.records.batches import Batch
from crm.records.parameters import Query, Unindexed
from crm.records.queries import DRY_RUN, Filter, filter_of
from crm.records.views import RecordView, declare_views
from crm.resources.batches import undo
from crm.resources.trash import RECORDS
from crm.spreadsheets import csv_format
from crm.spreadsheets.exporter import CSV, csv_response
from crm.spreadsheets.resource import permitted_nouns, require_of_noun

BATCH: RecordView = declare_views(Batch)[0]


class BatchFilter(filter_of(Batch, Filter, unsorted=("created_at", "updated_at"))):  # type: ignore[misc]
    resource = Unindexed(fields.Choice(*RECORDS), column="noun || 's'", about="Such as `leads`.")


blueprint = Blueprint("batches", "What imports and others changed at once, and its undo.")


def _require(right: str, id: str) -> None:
    """Raise Forbidden unless the key has this right to the batch's resource, and NotFound."""
    require_of_noun(right, "changed", lambda: Batch.find(id).noun)


def _of_readable() -> tuple[str, list[str]]:
    nouns = permitted_nouns("read", "changed")
    return f"noun IN ({', '.join('?' * len(nouns))})", nouns


def _show(id: str) -> dict[str, Any]:
    _require("read", id)
    return BATCH.one(id)


batches = Endpoints(blueprint, "/batches", BATCH)
batches.list(BatchFilter(), "List the batches, the newest first.", where=_of_readable, needs=())
batches.get("Get one batch: what it changed, and what its undo kept.", show=_show, needs=())


@blueprint.operation(
    "POST",
    "/batches/<id>/undo",
    needs=(),
    query=DRY_RUN,
    answer=ok_answer("UndoneOut", reversed=ma.Integer, kept=ma.Integer),
    conflicts=True,
)
def undo_batch(id: str, query: Query) -> dict[str, Any]:
    """Undo a batch: every record that nobody has changed since is as it was before.

    Needs the right to write its noun, such as `leads:write`, and a key of the user who made the
    batch, or of an owner; 410 after 30 days. After a crash it goes on by itself.
    """
    _require("write", id)
    undone = undo.undo(id, query.dry_run)
    return {"status": "ok", "reversed": undone.reversed, "kept": undone.kept}


@blueprint.operation("GET", "/batches/<id>/kept.csv", needs=(), kind="raw", media_type=CSV)
def get_kept_records(id: str) -> Response:
    """Get the records that the undo of a batch kept, each with the reason; for 30 days."""
    _require("read", id)
    return kept_response(id)


def kept_response(id: str) -> Response:
    """The file of the records that an undo kept."""
    rows = ([noun, str(record_id), why] for noun, record_id, why in undo.kept(id))
    return csv_response(f"batch-{id}-kept.csv", csv_format.write(["noun", "id", "why"], rows))
