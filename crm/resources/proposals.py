"""Proposals: changes of several records that a program asks a person to decide (spec: none; D16).

A proposal has the body of a bulk change and says why. A person accepts it in the workspace: then it
runs as a batch in the person's name, within the rights of the key that proposed it, and can be
undone. A key with the scope `agents:apply` may apply few records itself. Proposals are kept for 30
days.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from marshmallow import fields as ma

from crm.access import api_keys, rights
from crm.access.sessions import SELLER
from crm.api.blueprints import Blueprint, Endpoints
from crm.api.envelopes import ok_answer
from crm.errors import Conflict, Invalid
from crm.json import dumps, loads
from crm.records import columns, erasure, fields, parameters, queries
from crm.records.batches import Batch
from crm.records.queries import filter_of
from crm.records.record import Record
from crm.records.retention import delete_after
from crm.records.views import RecordView, declare_views
from crm.resources.bulk import work
from crm.resources.bulk.endpoints import BULK, FOUND, BulkChangeSchema
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.users import User
from crm.spreadsheets.resource import permitted_nouns, require_of_noun
from crm.storage import own_rows
from crm.storage.session import current_session, now, one_row, transaction

OPEN, APPLIED, DECLINED = "open", "applied", "declined"
MAX_OPEN = 100
MAX_APPLIED = 20  # records that a key may change itself


class Proposal(Record):
    """One proposal, in stored form."""

    noun = "proposal"

    resource = columns.Choice(
        *MAIN_RESOURCES, dump_only=True, example="leads", filtered=parameters.Equals()
    )
    state = columns.Choice(OPEN, APPLIED, DECLINED, dump_only=True, filtered=parameters.Equals())
    change = columns.Extra(
        wire=fields.Extra(
            dump_only=True, about="`ids` or `where`, `set` or `action`, as of a bulk change."
        ),
        null=False,
    )
    why = columns.LongText(dump_only=True, example="Nobody has answered these for a week.")
    count = columns.Integer(dump_only=True, about="Records that matched when it was proposed.")
    refused = columns.Integer(dump_only=True, about="Of these, as far as they were tried.")
    user_id = columns.Id(dump_only=True, allow_none=True, about="Whose key proposed it.")
    key_id = columns.Id(dump_only=True, allow_none=True)
    decided_by = columns.Id(dump_only=True, allow_none=True)
    decided_at = columns.DateTime(dump_only=True, allow_none=True)
    batch_id = columns.Id(dump_only=True, allow_none=True, about="Whose undo takes it back.")

    @classmethod
    def find_open(cls, id: int | str) -> "Proposal":
        """The proposal of that id; raises NotFound, and Conflict unless it waits for a decision."""
        proposal = cls.find(id)
        if proposal.state != OPEN:
            raise Conflict("this proposal is decided already", "proposal_decided")
        return proposal

    def dry_run(self) -> dict[str, Any]:
        """What accepting it would do now, as work.run().

        Raises Invalid, and Conflict `proposal_key_ended`.
        """
        with self._rights_of_key():
            return work.run(self.resource, self._sent(), dry_run=True)[0]

    def accept(self, expect: int) -> tuple[dict[str, Any], bool]:
        """Do what is proposed, in the name of the session's user.

        expect: how many records the user was told of. Returns as work.run(), and raises what it
        raises, Forbidden, and Conflict `proposal_decided` or `proposal_key_ended`.
        """
        with self._rights_of_key():
            rights.require([f"{self.resource}:write"])
            sent = {**self._sent(), "expect": expect}
            return work.run(self.resource, sent, on_start=partial(_decide, self.id, APPLIED))

    def _sent(self) -> dict[str, Any]:
        return BULK.parse(loads(self.change))

    @contextmanager
    def _rights_of_key(self) -> Iterator[None]:
        """Act in the block within the rights of the key that proposed it, if one did."""
        session = current_session()
        before = session.scopes
        if self.key_id is not None:
            key = api_keys.find(self.key_id)
            user = User.find(key.user_id)
            has_all_records = not key.own and user.role != SELLER
            if key.state() != "live" or not user.active or not has_all_records:
                raise Conflict("the key that proposed this has ended", "proposal_key_ended")
            session.scopes = frozenset(key.scopes.split(","))
        try:
            yield
        finally:
            session.scopes = before


def create(data: dict[str, Any]) -> dict[str, Any]:
    """Store a change for a person to decide; with `apply` do it at once.

    Returns what a dry run has found, or what was done, with `proposal_id`. Raises Invalid,
    Forbidden (also `own_records_only`), Conflict `too_many_proposals` or `too_many_records`, and
    what a bulk change raises.
    """
    plural = data["resource"]
    applies = bool(data.get("apply"))
    rights.require([f"{plural}:read", f"{plural}:write"] + [rights.APPLY_SCOPE] * applies)
    rights.require_all_records()  # who decides may see others
    if applies and data.get("action") == "delete":
        raise Invalid.field("action", "invalid_choice", "a person deletes: do not `apply` it")
    sent = {name: data[name] for name in BULK.fields if name in data}
    found, _ = work.run(plural, sent, dry_run=True)
    shown = {name: BULK.fields[name].show(value) for name, value in sent.items()}
    session = current_session()
    values = {
        "resource": plural,
        "state": OPEN,
        "change": dumps(shown).decode(),
        "why": data["why"],
        "count": found["count"],
        "refused": found["refused"],
        "user_id": session.user_id,
        "key_id": session.key_id,
    }
    if not applies:
        with transaction():
            if count_open() >= MAX_OPEN:
                raise Conflict(f"{MAX_OPEN} proposals wait for a decision", "too_many_proposals")
            return {"proposal_id": str(Proposal.add(values).id), **found}
    if found["count"] > MAX_APPLIED:
        detail = f"a key applies at most {MAX_APPLIED} records itself: propose it to a person"
        raise Conflict(detail, "too_many_records")
    applied: list[Proposal] = []

    def note_applied(batch: Batch) -> None:
        decision = {"decided_by": session.user_id, "decided_at": now(), "batch_id": batch.id}
        applied.append(Proposal.add({**values, "state": APPLIED, **decision}))

    done, _ = work.run(plural, {**sent, "expect": found["count"]}, on_start=note_applied)
    return {"proposal_id": str(applied[0].id), **done}


def decline(id: int | str) -> None:
    """Decline a proposal. Raises as Proposal.find_open()."""
    with transaction():
        _decide(id, DECLINED)


def count_open() -> int:
    """How many proposals wait for a decision."""
    return one_row("SELECT count(*) FROM proposal WHERE state = ?", (OPEN,))[0]


def _decide(id: int | str, state: str, batch: Batch | None = None) -> None:
    values = {"state": state, "decided_by": current_session().user_id, "decided_at": now()}
    Proposal.find_open(id).save_changes({**values, "batch_id": batch.id if batch else None})


delete_after("proposal", "created_at")


own_rows.declare("proposal", "proposal.user_id = ?")
erasure.register_deletion("proposals", "proposal", "why", "change")


class ProposalSchema(BulkChangeSchema):
    """A bulk change to propose."""

    resource = fields.Choice(*MAIN_RESOURCES, required=True, example="leads")
    why = fields.LongText(required=True, example="Nobody has answered these for a week.")
    apply = fields.Boolean(
        default=False,
        about=f"Do it at once: at most {MAX_APPLIED} records, not to delete them, by a key with"
        " `agents:apply`.",
    )


PROPOSAL: RecordView = declare_views(Proposal)[0]
PROPOSAL_IN = ProposalSchema.body("ProposalIn")
PROPOSAL_FILTER = filter_of(Proposal, queries.Filter, unsorted=("created_at", "updated_at"))()

blueprint = Blueprint("proposals", "Changes of several records that a person decides.")


def _of_readable() -> tuple[str, list[str]]:
    resources = [f"{noun}s" for noun in permitted_nouns("read", "proposed")]
    return f"resource IN ({', '.join('?' * len(resources))})", resources


def _show(id: str) -> dict[str, Any]:
    require_of_noun("read", "proposed", lambda: Proposal.find(id).resource.removesuffix("s"))
    return PROPOSAL.one(id)


proposals = Endpoints(blueprint, "/proposals", PROPOSAL)
proposals.list(
    PROPOSAL_FILTER, "List the proposals, the newest first.", where=_of_readable, needs=()
)


@blueprint.operation(
    "POST",
    "/proposals",
    needs=(),
    body=PROPOSAL_IN,
    example={
        "resource": "leads",
        "ids": ["12", "13"],
        "set": {"assigned_to": "2"},
        "why": "Nobody has answered these for a week.",
    },
    status=201,
    answer=ok_answer("ProposedOut", proposal_id=ma.String, **FOUND),
    conflicts=True,
)
def propose_change(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Propose a change of several records, which a person accepts or declines in the workspace.

    Needs the rights to read and to write the resource. With `apply` it is done at once, as one
    batch: this needs `agents:apply` too.
    """
    answer = create(data)
    return {"status": "ok", **answer}, {"Location": f"/proposals/{answer['proposal_id']}"}


proposals.get("Get one proposal.", _show, needs=())
