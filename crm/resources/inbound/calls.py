"""Calls of inbound hooks: what was sent, kept for 30 days, and what became of it.

A call is stored in the transaction that makes its record, so neither is without the other. One of
which no record comes stays with its reasons, and its hook counts it, until it is deleted or run
again by the hook's mapping of that day.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from crm.access import rights
from crm.alerts import alerts
from crm.alerts.kinds import HOOK_FAILED
from crm.errors import Conflict, Fault, Invalid, NotFound, StorageQuota
from crm.json import dumps
from crm.records import columns, erasure, fields, parameters
from crm.records.nested import NestedList
from crm.records.record import Record
from crm.records.retention import delete_after
from crm.records.schemas import RecordSchema, schema_of
from crm.records.views import RecordView, declare_views
from crm.resources.deals.record import DEAL
from crm.resources.files import record as files
from crm.resources.inbound import hooks, targets
from crm.resources.inbound.body_values import iterate_values, read_body
from crm.resources.leads.record import LEAD
from crm.resources.notes import NOTE
from crm.resources.papers.record import PAPER
from crm.resources.tasks import TASK
from crm.storage.chunks import dry_run_block
from crm.storage.heavy_work import heavy_work
from crm.storage.reading import iterate_rows, snapshot
from crm.storage.session import execute, one_row, row, savepoint, transaction

DONE, FAILED = STATES = ("done", "failed")
VIEWS = {"leads": LEAD, "deals": DEAL, "tasks": TASK, "notes": NOTE, "papers": PAPER}
Files = Sequence[dict[str, Any]]  # as files.store() gives them
MAX_BODY_BYTES = 256 << 10
LARGE_BODY_CHARACTERS = 32 << 10  # reading a larger one, and what it becomes, is heavy work
MAX_FAILED_CALLS, MAX_FAILED_CHARACTERS = 5000, 5_000_000  # of a hook, with the reasons
NO_ROOM = "no record comes of this call, and its hook stores no more calls of that kind"
MAX_SENDER_ID_CHARACTERS = 255  # stored; one that is too long for an external_id is refused


class ReasonSchema(RecordSchema):
    """Why no record came of a call."""

    field = fields.Text(512, dump_only=True, about="Empty of the body as a whole.")
    code = fields.Text(64, dump_only=True)
    detail = fields.Text(1024, dump_only=True)


class InboundCall(Record):
    """One call, in stored form; `reasons` are a JSON list of {field, code, detail}."""

    noun = "inbound_call"

    hook_id = columns.Id(dump_only=True)
    state = columns.Choice(*STATES, dump_only=True, filtered=parameters.Equals())
    sender_id = columns.Text(
        255, dump_only=True, allow_none=True, about="What `id_path` of the hook names."
    )
    resource = columns.Text(
        16, dump_only=True, allow_none=True, about="Of the record: `leads`, `deals` …"
    )
    record_id = columns.Id(dump_only=True, allow_none=True)
    reasons = columns.Text(
        wire=NestedList(ReasonSchema.out("InboundCallReason"), dump_only=True),
        null=True,
    )
    body = columns.Text(MAX_BODY_BYTES, dump_only=True, about="As it was sent.")


class Attempt:
    """A body and how a hook reads it; made outside of transactions."""

    def __init__(self, hook_id: int, id_path: str | None, rules: targets.Rules, body: str):
        values = read_body(body, targets.paths_of(rules) | {id_path or ""})
        sender_id = (values or {}).get(id_path, "") if id_path else ""
        self.hook_id = hook_id
        self.sender_id = sender_id[:MAX_SENDER_ID_CHARACTERS] or None
        self.external_id = f"in{hook_id}-{self.sender_id}" if self.sender_id else None
        self.reading: targets.Reading | Invalid
        try:
            self.reading = targets.read(rules, values, self.external_id)
        except Invalid as invalid:
            self.reading = invalid

    def run(self, known_id: int | None = None, stored: Files = ()) -> dict[str, Any]:
        """Make the record, inside a transaction; returns columns of the call.

        known_id: the record that this call has made before. stored: the files that came with it.
        """
        outcome: dict[str, Any] = {"sender_id": self.sender_id, "state": DONE, "reasons": None}
        try:
            if isinstance(self.reading, Invalid):
                raise self.reading
            with savepoint():
                resource, id = targets.write(
                    self.reading, known_id or self._find_note(), self.external_id
                )
                for file in stored:
                    files.attach_once(resource.removesuffix("s"), id, file)
        except (Invalid, Conflict, NotFound) as error:
            faults = error.faults or [Fault("", error.code, error.detail)]
            reasons = [
                {"field": fault.where.strip("/"), "code": fault.code, "detail": fault.detail}
                for fault in faults
            ]
            return outcome | {"state": FAILED, "reasons": dumps(reasons).decode()}
        return outcome | {"resource": resource, "record_id": id}

    def _find_note(self) -> int | None:
        """The note of an earlier call with the same id: a note has no external_id."""
        known = self.sender_id and row(
            "SELECT record_id FROM inbound_call"
            " WHERE hook_id = ? AND sender_id = ? AND resource = 'notes' LIMIT 1",
            (self.hook_id, self.sender_id),
        )
        return known[0] if known else None


def receive(hook: hooks.InboundHook, body: str, stored: Files = ()) -> None:
    """Store what was sent together with the record that it becomes, in one transaction.

    stored: what files.store() gave of the files that came with it, which become the record's.

    The hook's user is alerted of a call without a record, and not of the next ones until that is
    seen. Raises StorageQuota for a call without a record if the hook has no room for more of them.
    """
    with _slot(body):
        attempt = Attempt(hook.id, hook.id_path, hook.rules, body)
        with transaction():
            outcome = attempt.run(stored=stored)
            is_failed = outcome["state"] == FAILED
            is_stored = not is_failed or has_room(hook.id)
            if is_stored:
                InboundCall.add({"hook_id": hook.id, "body": body, **outcome})
            if is_failed and not alerts.exists(HOOK_FAILED, hook.id, unseen=True):
                alerts.add(HOOK_FAILED, hook.noun, hook.id, to=hook.user_id)
    if not is_stored:
        raise StorageQuota(NO_ROOM, "too_many_failed_calls")


def replay(id: int | str) -> InboundCall:
    """Run a call again by the hook's rules of today; a record that it has made is changed.

    Raises NotFound and Forbidden.
    """
    call = InboundCall.find(id)
    hook = hooks.InboundHook.find(call.hook_id)
    rights.require(targets.SCOPES[hook.target])
    with _slot(call.body):
        attempt = Attempt(hook.id, hook.id_path, hook.rules._replace(updates=True), call.body)
        with transaction():
            call = InboundCall.find(id)
            call.save_changes(attempt.run(call.record_id))
            return call


def preview(hook_id: int | str, data: dict[str, Any], body: str) -> dict[str, Any]:
    """What would become of a body by changed rules: a call as it is shown, and `record`.

    data: the changed fields of the hook. Changes nothing. Raises as hooks.update().
    """
    shown: dict[str, Any] = {}
    with _slot(body), transaction(), dry_run_block(True):
        hook = hooks.update(hook_id, data)
        attempt = Attempt(hook.id, None, hook.rules, body)
        call = InboundCall.add({"hook_id": hook.id, "body": body, **attempt.run()})
        shown = CALL.one(call.id)
        view = VIEWS.get(shown["resource"])
        shown["record"] = view and view.one(shown["record_id"])
    return shown


def has_room(hook_id: int) -> bool:
    """Whether a hook may have more calls of which no record came."""
    calls, characters = one_row(
        "SELECT count(*), coalesce(sum(length(body) + length(reasons)), 0) FROM inbound_call"
        " WHERE hook_id = ? AND state = ?",
        (hook_id, FAILED),
    )
    return calls < MAX_FAILED_CALLS and characters < MAX_FAILED_CHARACTERS


def _slot(body: str) -> AbstractContextManager[None]:
    """The lock and the slot for heavy work, if the body is large."""
    return heavy_work() if len(body) > LARGE_BODY_CHARACTERS else nullcontext()


def count_failed() -> int:
    """How many calls of all hooks are there of which no record came."""
    return one_row("SELECT count(*) FROM inbound_call WHERE state = ?", (FAILED,))[0]


delete_after("inbound_call", "created_at")


def list_naming(person: erasure.Person) -> list[dict[str, Any]]:
    """The calls whose bodies name a person, as they are shown."""
    with heavy_work(), snapshot(), iterate_rows(CALLS.select) as rows:
        named = [id for id, body in rows if _is_named_in(person, (body,))]
    return [CALL.one(id) for id in named]


def _is_named_in(person: erasure.Person, texts: Any) -> bool:
    """Whether a body names a person; forms and JSON may write letters as escapes."""
    (body,) = texts
    texts = (text for _, text in iterate_values(body, max_path=0))
    return person.is_named_in("\n".join([*texts, body]))


# A call that names a person is deleted with it.
CALLS = erasure.Texts(
    "inbound_calls",
    "inbound_call",
    keys=("id",),
    columns=("body",),
    is_named=_is_named_in,
    erase=lambda person, id, texts: execute("DELETE FROM inbound_call WHERE id = ?", id).rowcount,
)
erasure.register_texts(CALLS, CALLS.table)


class ListedCallSchema(schema_of(InboundCall)):  # type: ignore[misc]  # made from the columns
    """A call without its body."""

    class Meta(RecordSchema.Meta):
        exclude = ("body",)


CALL: RecordView = declare_views(InboundCall)[0]
LISTED_CALL = RecordView(ListedCallSchema.out("ListedInboundCallOut"), "inbound_call", live=False)
