"""The timeline of a record: notes, tasks, stages, changes and where it came from, the newest first.

Each kind of entry is an arm of one UNION, which reads no more rows than the page has, along an
index by time (D17). A deal and a client also show what was done with the leads that they came from.
Entries of other resources are left out for a key that may not read them.
"""

from typing import Any, NamedTuple

import orjson

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import page_of
from crm.records import fields, pagination, parameters, queries
from crm.records.deletions import IS_DELETION
from crm.records.parameters import Query
from crm.records.record import require_live
from crm.records.schemas import RecordSchema
from crm.records.views import RecordView
from crm.resources.changes import add_lists
from crm.resources.leads.figures import ids_of
from crm.resources.notes import NOUNS
from crm.storage.reading import BoundedRows

# In the order in which entries of one second stand; a cursor has the position of a kind.
KINDS = ("note", "task", "stage", "change", "deal", "lead", "import", "file", "paper")
COLUMNS = ("title", "text", "type", "status", "duration_seconds", "before", "after")


class Arm(NamedTuple):
    """The entries of a kind: where they are read, and the SQL of their columns.

    record: (resource, id) of the record that an entry is of. others: SQL of those of COLUMNS that
    the kind has. Its time `at` is what the index walks by. scope: what must be readable besides the
    record itself.
    """

    kind: str
    source: str
    params: tuple[Any, ...]
    at: str
    record: tuple[str, str]
    user: str = "user_id"
    id: str = "id"
    scope: str = ""
    others: dict[str, str] = {}

    def select(self, query: Query, cursor: tuple[str, int] | None) -> tuple[str, list[Any]]:
        """The newest entries behind the cursor, at most one more than the page has."""
        place, params, behind = KINDS.index(self.kind), [*self.params], ""
        if cursor:
            at, number = cursor
            other_place = number % len(KINDS)
            behind = f" AND {self.at} {'<=' if place >= other_place else '<'} ?"
            params.append(at)
            if place == other_place:
                behind += f" AND ({self.at} < ? OR {self.id} < ?)"
                params += [at, number // len(KINDS)]
        columns = ", ".join(f"{self.others.get(name, 'NULL')} AS {name}_" for name in COLUMNS)
        sql = (
            f"SELECT {self.id} * {len(KINDS)} + {place} AS number, {self.at} AS at_,"
            f" {self.user} AS user_, '{self.record[0]}' AS resource_, {self.record[1]} AS record_,"
            f" {columns} FROM {self.source}{behind}"
            f" ORDER BY {self.at} DESC, {self.id} DESC LIMIT ?"
        )
        return sql, [*params, query.limit + 1]


class EntrySchema(RecordSchema):
    """An entry of a timeline; fields that its kind does not have are null or empty."""

    kind = fields.Choice(*KINDS, dump_only=True)
    id = fields.Id(dump_only=True, about="Of the note, the task, the change, and so on.")
    at = fields.DateTime(dump_only=True)
    user_id = fields.Id(dump_only=True, allow_none=True, about="Who did it; of a task, whose.")
    resource = fields.Choice(*NOUNS.values(), "tasks", dump_only=True)
    record_id = fields.Id(dump_only=True, about="The record of `resource` that the entry is of.")
    title = fields.Text(255, dump_only=True, allow_none=True)
    text = fields.LongText(dump_only=True, allow_none=True)
    type = fields.Text(64, dump_only=True, allow_none=True)
    status = fields.Text(
        64, dump_only=True, allow_none=True, about="Of a note with former texts `edited`."
    )
    duration_seconds = fields.Integer(dump_only=True, allow_none=True, about="Of a call.")
    before = fields.Extra(dump_only=True, about="The fields as they were.")
    after = fields.Extra(dump_only=True, about="The same fields, as they became.")


class TimelineFilter(queries.Filter):
    kind = parameters.Option(fields.Choice(*KINDS), "Only of these kinds.", repeated=True)


TIMELINE_FILTER = TimelineFilter(only=("kind", "limit", "cursor"))
TASK = {name: name for name in ("title", "type", "status")}
TASK |= {"text": "coalesce(result, description)"}
TASK |= {"duration_seconds": "CAST(duration_seconds AS TEXT)"}  # one type for all arms
NOTE = {"text": "text", "status": "CASE WHEN former_texts IS NOT NULL THEN 'edited' END"}
LEAD = {"title": "name", "text": "comment", "type": "source", "status": "status", "after": "extra"}
FILE = {"title": "name", "type": "content_type"}
PAPER = {
    "title": "number",
    "type": "kind",
    "status": "CASE WHEN voided_at IS NOT NULL THEN 'void' END",
}
TASK_AT = "coalesce(completed_at, created_at)"  # must match the indexes of tasks by time


def of_record(view: RecordView, id: int | str, query: Query) -> pagination.Page:
    """A page of the timeline of a live record. Raises NotFound and InvalidCursor."""
    noun, record_id = view.table, require_live(view.table, id)
    query.list_key, query.sorts_numbers = ("timeline", noun, record_id), False
    cursor = pagination.read_cursor(query) if query.cursor else None
    kinds = query.options.get("kind", [])
    selects: list[str] = []
    params: list[Any] = []
    for arm in _arms(noun, record_id):
        if (kinds and arm.kind not in kinds) or (arm.scope and not rights.can_read(arm.scope)):
            continue
        sql, arm_params = arm.select(query, cursor)
        selects.append(f"SELECT * FROM ({sql}) AS arm_{len(selects)}")
        params += arm_params
    if not selects:
        return pagination.Page([])
    entries = BoundedRows(query.limit + 1, pagination.MAX_PAGE_BYTES)
    entries.read(
        f"SELECT * FROM ({' UNION ALL '.join(selects)}) AS entries"
        f" ORDER BY at_ DESC, number % {len(KINDS)}, number DESC LIMIT ?",
        [*params, query.limit + 1],
    )
    shown = entries.rows[: query.limit]
    more = entries.is_cut or len(entries.rows) > query.limit
    next_cursor = pagination.build_cursor(query, shown[-1][1], shown[-1][0]) if more else None
    return pagination.Page([_entry(view, values) for values in shown], next_cursor)


def _entry(view: RecordView, values: tuple[Any, ...]) -> dict[str, Any]:
    number, at, user_id, resource, record_id, *others = values
    kind = KINDS[number % len(KINDS)]
    entry = {
        "kind": kind,
        "id": str(number // len(KINDS)),
        "at": at,
        "user_id": None if user_id is None else str(user_id),
        "resource": resource,
        "record_id": str(record_id),
        **dict(zip(COLUMNS, others, strict=True)),
    }
    if kind == "task" and entry["duration_seconds"]:
        entry["duration_seconds"] = int(entry["duration_seconds"])
    for side in ("before", "after"):
        if (stored := entry[side]) is None:
            entry[side] = {}
        else:
            shown = {"stage": stored} if kind == "stage" else orjson.loads(stored)
            entry[side] = view.show(shown) if kind == "change" else shown
    return entry


def _arms(noun: str, id: int) -> list[Arm]:
    """The arms of a record, and of the leads that a client or a deal came from."""
    resource = f"{noun}s"
    key = "(SELECT name FROM api_key WHERE api_key.id = audit_entry.key_id)"
    arms = [
        Arm(
            "change",
            f"audit_entry WHERE noun = ? AND record_id = ? AND NOT {IS_DELETION}",
            (noun, id),
            "at",
            (resource, "record_id"),
            others={"title": key, "type": "tool", "before": "before", "after": "after"},
        ),
        Arm(
            "import",
            "batch_record JOIN batch ON batch.id = batch_record.batch_id"
            " WHERE batch_record.noun = ? AND record_id = ? AND batch.kind = 'import'",
            (noun, id),
            "batch.created_at",
            (resource, "record_id"),
            id="batch.id",
            others={"status": "action"},
        ),
    ]
    if noun not in NOUNS:
        return [*arms, _files(noun, "= ?", (id,))]
    arms += [_notes(noun, "= ?", (id,)), _files(noun, "= ?", (id,))]
    arms.append(_tasks(f"{noun}_id = ?", (id,)))
    if noun == "lead":
        return arms
    if noun == "deal":
        others = {"before": "from_name", "after": "to_name"}
        source = "stage_move WHERE deal_id = ?"
        arms.append(Arm("stage", source, (id,), "moved_at", ("deals", "deal_id"), others=others))
        source = "paper WHERE deal_id = ?"
        paper = Arm("paper", source, (id,), "created_at", ("deals", "deal_id"), scope="papers")
        arms.append(paper._replace(others=PAPER))
    else:
        others = {"title": "title", "status": "status"}
        source = "deal WHERE client_id = ? AND deleted_at IS NULL"
        deal = Arm("deal", source, (id,), "created_at", ("deals", "id"), "assigned_to")
        arms.append(deal._replace(scope="deals", others=others))
    source = f"lead WHERE {noun}_id = ? AND deleted_at IS NULL"
    lead = Arm("lead", source, (id,), "created_at", ("leads", "id"), "created_by")
    arms.append(lead._replace(scope="leads", others=LEAD))
    if leads := tuple(ids_of(noun, id)):
        among = f"IN ({', '.join('?' * len(leads))})"
        arms += [_notes("lead", among, leads), _files("lead", among, leads)]
        arms.append(_tasks(f"lead_id {among}", leads))
    return arms


def _notes(noun: str, among: str, ids: tuple[int, ...]) -> Arm:
    source, resource = f"note WHERE noun = ? AND record_id {among}", f"{noun}s"
    record = (resource, "record_id")
    scope = resource if noun == "lead" else ""
    return Arm("note", source, (noun, *ids), "created_at", record, scope=scope, others=NOTE)


def _files(noun: str, among: str, ids: tuple[int, ...]) -> Arm:
    source = f"file WHERE noun = ? AND record_id {among} AND deleted_at IS NULL"
    resource = f"{noun}s"
    files = Arm("file", source, (noun, *ids), "created_at", (resource, "record_id"), others=FILE)
    return files._replace(scope=resource if noun == "lead" else "")


def _tasks(condition: str, ids: tuple[int, ...]) -> Arm:
    source = f"task WHERE {condition} AND deleted_at IS NULL"
    return Arm("task", source, ids, TASK_AT, ("tasks", "id"), "assigned_to", "id", "tasks", TASK)


def endpoints(views: dict[str, RecordView]) -> Blueprint:
    """The endpoints of `{"leads": LEAD, …}`: how the changes of each noun are shown."""
    blueprint = Blueprint("timeline", "What happened with a record, the newest first.")
    about = "List what happened with a {}, the newest first."
    page = page_of(EntrySchema.out("TimelineEntryOut"), deleted=False)
    shown = {plural: views[plural] for plural in (*NOUNS.values(), "tasks")}
    add_lists(blueprint, shown, about, of_record, query=TIMELINE_FILTER, answer=page)
    return blueprint
