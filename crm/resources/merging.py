"""Merging two clients, or two leads, of one person into one (D6, D17).

One record stays. It takes over what refers to the other one: deals, leads, tasks, notes, files,
contacts, the audit trail, values of own fields. Papers name the client that they were made for. Of
each field it has the value that was chosen, else its own, else the other's; tags and `extra` are
those of both. The other one is deleted, and its id leads to that. All is one transaction and one
batch, whose undo puts back what still is as the merge left it.
"""

from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from marshmallow import fields as ma

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import ok_answer, page_of
from crm.errors import Conflict, Invalid
from crm.json import dumps, integer_id, loads
from crm.outbox import events
from crm.records import batches, fields, nested, pagination, parameters, queries
from crm.records.custom.fields import of as own_fields
from crm.records.custom.values import chosen, merged, require_references
from crm.records.nested import check_parts
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.record import Record, SoftDeletedRecord
from crm.records.schemas import RecordSchema
from crm.resources.batches import undo
from crm.resources.clients import record as clients
from crm.resources.clients.record import CLIENT, CLIENT_PATCH, Client
from crm.resources.custom_fields.values import refer
from crm.resources.deals.record import Deal
from crm.resources.duplicates import DUPLICATE
from crm.resources.leads.record import LEAD_PATCH, Lead, join_extra
from crm.resources.tasks import Task
from crm.resources.trash import readable_resources
from crm.resources.users import require_assignee
from crm.storage.chunks import dry_run_block
from crm.storage.dialect import among, comparable
from crm.storage.reading import iterate_rows
from crm.storage.session import execute, one_row, remembered_rows, rows, transaction

RECORDS: dict[str, type[SoftDeletedRecord]] = {"client": Client, "lead": Lead}
REFERRING: dict[str, tuple[type[SoftDeletedRecord], ...]] = {
    "client": (Deal, Lead, Task),
    "lead": (Deal, Task),
}
# What records of one person share: by field, the tables that have it.
OF_CONTACTS = "contact JOIN client ON client.id = contact.client_id"
SHARED: dict[str, dict[str, tuple[str, ...]]] = {
    "client": {
        "email": ("client", "contact"),
        "phone": ("client", "contact"),
        "tax_number": ("client",),
    },
    "lead": {"email": ("lead",), "phone": ("lead",)},
}
MAX_GROUP = 50
PARTS = ("note", "file", "audit_entry")
PATCHES = {"client": CLIENT_PATCH, "lead": LEAD_PATCH}
FIELDS = {
    noun: patch.fields.keys() - patch.echoes - {"contacts", "status"}
    for noun, patch in PATCHES.items()
}
Choices = dict[str, Any]  # by field: "into", "from", or {"value": what it shall be}


def merge(
    noun: str,
    into_id: int | str,
    from_id: int | str,
    choices: Choices | None = None,
    dry_run: bool = False,
) -> tuple[int | None, dict[str, int]]:
    """Merge a client or a lead into another: the batch's id, and how many of what move.

    choices: "into", "from" or {"value": …} by field. dry_run: change nothing. One client.updated;
    no event is of a lead that changed. Raises NotFound, Invalid, and Conflict
    `unlike_external_ids`, or `lead_already_converted` for a lead that has become a client.
    """
    record: Any = RECORDS[noun]
    with transaction(), dry_run_block(dry_run):
        into = record.find(into_id)
        if integer_id(from_id) == into.id:
            raise Invalid.field("from_id", "same_record", "is the record that stays")
        other = record.first("id = ?", integer_id(from_id), own=True)
        if other is None:
            raise Invalid.field("from_id", "unknown_id", f"there is no {noun} with this id")
        if not is_mergeable(noun, other.id):
            detail = "a lead that became a client stays: merge the other one into it"
            raise Conflict(detail, "lead_already_converted")
        values = _chosen_values(noun, into, other, choices or {})
        batch = batches.start("merge", noun, f"{other.id} → {into.id}")
        moved = _move(noun, other, into)
        contacts = _move_contacts(other, into, moved) if noun == "client" else {}
        with batches.recording(batch):
            other.remove(merged_into=str(into.id))
            before = into.save_changes(values)
            refer(noun, other.id, into.id)
        if noun == "client":
            _finish_client(into, before, contacts)
        details = {"into": into.id, "from": other.id, **moved}
        batch.save_changes({"details": dumps(details).decode()})
        batches.finish(batch)
    # After the transaction, in which a seller's session would read the records of all.
    counts = {f"{name}s": _count(name, ids) for name, ids in moved.items() if name != "primary"}
    counts = {"changes": counts.pop("audit_entrys"), **counts}
    return None if dry_run else batch.id, counts


def _count(table: str, ids: list[int]) -> int:
    """How many of these rows the actor may see."""
    return one_row(f"SELECT count(*) FROM {table} WHERE {among('id')}", (dumps(ids).decode(),))[0]


def is_mergeable(noun: str, id: int | str) -> bool:
    """Whether a record may be merged into another one."""
    return noun == "client" or Lead.find(id).status != "converted"


def _given_values(noun: str, into: Any, choices: Choices) -> dict[str, Any]:
    """The values that are of neither record, in stored form. Raises Invalid."""
    given: dict[str, Any] = {}
    own = {field.name: key for key, field in own_fields(f"{noun}s").items()}
    for name, choice in choices.items():
        if isinstance(choice, dict) and choice.keys() == {"value"}:
            given[name] = choice["value"]
        known = FIELDS[noun] - {"custom"} | own.keys()
        if name not in known or not (name in given or choice in ("into", "from")):
            detail = f'"into", "from" or {{"value": …}}, of {", ".join(sorted(known))}'
            raise Invalid.field(f"fields/{name}", "invalid_choice", f"must be {detail}")
    given["custom"] = {own[name]: given.pop(name) for name in [*given] if name in own}
    with Invalid.under("fields"):
        values = PATCHES[noun].parse(given)
        require_assignee(values, into)
        require_references(f"{noun}s", into.custom, values["custom"])
    return values


def _chosen_values(noun: str, into: Any, other: Any, choices: Choices) -> dict[str, Any]:
    given = _given_values(noun, into, choices)
    if "external_id" not in choices and len({into.external_id, other.external_id} - {None}) > 1:
        raise Conflict("both have an external_id: choose one in fields", "unlike_external_ids")
    values = {}
    for name in FIELDS[noun]:
        own, others = getattr(into, name), getattr(other, name)
        is_taken = choices.get(name) == "from" or (name not in choices and own is None)
        values[name] = others if is_taken else own
    values["custom"] = merged(chosen(into.custom, other.custom, choices), given.pop("custom"))
    if "tags" not in choices and into.tags and other.tags:
        tags = {tag.casefold(): tag for tag in [*loads(other.tags), *loads(into.tags)]}
        values["tags"] = dumps([*tags.values()]).decode()
    if "extra" not in choices:
        with Invalid.under("fields"):
            values["extra"] = join_extra(into.extra, other.extra)
    values |= given
    if noun == "lead" and "currency" not in choices and into.amount != values["amount"]:
        values["currency"] = other.currency  # an amount means nothing in another currency
    if noun == "lead" and not (values["phone"] or values["email"]):
        raise Invalid.field("fields/phone", "phone_or_email", "a lead needs a phone or an email")
    return values


def _move(noun: str, other: Any, into: Any) -> dict[str, list[int]]:
    """Let what refers to one record refer to another: {noun: ids}. Each of them is a change."""
    moved = {
        record.noun: _refer(noun, record, f"{noun}_id = ?", [other.id], into)
        for record in REFERRING[noun]
    }
    for table in PARTS:
        condition = "WHERE noun = ? AND record_id = ?"
        moved[table] = [
            id for (id,) in rows(f"SELECT id FROM {table} {condition}", (noun, other.id))
        ]
        _move_rows(table, "record_id", moved[table], into.id)
    return moved


def _refer(
    noun: str, record: type[SoftDeletedRecord], condition: str, params: list[Any], to: Any
) -> list[int]:
    """Let the records that meet a condition refer to this one; gives their ids."""
    ids = [id for (id,) in rows(f"SELECT id FROM {record.noun} WHERE {condition}", params)]
    values = {f"{noun}_id": to.id}
    if record is Deal and noun == "client":
        values["client_name"] = to.name
    for one in filter(None, map(record.find_any, ids)):
        if one.deleted_at is None:
            one.save_changes(values)
        else:  # it has no text to be found by
            Record.save_changes(one, values)
    return ids


def _move_rows(table: str, column: str, ids: list[int], to: int) -> None:
    execute(f"UPDATE {table} SET {column} = ? WHERE {among('id')}", (to, dumps(ids).decode()))


def _move_contacts(other: Client, into: Client, moved: dict[str, list[int]]) -> dict[str, Any]:
    """Move the contacts of a client: {"contacts": (before, after)} if there are any.

    Raises Invalid beyond the plan's number of contacts or the size of all.
    """
    own, others = into.list_contacts(), other.list_contacts()
    moved["contact"] = [contact.id for contact in others]
    if not others:
        return {}
    clients.require_contact_limit(len(own) + len(others))
    before = clients.contacts_text(into.id)
    if any(contact.is_primary for contact in own):
        moved["primary"] = [contact.id for contact in others if contact.is_primary]
        execute("UPDATE contact SET is_primary = 0 WHERE client_id = ?", (other.id,))
    _move_rows("contact", "client_id", moved["contact"], into.id)
    after = clients.contacts_text(into.id)
    check_parts("contacts", loads(before), loads(after))
    into.save_changes({}, {"contacts": (before, after)})
    return {"contacts": before}


def _finish_client(client: Client, before: dict[str, Any], contacts: dict[str, Any]) -> None:
    if "name" in before:
        clients.client_changes.copy_client_name(client)
    body = {"client": CLIENT.one(client.id)}
    events.emit(events.CLIENT_UPDATED, client.id, body, CLIENT.show(before | contacts))


def put_back(batch: batches.Batch) -> None:
    """Let what a merge moved refer again to the record that came back, at the end of its undo."""
    moved, noun = loads(batch.details or "{}"), batch.noun
    record: Any = RECORDS[noun]
    into, other = (record.first("id = ?", moved.get(side, 0)) for side in ("into", "from"))
    if into is None or other is None:
        return  # one of them was kept deleted, so the other keeps all
    for referring in REFERRING[noun]:
        ids = dumps(moved[referring.noun]).decode()
        _refer(noun, referring, f"{among('id')} AND {noun}_id = ?", [ids, into.id], other)
    for table in PARTS:
        _move_rows(table, "record_id", moved[table], other.id)
    if noun == "client" and moved["contact"]:
        before = clients.contacts_text(into.id)
        own = {contact.id for contact in into.list_contacts()}
        _move_rows("contact", "client_id", [id for id in moved["contact"] if id in own], other.id)
        primary = dumps(moved.get("primary", [])).decode()
        execute(f"UPDATE contact SET is_primary = 1 WHERE {among('id')}", (primary,))
        into.save_changes({}, {"contacts": (before, clients.contacts_text(into.id))})
        other.update_search_text()
        _finish_client(into, {}, {"contacts": before})


undo.after_merge = put_back


class MergeSchema(RecordSchema):
    """Which record is merged into that of the path."""

    from_id = fields.Id(required=True, allow_none=False, example="13", about="It is deleted.")
    dry_run = fields.Boolean(about="Only count what would move.")
    fields = fields.Extra(  # type: ignore[assignment]  # marshmallow's own is of instances
        example={"name": "from"},
        about='Of a field, whose value is kept: `"into"` or `"from"`, or another one as'
        ' `{"value": …}`. By default the own one, else the other\'s; tags and `extra` of both.',
    )


MERGE = MergeSchema.body("Merge")
MERGED = ok_answer(
    "MergedOut",
    batch_id=ma.String(allow_none=True),
    moved=ma.Dict(keys=ma.String(), values=ma.Integer()),
)


class DuplicateGroupSchema(RecordSchema):
    """Live records with one phone, e-mail or tax number, a client's contacts included."""

    field = fields.Choice("email", "phone", "tax_number", dump_only=True)
    value = fields.Text(255, dump_only=True)
    records = nested.NestedList(
        DUPLICATE, dump_only=True, about=f"At most {MAX_GROUP}, the oldest first."
    )


class DuplicatesFilter(queries.Filter):
    resource = parameters.Option(
        fields.Choice("clients", "leads"), "By default clients, to a key that may read them."
    )


blueprint = Blueprint("merging", "Two records of one person become one.")


# Which scope it needs, depends on the resource.
@blueprint.operation(
    "GET",
    "/duplicates",
    needs=(),
    query=DuplicatesFilter(only=("resource", "limit", "cursor")),
    kind="page",
    answer=page_of(DuplicateGroupSchema.out("DuplicateGroupOut"), deleted=False),
)
def list_duplicate_groups(query: Query) -> Page:
    """List groups of clients, or of leads, with the same phone, e-mail or tax number.

    Needs `clients:read` or `leads:read`.
    """
    default = "clients" if rights.can_read("clients") else "leads"
    (resource,) = readable_resources([query.options.get("resource", default)])
    noun = resource.removesuffix("s")
    query.list_key, query.sorts_numbers = ("duplicates", resource), False
    after = pagination.read_cursor(query)[0] if query.cursor else ""
    last_field, _, last_value = after.partition(" ")
    groups: list[dict[str, Any]] = []
    for field in SHARED[noun]:
        if field >= last_field and len(groups) <= query.limit:
            beyond = last_value if field == last_field else ""
            groups += _find_groups(noun, field, beyond, query.limit + 1 - len(groups))
    page = Page(groups[: query.limit])
    if len(groups) > query.limit:
        last = page.records[-1]
        page.next_cursor = pagination.build_cursor(query, f"{last['field']} {last['value']}", 0)
    return page


def _find_groups(noun: str, field: str, after: str, limit: int) -> list[dict[str, Any]]:
    """The first groups of records that share a value of a field, in order, beyond `after`.

    Values of several records are read from indexes alone: of all users' records, deleted ones too.
    """
    shared, same = [], []
    for table in SHARED[noun][field]:
        value = comparable(f"{table}.{field}")
        source, is_shared = table, "count(*) > 1"
        if table == "contact":
            source, is_shared = OF_CONTACTS, "min(client_id) < max(client_id)"
        shared.append(
            f"SELECT {value} FROM {table} WHERE {value} > ? GROUP BY {value} HAVING {is_shared}"
            f" ORDER BY {value} LIMIT ?"
        )
        same.append(
            f"SELECT {value} AS value, {noun}.id, {noun}.name FROM {source}"
            f" WHERE {among(value, 'TEXT')} AND {noun}.deleted_at IS NULL"
        )
    if len(same) > 1:
        value, of_contact = comparable(f"client.{field}"), comparable(f"contact.{field}")
        shared.append(
            f"SELECT {value} FROM client WHERE {value} > ? AND EXISTS"
            f" (SELECT 1 FROM contact WHERE {of_contact} = {value} AND client_id <> client.id)"
            f" ORDER BY {value} LIMIT ?"
        )
    sql_of_records = f"{' UNION '.join(same)} ORDER BY value, id"
    groups: list[dict[str, Any]] = []
    lists: dict[str, list[tuple[str]]] = {}
    while len(groups) < limit:
        for sql in shared:
            if sql not in lists or len(lists[sql]) == limit:
                lists[sql] = remembered_rows(sql, (after, limit), of_all=True)
        # A list that is cut may have further values beyond its end, before those of others.
        end = min((values[-1] for values in lists.values() if len(values) == limit), default=None)
        values = {
            value
            for (value,) in chain(*lists.values())
            if value > after and (end is None or value <= end[0])
        }
        if not values:
            break
        after = max(values)
        params = [dumps([*values]).decode()] * len(same)
        with iterate_rows(sql_of_records, params) as records_of_values:
            for value, records in groupby(records_of_values, itemgetter(0)):
                group = [
                    {"resource": noun, "id": str(id), "name": name}
                    for _, id, name in islice(records, MAX_GROUP)
                ]
                if len(group) > 1:
                    groups.append({"field": field, "value": value, "records": group})
    return groups[:limit]


def _merge_records(noun: str, id: str, data: dict[str, Any]) -> dict[str, Any]:
    choices = loads(data.get("fields") or "{}")
    batch_id, moved = merge(noun, id, data["from_id"], choices, bool(data.get("dry_run")))
    return {"status": "ok", "batch_id": batch_id and str(batch_id), "moved": moved}


for noun in RECORDS:
    blueprint.add(
        "POST",
        f"/{noun}s/<id>/merge",
        name=f"merge_{noun}s",
        about=f"Merge another {noun} into this one; `POST /batches/<id>/undo` takes it back.",
        function=partial(_merge_records, noun),
        needs=(f"{noun}s:write",),
        body=MERGE,
        answer=MERGED,
        conflicts=True,
    )
