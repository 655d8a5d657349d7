"""Personal data of a client or a lead: all of it as one JSON, and its erasure for good (D17).

To a client belong its contacts, the leads that became the client or have its phone or e-mail, its
deals, and the tasks of all of these. Erasing leaves deals with their amounts, stages, dates and
items, under a neutral name, tasks with their times, and invoices, acts and delivery notes as they
are: the law asks to keep them. Leads, contacts and files are deleted, and so is
what other tables say of the person (crm/records/erasure.py); where others' free texts mention the
person, the mention is replaced. Which records were erased is noted outside the tenant's data, so
that a restore of an older copy erases them again.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson
from marshmallow import fields as ma

from crm.access import rights
from crm.api.blueprints import Blueprint
from crm.api.envelopes import Open, Records, ok_answer
from crm.errors import Busy, Conflict, CRMError, Forbidden, NotFound
from crm.json import dumps, integer_id, loads
from crm.outbox import events
from crm.records import erasure, fields, tags
from crm.records.columns import declared
from crm.records.custom import values as custom_values
from crm.records.parameters import Query
from crm.records.queries import DRY_RUN
from crm.records.record import Record, SoftDeletedRecord
from crm.records.words import FORGET_SOURCES
from crm.resources.changes import CHANGE
from crm.resources.clients.record import CLIENT, Client, Contact
from crm.resources.deals.items import DealItem
from crm.resources.deals.record import DEAL, Deal
from crm.resources.files.record import FILE
from crm.resources.inbound.calls import CALL, list_naming
from crm.resources.leads.record import LEAD, Lead
from crm.resources.notes import NOTE, Note
from crm.resources.papers.record import PAPER, of_person
from crm.resources.tasks import TASK, Task
from crm.resources.users import User
from crm.storage.chunks import dry_run_block
from crm.storage.dialect import among, comparable
from crm.storage.file_errors import FILE_ERRORS
from crm.storage.heavy_work import heavy_work
from crm.storage.session import after_commit, current_session, execute, one_row, rows, transaction

VIEWS = {"client": CLIENT, "lead": LEAD, "deal": DEAL, "task": TASK}
RECORDS: dict[str, type[SoftDeletedRecord]] = {
    record.noun: record for record in (Client, Lead, Deal, Task)
}
RESOURCES = [f"{noun}s" for noun in RECORDS]
# What is in place of a person's names. A lead without a name is a row that says for 30 days that it
# was deleted.
NEUTRAL = {
    "client": {"name": "Erased client {id}"},
    "lead": {"name": "", "email": ""},
    "deal": {"title": "Deal {id}", "client_name": "Erased client {client_id}"},
    "task": {"title": "Task {id}"},
}
# The fields by which other tables may name a person.
NAMING = frozenset(
    ["name", "phone", "email", "website", "address", "tax_number", "external_id", "company"]
)
IDENTITIES = frozenset(["name", "phone", "email"])  # that free texts of others may mention
# Nullable values that are not of the person: references, numbers, times, choices.
IMPERSONAL = (fields.Number, fields.Integer, fields.Id, fields.Date, fields.DateTime, fields.Choice)
TAG_TABLES = [f"{noun}_tag" for noun, record in RECORDS.items() if record.is_tagged]
# Beside those of erasure.tables.
TABLES = (*RECORDS, *TAG_TABLES, *custom_values.TABLES, "contact", "deal_item")
# Records with free texts, and of which record each is a part: SQL of its noun and id.
MENTIONING: dict[type[Record], tuple[str, str]] = {
    **{record: (f"'{noun}'", "id") for noun, record in RECORDS.items()},
    Contact: ("'client'", "client_id"),
    DealItem: ("'deal'", "deal_id"),
    Note: ("noun", "record_id"),
}
MERGES = "SELECT details FROM batch WHERE kind = 'merge' AND noun = ? AND state = 'done'"

Erased = tuple[dict[str, int], list[tuple[str, int]]]

log = logging.getLogger("crm.personal_data")


def find_records(noun: str, id: int) -> dict[str, list[int]]:
    """The ids of a person's records by noun, deleted ones included.

    Raises NotFound, Forbidden `own_records_only`, and Conflict `lead_already_converted` for a lead
    that a client was made of.
    """
    rights.require_all_records()  # events have other records, and an erasure changes them
    record: Any = RECORDS[noun].find_any(id)
    if record is None or (noun == "lead" and not record.name):
        raise NotFound
    if noun == "lead" and record.client_id is not None:
        raise Conflict("this lead became a client: erase the client", "lead_already_converted")
    records: dict[str, list[int]] = {noun: [] for noun in RECORDS}
    records[noun] = _with_merged(noun, id)
    clients = dumps(records["client"]).decode()
    if noun == "client":
        records["deal"] = _ids(f"deal WHERE {among('client_id')}", clients)
        reachable = [
            f"client_id IS NULL AND {column} IN (SELECT {column} FROM client WHERE {among('id')}"
            f" UNION SELECT {column} FROM contact WHERE {among('client_id')})"
            for column in ("phone", comparable("email"))
        ]
        # One query of each condition: for their OR PostgreSQL reads all leads.
        leads = " UNION ".join(
            f"SELECT id FROM lead WHERE {condition}"
            for condition in (among("client_id"), *reachable)
        )
        records["lead"] = _ids(f"lead WHERE name <> '' AND id IN ({leads})", *[clients] * 5)
    of_tasks = " OR ".join(among(f"{name}_id") for name in ("client", "lead", "deal"))
    others = (dumps(records[name]).decode() for name in ("client", "lead", "deal"))
    records["task"] = _ids(f"task WHERE {of_tasks}", *others)
    return records


def _with_merged(noun: str, id: int) -> list[int]:
    """The id, and those of deleted records that were merged into it."""
    ids, merges = [id], [loads(details) for (details,) in rows(MERGES, (noun,))]
    for one in ids:  # it grows: each may have others merged into it
        ids += [
            merge["from"] for merge in merges if merge["into"] == one and merge["from"] not in ids
        ]
    return ids


def _ids(rest: str, *params: Any) -> list[int]:
    return [id for (id,) in rows(f"SELECT id FROM {rest} ORDER BY id", params)]


def collect(records: dict[str, list[int]]) -> dict[str, Any]:
    """All that is stored of these records, as one object."""
    condition, ids = of_person(records)
    papers = PAPER.every(f"{condition} ORDER BY id", *ids)
    shown: dict[str, Any] = {"papers": papers, "files": [], "notes": [], "changes": []}
    shown["events"] = []
    for noun, view in VIEWS.items():
        params = (noun, dumps(records[noun]).decode())
        shown[f"{noun}s"] = view.every(f"{among('id')} ORDER BY id", params[1])
        custom = f"SELECT CAST(id AS TEXT), custom FROM {noun} WHERE {among('id')}"
        stored = dict(rows(custom, params[1:]))
        for one in shown[f"{noun}s"]:  # values of fields that are hidden, too
            one["custom"] = loads(stored[one["id"]] or "{}")
        for name, of_records in (("notes", NOTE), ("files", FILE)):
            shown[name] += of_records.every(f"{erasure.OF_RECORDS} ORDER BY id", *params)
        for change in CHANGE.every(f"{erasure.OF_RECORDS} ORDER BY id", *params):
            sides = {side: view.show(change[side]) for side in ("before", "after")}
            shown["changes"].append(change | sides)
        of_events = f"SELECT sequence FROM event WHERE {erasure.OF_RECORDS} ORDER BY sequence"
        bodies = [events.load_event_body(sequence)[1] for (sequence,) in rows(of_events, params)]
        shown["events"] += map(orjson.Fragment, bodies)
    return shown


def erase(noun: str, id: int | str, dry_run: bool = False) -> Erased:
    """Erase a client or a lead for good. Only for owners.

    Returns how many of what it removes, and the (noun, id) of others that mention the person.
    dry_run: change nothing. One client.updated, of a live client. Raises NotFound, Forbidden
    `owners_only`, and Conflict `lead_already_converted`.
    """
    session = current_session()
    if session.user_id is not None and User.find(session.user_id).role != "owner":
        raise Forbidden("only an owner of the account may erase personal data", "owners_only")
    records = find_records(noun, integer_id(id))
    person = _person(records)
    with heavy_work():
        named = erasure.find(person)  # seconds in a large account, in which others write
    if not dry_run:
        # Before the change: an erasure whose process dies is finished by repeating it. A restore
        # finds deals and tasks by these.
        erased_records = [f"{noun} {id}" for noun in ("client", "lead") for id in records[noun]]
        session.source.installation.note_erased(_instance(), erased_records)
    with transaction(), dry_run_block(dry_run):
        if find_records(noun, integer_id(id)) != records or _person(records) != person:
            raise Busy("somebody has changed this person's data at this moment: try again")
        erased = _erase(person, named)
        if not dry_run:
            live = f"{among('id')} AND deleted_at IS NULL"
            for client in CLIENT.every(live, dumps(records["client"]).decode()):
                events.emit(events.CLIENT_UPDATED, int(client["id"]), {"client": client})
            after_commit(scrub)
    return erased


def _person(records: dict[str, list[int]]) -> erasure.Person:
    shown = collect(records)
    former = [[change["before"], change["after"]] for change in shown["changes"]]
    texts = [shown["clients"], shown["leads"], former]
    return erasure.Person(records, _texts(texts), _texts(texts, IDENTITIES))


def _erase(person: erasure.Person, named: erasure.NamingRows) -> Erased:
    records = person.ids
    clients, deals = (dumps(records[noun]).decode() for noun in ("client", "deal"))
    counts = {f"{noun}s": len(ids) for noun, ids in records.items()}
    of_client = f"FROM contact WHERE {among('client_id')}"
    counts["contacts"] = execute(f"DELETE {of_client}", (clients,)).rowcount
    execute(f"UPDATE deal_item SET comment = NULL WHERE {among('deal_id')}", (deals,))
    for noun, ids in records.items():
        for record in filter(None, map(RECORDS[noun].find_any, ids)):
            _strip(record)
        custom_values.forget(f"{noun}s", dumps(ids).decode())
    execute(FORGET_SOURCES)
    erased, mentions = erasure.erase_everywhere(person, named)
    mentions = sorted(set(mentions))
    return counts | erased | {"mentions": len(mentions)}, mentions


def _mentions(record: type[Record]) -> erasure.Texts:
    """The free texts of these records, in which a person's mentions are replaced."""
    # The quantity tells an item of a deal, whose name is a free text.
    free = (*erasure.FREE_TEXTS, *(("name", "quantity") if record is DealItem else ()))
    names = [name for name in record._meta.fields if name in free]

    def redact(person: erasure.Person, key: tuple[Any, ...], texts: Sequence[Any]) -> Any:
        id, *owner = key
        mentioning: Any = record.find_any(id)
        redacted = person.redact(dict(zip(names, texts, strict=True)))
        before = Record.save_changes(mentioning, redacted)
        if not before:
            return None
        if "custom" in before:
            plural = f"{mentioning.noun}s"
            custom_values.index(plural, mentioning.id, before["custom"], redacted["custom"])
        if getattr(mentioning, "search_text", None) is not None:
            mentioning.update_search_text()
        return tuple(owner)

    return erasure.Texts(
        "mentions",
        record._meta.table_name,
        ("id", *MENTIONING[record]),
        tuple(names),
        erasure.has_mention,
        redact,
    )


def _strip(record: SoftDeletedRecord) -> None:
    """Clear all texts of a record, without an audit entry; delete a lead."""
    cleared = {
        name: None
        for name, column in declared(type(record)).items()
        if name in record._meta.fields
        and record._meta.fields[name].null
        and not isinstance(column.wire, IMPERSONAL)
    }
    names = {name: text.format(**record.__data__) for name, text in NEUTRAL[record.noun].items()}
    Record.save_changes(record, cleared | names)
    if record.is_tagged:
        tags.index(record.noun, record.id, None)
    if record.deleted_at is None and record.noun == "lead":
        record.remove()
    elif record.deleted_at is None:
        record.update_search_text()


def _texts(shown: Any, naming: frozenset[str] = NAMING) -> Iterator[str]:
    """The values of these fields, by which other tables may name the person, former ones too."""
    for name, value in shown.items() if isinstance(shown, dict) else enumerate(shown):
        if isinstance(value, (dict, list)):
            yield from _texts(value, naming)
        elif name in naming and value:
            yield value


def replay() -> None:
    """Erase again, in a restored copy, what was erased since it was made; inside a transaction."""
    records: dict[str, list[int]] = {noun: [] for noun in RECORDS}
    for record in sorted(current_session().source.installation.erased(_instance())):
        noun, id = record.split()
        with suppress(NotFound, Conflict):
            for name, ids in find_records(noun, int(id)).items():
                records[name] += [id for id in ids if id not in records[name]]
    if any(records.values()):
        person = _person(records)
        _erase(person, erasure.find(person))
        after_commit(scrub)


def scrub() -> None:
    """Remove what was deleted from the bytes of the tenant's files; a failure is logged."""
    session = current_session()
    try:
        session.source.scrub((*TABLES, *erasure.tables))
        session.source.contents.erase_unused()
    except (CRMError, OSError, *FILE_ERRORS) as error:
        log.warning(
            "%s: free space of its files still has erased data, erase it again: %s",
            session.label,
            error,
        )


for _record in MENTIONING:
    erasure.register_texts(_mentions(_record))


def _instance() -> str:
    """A hash that a tenant shares with its copies and with no other tenant."""
    identity = one_row("SELECT instance_id, created_at FROM tenant")
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:32]


PERSONAL_DATA = Open.from_dict(
    {
        **{f"{view.noun}s": Records(view.schema) for view in (*VIEWS.values(), NOTE, FILE, PAPER)},
        "changes": Records(CHANGE.schema),
        "inbound_calls": Records(CALL.schema),
        "events": ma.List(ma.Dict(), required=True),
    },
    name="PersonalDataOut",
)()
ERASED = ok_answer(
    "ErasedOut",
    erased=ma.Dict(keys=ma.String(), values=ma.Integer()),
    mentions=ma.List(
        ma.Dict(keys=ma.String(), values=ma.String()),
        metadata={"description": "Records of others whose free texts mention the person."},
    ),
)


blueprint = Blueprint("personal_data", "What is stored of a person, and its erasure.")


@blueprint.operation(
    "GET",
    "/clients/<id>/personal-data",
    needs=[*(f"{resource}:read" for resource in RESOURCES), "papers:read"],
    answer=PERSONAL_DATA,
)
def get_personal_data(id: str) -> dict[str, Any]:
    """Get all that is stored of a client: records, papers, files, events, inbound calls."""
    records = find_records("client", Client.find(id).id)
    return {**collect(records), "inbound_calls": list_naming(_person(records))}


def _add_erasure(noun: str) -> None:
    @blueprint.operation(
        "POST",
        f"/{noun}s/<id>/erase",
        name=f"erase_{noun}",
        about=f"Erase the personal data of a {noun} for good, without undo: owners only. Invoices,"
        " acts and delivery notes stay, as the law asks (`kept_papers`).",
        needs=[f"{resource}:write" for resource in RESOURCES],
        query=DRY_RUN,
        answer=ERASED,
        conflicts=True,
    )
    def erase_record(id: str, query: Query) -> dict[str, Any]:
        counts, mentions = erase(noun, id, query.dry_run)
        listed = [{"resource": f"{noun}s", "id": str(id)} for noun, id in mentions]
        return {"status": "ok", "erased": counts, "mentions": listed}


_add_erasure("client")
_add_erasure("lead")
