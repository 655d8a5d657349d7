"""The trash: what was deleted in the last 30 days, by whom, and how it comes back (D17).

A deleted record keeps its row until retention erases it. Who deleted it says the audit entry of its
deletion.
"""

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import page_of
from crm.records import fields, pagination, parameters, queries, verbs
from crm.records.conditions import EVERY_ROW, Condition
from crm.records.deletions import MERGED_INTO, of_deletion
from crm.records.list_plans import join_conditions
from crm.records.retention import KEPT_SECONDS
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.resources.main_resources import MAIN_RESOURCES
from crm.storage.session import rows, time_before

RECORDS = {plural: resource.record for plural, resource in MAIN_RESOURCES.items()}
NEWEST_FIRST = "ORDER BY deleted_at DESC, number DESC"


class DeletedSchema(RecordSchema):
    """A deleted record."""

    resource = fields.Choice(*RECORDS, dump_only=True)
    id = fields.Id(dump_only=True)
    name = fields.Text(255, dump_only=True, about="The name or title that it had.")
    deleted_at = fields.DateTime(dump_only=True)
    deleted_by = fields.Id(
        dump_only=True, allow_none=True, about="The user; null if that is not known."
    )
    merged_into = fields.Id(dump_only=True, allow_none=True, about="The record that it became.")


class TrashFilter(queries.Filter):
    resource = parameters.Option(fields.Choice(*RECORDS), "Only of these.", repeated=True)
    since = parameters.Since("deleted_at", about="Deleted at or after this moment.")
    by = parameters.UserReference(column="deleted_by", about="Deleted by this user, or by `me`.")


TRASH_FILTER = TrashFilter(only=("resource", "since", "by", "limit", "cursor"))


blueprint = Blueprint("trash", "What was deleted, for 30 days.")


# Which scopes it needs, depends on the resources: Forbidden is raised if the caller may read none,
# or not one that it names.
@blueprint.operation(
    "GET",
    "/trash",
    needs=(),
    query=TRASH_FILTER,
    kind="page",
    answer=page_of(DeletedSchema.out("DeletedOut"), deleted=False),
)
def list_trash(query: parameters.Query) -> pagination.Page:
    """List what was deleted in the last 30 days, the last deleted first.

    Only of resources that the key may read, such as leads with `leads:read`. What is older is
    erased, unless another record needs it, such as a client of closed deals.
    """
    query.list_key, query.sorts_numbers = ("trash",), False
    conditions = [Condition(EVERY_ROW), *query.conditions]
    if query.cursor:
        deleted_at, number = pagination.read_cursor(query)
        behind = "(deleted_at < ? OR (deleted_at = ? AND number < ?))"
        conditions.append(Condition(behind, [deleted_at, deleted_at, number]))
    where, params = join_conditions(conditions)
    resources = readable_resources(query.options.get("resource", []))
    deleted = " UNION ALL ".join(map(_select_deleted, resources))
    deleted_rows = rows(
        f"SELECT resource, text_id, name, deleted_at, CAST(deleted_by AS TEXT),"
        " merged_into, number"
        f" FROM ({deleted}) AS deleted WHERE {where} {NEWEST_FIRST} LIMIT ?",
        [*[time_before(KEPT_SECONDS)] * len(resources), *params, query.limit + 1],
    )
    shown = deleted_rows[: query.limit]
    more = len(deleted_rows) > query.limit
    cursor = pagination.build_cursor(query, shown[-1][3], shown[-1][6]) if more else None
    names = ("resource", "id", "name", "deleted_at", "deleted_by", "merged_into")
    return pagination.Page([dict(zip(names, values, strict=False)) for values in shown], cursor)


def readable_resources(named: list[str]) -> list[str]:
    """The named resources, or by default all that the caller may read. Raises Forbidden."""
    rights.require(f"{resource}:read" for resource in named)
    scopes = {resource: f"{resource}:read" for resource in RECORDS}
    lacking = f"this key lacks each of the scopes {', '.join(scopes.values())}"
    return named or rights.require_any(scopes, lacking)


def _select_deleted(resource: str) -> str:
    """SQL of a resource's deleted records; its parameter is the time since when."""
    record = RECORDS[resource]
    table, position = record.noun, [*RECORDS].index(resource)
    name = "title" if "title" in record._meta.fields else "name"
    user, into = (of_deletion(column, table) for column in ("user_id", MERGED_INTO))
    # A number of its own in the whole trash, for the cursor.
    return (
        f"SELECT '{resource}' AS resource, CAST(id AS TEXT) AS text_id, {name} AS name, deleted_at,"
        f" ({user}) AS deleted_by, ({into}) AS merged_into,"
        f" id * {len(RECORDS)} + {position} AS number"
        f" FROM {table} WHERE deleted_at >= ? AND {name} <> ''"
    )


def add_restore(plural: str, view: RecordView) -> None:
    """Add the endpoint that restores a record of a resource."""
    blueprint.add(
        "POST",
        f"/{plural}/<id>/restore",
        name=f"restore_{view.noun}",
        about=f"Restore a {view.noun} that was deleted in the last 30 days.",
        function=lambda id: view.one(verbs.restore(RECORDS[plural], id).id),
        needs=(f"{plural}:write",),
        response_view=view,
        conflicts=True,
    )
