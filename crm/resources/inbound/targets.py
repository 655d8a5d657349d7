"""What becomes of a body by a hook's mapping: a lead, a client with a deal, a note, a call, or the
payment of an invoice.

The values are read as the cells of a foreign file are (spreadsheets/foreign), and records are made
by the verbs that imports call. Fields that begin with `client.` describe the person: of a deal the
client, found by e-mail, else by phone, or made; of a note or a call the client or the lead that has
it. A call is a task of the type call that is done. A payment names the number of its
invoice, also in a text such as banks have.
"""

import re
from contextlib import suppress
from typing import Any, NamedTuple

from crm.errors import Fault, FaultCollector, Invalid, NotFound
from crm.json import dumps
from crm.records import fields
from crm.records.custom.fields import PREFIX as OWN
from crm.resources import notes
from crm.resources.clients import record as clients
from crm.resources.clients.csv_columns import CLIENTS
from crm.resources.deals.csv_columns import DEALS
from crm.resources.leads.csv_columns import LEADS
from crm.resources.leads.record import Lead, join_extra
from crm.resources.papers import record as papers
from crm.resources.papers.record import Paper
from crm.resources.tasks import TASKS
from crm.spreadsheets.cells import Spelling
from crm.spreadsheets.csv_columns import BadCell, plain_column
from crm.spreadsheets.csv_format import Sheet
from crm.spreadsheets.foreign.aliases import NEVER_GUESSED, fields_of
from crm.spreadsheets.foreign.mapping import EXTRA
from crm.spreadsheets.importer import RecordImporter
from crm.spreadsheets.options import ImportOptions
from crm.spreadsheets.reader import ParsedFile, read_mapped
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import ImportableResource
from crm.storage.dialect import equals

PERSON = "client."
EACH = "*"  # in a path: each element of a list
MAX_ROWS = 1000  # items of a deal
MAX_ROWS_CHARACTERS = 4_000_000  # together, each with what is of the deal itself
RESOURCES: dict[str, ImportableResource] = {"lead": LEADS, "deal": DEALS, "call": TASKS}
TARGETS = ("lead", "deal", "note", "call", "payment")
SCOPES = {  # what a key needs that decides what becomes of bodies
    "lead": ("leads:write",),
    "deal": ("deals:write", "clients:write"),
    "note": ("clients:write", "leads:write"),
    "call": ("tasks:write",),
    "payment": ("papers:write",),
}
NOTE_FIELD = "text"
PAYMENT = {name: plain_column(Paper, name) for name in ("number", "paid_at", "paid_amount")}
NUMBER = re.compile(r"[^\s,;:()№#]*\d+/\d{4}(?!\d)")  # of an invoice, in a text
WITH_FILES = ("lead", "deal", "call")
WITHOUT_EXTRA = ("note", "payment")
CALL_VALUES = {"type": "call", "status": "done"}


class Rules(NamedTuple):
    """How a hook reads bodies: its target, {path: field}, {field: text where a body has none}."""

    target: str
    mapping: dict[str, str]
    defaults: dict[str, str]
    updates: bool = False  # whether a body about a known record changes it


class Reading(NamedTuple):
    """A body as it is read: the rows of the record and of the person, the text of a note, or the
    values of a payment."""

    rules: Rules
    record: ParsedFile | None
    person: ParsedFile | None
    note: str
    payment: dict[str, Any] | None = None


def list_fields(target: str) -> list[str]:
    """The fields that values may be mapped to, besides `extra.<name>`."""
    if target == "payment":
        return [*PAYMENT]
    own = [NOTE_FIELD] if target == "note" else _names(RESOURCES[target])
    person = [] if target == "lead" else [f"{PERSON}{name}" for name in _names(CLIENTS)]
    return [name for name in own if not (target == "call" and name in CALL_VALUES)] + person


def check(rules: Rules) -> None:
    """Raise Invalid for fields that the target does not have."""
    known, faults = set(list_fields(rules.target)), []
    for where, name in (
        *((f"/mapping/{path}", name) for path, name in rules.mapping.items()),
        *((f"/defaults/{name}", name) for name in rules.defaults),
    ):
        is_extra = rules.target not in WITHOUT_EXTRA and name.removeprefix(PERSON).startswith(EXTRA)
        if name not in known and not (is_extra and not name.endswith(".")):
            detail = f"a {rules.target} has no field {name!r} that a value may be"
            faults.append(Fault(where, "unknown_field", detail))
    if faults:
        raise Invalid(faults)


def paths_of(rules: Rules) -> set[str]:
    """The paths of the values of a body that a hook reads."""
    return {*rules.mapping, *(place for path in rules.mapping for place in _numbered(path))}


def read(rules: Rules, values: dict[str, str] | None, external_id: str | None) -> Reading:
    """Read the values of a body at paths_of(); outside transactions. Raises Invalid."""
    if values is None:
        raise Invalid(Fault("", "unreadable", "the body is neither JSON nor a form"))
    if rules.target == "payment":
        return Reading(rules, None, None, "", _read_payment(rules, values))
    added = {} if external_id is None else {"external_id": external_id}
    if rules.target == "note":
        note = _cell(rules, values, NOTE_FIELD)
        if not note:
            raise Invalid.field(NOTE_FIELD, "required", "the note has no text")
        record = None
    else:
        note = ""
        if rules.target == "call":
            phone, at = (_cell(rules, values, name) for name in (f"{PERSON}phone", "completed_at"))
            added |= {**CALL_VALUES, "title": _cell(rules, values, "title") or phone}
            added |= {"created_at": at} if at else {}
        record = _read_rows(RESOURCES[rules.target], rules, values, added)
    of_person = (name for name in _mapped(rules) if name.startswith(PERSON))
    has_person = any(_cell(rules, values, name) for name in of_person)
    person = _read_rows(CLIENTS, rules, values, {}, PERSON) if has_person else None
    return Reading(rules, record, person, note)


def write(reading: Reading, record_id: int | None, external_id: str | None) -> tuple[str, int]:
    """Make or change the record: the plural of its resource, and its id; inside a transaction.

    record_id: the one that the same call has made before. Raises Invalid, Conflict and NotFound.
    """
    target, file = reading.rules.target, reading.record
    if reading.payment is not None:
        return "papers", _pay(reading.payment, reading.rules.updates)
    if file is None:
        if not (person := _find_person(reading)):
            detail = "no client and no open lead has this phone or e-mail"
            raise Invalid.field(f"{PERSON}phone", "not_found", detail)
        return "notes", record_id or notes.create(*person, {"text": reading.note})
    resource, values = file.resource, dict[str, Any]()
    if record_id is not None and resource.record.first("id = ?", record_id):
        values["id"] = record_id
    known = resource.record.first("external_id = ?", external_id)
    if known and not reading.rules.updates:
        return resource.plural, known.id
    if person := _find_person(reading):
        values[f"{person[0]}_id"] = person[1]
    elif target == "deal" and reading.person is not None:
        values["client_id"] = _import(reading.person, {})
    return resource.plural, _import(file, values)


def _read_payment(rules: Rules, values: dict[str, str]) -> dict[str, Any]:
    """The number of an invoice and, if they are there, the day and the amount; raises Invalid."""
    read, faults = dict[str, Any](), FaultCollector()
    for name, column in PAYMENT.items():
        (read[name],) = column.read_cells([_cell(rules, values, name)], Spelling(False, "day", "."))
        if isinstance(bad := read[name], BadCell):
            faults.add(name, bad.code, bad.detail)
    if not read["number"]:
        faults.add("number", "required", "the payment names no invoice")
    faults.raise_any()
    return {name: value for name, value in read.items() if value is not None}


def _pay(payment: dict[str, Any], updates: bool) -> int:
    """Note the payment of an invoice and return its id; one that is paid changes if `updates`."""
    number = payment["number"]
    for one in (number, *NUMBER.findall(number)):
        with suppress(NotFound):
            paper = papers.find_by_number(one)
            break
    else:
        raise Invalid.field("number", "not_found", "no invoice that is not void has this number")
    if paper.paid_at is None or updates:
        sent = {name: payment[name] for name in payment if name != "number"}
        papers.update(paper.id, {"paid_amount": paper.amount, **sent})
    return paper.id


def _mapped(rules: Rules) -> list[str]:
    return list(dict.fromkeys([*rules.mapping.values(), *rules.defaults]))


def _names(resource: ImportableResource) -> list[str]:
    return [name for name in fields_of(resource) if name not in (*NEVER_GUESSED, "extra")]


def _read_rows(
    resource: ImportableResource,
    rules: Rules,
    values: dict[str, str],
    added: dict[str, str],
    prefix: str = "",
) -> ParsedFile:
    """The rows of a record, of which one with items has several; `added` are further cells."""
    names = {
        name.removeprefix(prefix): name
        for name in _mapped(rules)
        if name.startswith(PERSON) == bool(prefix)
    }
    known, unfit = fields_of(resource), dict[str, str]()
    if resource is LEADS:
        gone = [own for own in names if own.startswith(OWN) and own not in known]
        unfit = {own: _cell(rules, values, names.pop(own)) for own in gone}
    part = f"{resource.part}_" if resource.part else EACH
    each = [path for path, name in rules.mapping.items() if name.startswith(prefix + part)]
    rows, characters = [], 0
    own_cells = {own: _cell(rules, values, name) for own, name in names.items()}
    count = max([1, *(len(_places(path, values)) for path in each)])
    if count > MAX_ROWS:
        raise Invalid.field(f"{prefix}{part}name", "too_many", f"at most {MAX_ROWS} of one record")
    for number in range(count):
        cells = {
            own: _cell(rules, values, name, number) if own.startswith(part) else own_cells[own]
            for own, name in names.items()
        } | added
        characters += sum(map(len, cells.values()))
        if characters > MAX_ROWS_CHARACTERS:
            detail = "the items, each with what is of the record itself, are too long together"
            raise Invalid(Fault("", "too_long", detail))
        rows.append((number + 1, tuple(cells.values())))
    mapping: dict[str, str | None] = {name: name for name in cells}
    options = ImportOptions(mapping, date_order="day", decimal_mark="point")
    file = read_mapped(Sheet(list(cells), rows, [], "utf-8", ","), resource, options)
    if resource is LEADS and file.rows:
        _keep_unfit(file, unfit)
    if file.faults:
        faults = [fault for of_row in file.faults.values() for fault in of_row]
        raise Invalid([Fault(f"/{prefix}{f.column or ''}", f.code, f.detail) for f in faults])
    if len(file.entries) != 1:
        raise Invalid(Fault("", "no_record", "the values are not those of one record"))
    return file


def _keep_unfit(file: ParsedFile, unfit: dict[str, str]) -> None:
    """Keep what does not fit the tenant's own fields in `extra.custom`: it must not cost a lead."""
    cells, references = dict(zip(file.sheet.columns, file.rows[0][1], strict=True)), References()
    faults = file.faults.pop(0, [])
    unfit |= {name: cells[name] for name, *_ in faults if name and name.startswith(OWN)}
    if others := [fault for fault in faults if fault.column not in unfit]:
        file.faults[0] = others
    for column in file.resource.custom_columns:
        if column.shows and (text := file.column_values(column.name)[0]):
            try:
                file.resource.resolve_references({column.name: text}, None, None, references)
            except Invalid:
                unfit[column.name], file.values[column.name][0] = text, None
    if kept := {name.removeprefix(OWN): text for name, text in unfit.items() if text}:
        patch = {"custom": kept}
        file.values["extra"] = [join_extra(file.column_values("extra")[0], dumps(patch).decode())]


def _places(path: str, values: dict[str, str]) -> list[str]:
    """The paths that one with `*` stands for, in the order of the list."""
    if EACH not in path or path in values:
        return [path]
    paths = _numbered(path)
    return paths[: max((n for n, known in enumerate(paths, 1) if known in values), default=0)]


def _numbered(path: str) -> list[str]:
    """A path with each number for its `*`, if it has any."""
    return [path.replace(EACH, str(n)) for n in range(MAX_ROWS + 1)] if EACH in path else []


def _cell(rules: Rules, values: dict[str, str], name: str, number: int | None = None) -> str:
    """The text of a field: that of its paths, joined in their order, else its default.

    number: only the element of this number of lists.
    """
    texts: dict[str, str] = {}
    for path, field in rules.mapping.items():
        if field == name:
            is_one = number is not None and path not in values
            paths = [path.replace(EACH, str(number))] if is_one else _places(path, values)
            stripped = filter(None, (values.get(one, "").strip() for one in paths))
            texts |= {text.casefold(): text for text in stripped}
    return _separator(rules.target, name).join(texts.values()) or rules.defaults.get(name, "")


def _separator(target: str, name: str) -> str:
    resource = CLIENTS if name.startswith(PERSON) else RESOURCES.get(target, CLIENTS)
    column = fields_of(resource).get(name.removeprefix(PERSON))
    if name == NOTE_FIELD or column and isinstance(column.field, fields.LongText):
        return "\n"
    is_list = column and isinstance(column.field, (fields.Phone, fields.Email, fields.Tags))
    return ", " if is_list else " "


def _find_person(reading: Reading) -> tuple[str, int] | None:
    """The noun and the id of the client, else of the newest open lead, that the body is about."""
    if reading.person is None:
        return None
    values = reading.person.entries[0].values
    email, phone = values.get("email"), values.get("phone")
    if client := clients.match(email, phone):
        return "client", client.id
    if reading.rules.target != "deal":
        for name, value in (("email", email), ("phone", phone)):
            of_leads = f"{equals(name)} AND status <> 'converted' ORDER BY id DESC LIMIT 1"
            if value and (leads := Lead.every(of_leads, value)):
                return "lead", leads[0].id
    return None


def _import(file: ParsedFile, values: dict[str, Any]) -> int:
    """Make or change the record of a file by the verbs of its resource; gives its id."""
    (entry,) = file.entries
    entry.values |= values
    return RecordImporter(file).write_record(entry)[1]
