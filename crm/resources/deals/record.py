"""Deals: what is being sold, to whom, and how far it has come (spec: Deals; D7, D17).

A deal sits on a stage of a pipeline, and stage and status go together (stages.py). Its amount is
set by hand, or is the total of its items (items.py). It belongs to its maker unless the request
says otherwise.

How a lead becomes a deal is the rule of leads/conversion.py.
"""

from collections.abc import Callable
from typing import Any

from crm.access import rights
from crm.alerts import alerts
from crm.errors import Conflict, Invalid
from crm.outbox import events
from crm.records import columns, fields, parameters, verbs
from crm.records.columns import N_, Shown
from crm.records.custom.values import Custom
from crm.records.record import SoftDeletedRecord, require_reference
from crm.records.retention import erase_deleted
from crm.records.views import declare_views
from crm.records.words import Word
from crm.resources import tenant
from crm.resources.clients.record import Client, Contact
from crm.resources.clients.record import create as add_client
from crm.resources.deals import history, stages
from crm.resources.deals.wire_fields import ITEMS_COUNT, MANAGER, Manager, ManagerSchema
from crm.resources.pipelines.record import STAGE, Stage
from crm.resources.users import assignee, require_assignee, with_assignee
from crm.storage import own_rows
from crm.storage.session import current_session, execute, now, one_row, transaction

STATUSES = ("open", "won", "lost")
AMOUNT_MODES = ("manual", "items")
CLOSED_AT_OF_OPEN = "goes only with a deal won or lost"
EVENT_OF_STATUS = {"won": events.DEAL_WON, "lost": events.DEAL_LOST}


class Deal(SoftDeletedRecord):
    """One deal, in stored form."""

    noun = "deal"
    is_tagged = True

    title = columns.Text(
        255,
        allow_none=False,
        takes_null=True,
        example="Крісла для офісу",
        about="By default the client's name.",
        searched=True,
        label=N_("Title"),
        form="new",
    )
    client_id = columns.Id(
        example="5",
        filtered=parameters.Reference(about="Deals of this client.", in_order=False),
        references="client",
        label=N_("Client"),
        form=False,
    )
    client_name = columns.Text(255, dump_only=True, allow_none=True, searched=True)
    contact_id = columns.Id(
        example="7", about="One of the client's contacts.", label=N_("Contact"), form=False
    )
    lead_id = columns.Id(
        create_only=True, example="3", about="The lead that this deal converts.", label=N_("Lead")
    )
    pipeline_id = columns.Id(
        allow_none=False,
        example="1",
        about="By default the default pipeline.",
        filtered=parameters.Reference(),
        label=N_("Pipeline"),
        form=False,
    )
    stage_id = columns.Id(
        allow_none=False,
        example="1",
        about="By default the first open stage.",
        filtered=parameters.Reference(),
        label=N_("Stage"),
        form=False,
    )
    status = columns.Choice(
        *STATUSES, default="open", filtered=parameters.Equals(), label=N_("Status"), form=False
    )
    amount = columns.Amount(sorted="coalesce(amount, -1)", label=N_("Amount"), form="new")
    amount_mode = columns.Choice(
        *AMOUNT_MODES,
        default="manual",
        about="`items`: the amount is the items' total. The first item leads there.",
        label=N_("Amount is"),
        form=False,
    )
    currency = columns.Currency(
        allow_none=False, about="By default the tenant's.", label=N_("Currency"), form="new"
    )
    assigned_to = assignee(about="By default the key's user.")
    created_by = columns.Id(dump_only=True, allow_none=True)
    manager = Shown(
        Manager(
            ManagerSchema.out("ManagerOut"),
            column=MANAGER,
            allow_none=True,
            about="The user of `assigned_to`; another name of it when sent.",
        )
    )
    expected_close_date = columns.Date(
        sorted="coalesce(expected_close_date, '9999')", label=N_("Expected close date"), form="new"
    )
    source = Word(64, "source", example="site-form", label=N_("Source"), form="new")
    tags = columns.Tags(label=N_("Tags"), form="new")
    comment = columns.LongText(searched=True, label=N_("Comment"), form="new")
    lost_reason = columns.Text(255, example="задорого", label=N_("Lost reason"))
    custom = Custom("deals")
    items_count = Shown(fields.Integer(0, 1 << 53, dump_only=True, column=ITEMS_COUNT))
    stage_changed_at = columns.DateTime(dump_only=True, csv=True)
    closed_at = columns.PastDateTime(
        about="May be sent with a deal won or lost.", label=N_("Closed on"), form=False
    )

    def update_fields(
        self,
        data: dict[str, Any],
        related: dict[str, tuple] | None = None,
        exact: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Change the sent fields; `status` and `stage_id` may close, reopen or move the deal (D7).

        Inside a transaction. One event for each fact, in this order: deal.stage_changed, then
        deal.won or deal.lost. Raises Invalid, and Conflict `currency_fixed` or `client_deleted`.

        `related`: what changed in the deal's items, as {name: (before, after)}. `exact`: columns
        that get these values in any case. Returns the deal's
        own fields before the change, those alone that differ.
        """
        data = _with_manager(data)
        if "assigned_to" in data:
            require_assignee(data, self)
        stage, status = stages.resolve_next_stage(self, data)
        if status == "open" != self.status:
            _require_live_client(data.get("client_id", self.client_id))
        has_left = status not in ("lost", self.status) and exact is None
        if has_left and data.get("lost_reason", self.lost_reason) == self.lost_reason:
            data = {**data, "lost_reason": None}
        values = {
            **data,
            **self._client_values(data),
            **self._amount_values(data),
            "pipeline_id": stage.pipeline_id,
            "stage_id": stage.id,
            "status": status,
            "closed_at": self._closing_time(data, status),
        }
        if values.get("title", "") is None:
            values["title"] = values.get("client_name", self.client_name) or _default_title(self.id)
        moved_at = now()
        if stage.id != self.stage_id:
            closes = status not in ("open", self.status)
            # A deal closed with a time in the past has reached its stage at that time.
            moved_at = values["closed_at"] if closes and not exact else moved_at
            values["stage_changed_at"] = moved_at
        before = self.save_changes({**values, **(exact or {})}, related)
        before.pop("items", None)  # the audit trail has them; events show the deal's own fields
        self._emit_changes(before, stage, moved_at)
        if "assigned_to" in before:
            alerts.add_assigned(self)
        return before

    def restore(self) -> None:
        """Undo remove(). Raises Conflict `client_deleted`, and `duplicate_external_id`."""
        super().restore()
        # Its stage may have been removed meanwhile: the one that took it decides on the status.
        self.update_fields({"stage_id": self.stage_id})
        if self.status == "open":
            _require_live_client(self.client_id)
        if client := Client.first("id = ?", self.client_id):
            self.save_changes({"client_name": client.name})  # it may have been renamed meanwhile

    def items(self) -> tuple[int, int, int]:
        """(how many items it has, their total, the last position)."""
        return one_row(
            "SELECT count(*), coalesce(sum(total), 0), coalesce(max(position), 0)"
            " FROM deal_item WHERE deal_id = ?",
            (self.id,),
        )

    def _client_values(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the changed client with its name, and the contact, which must be the client's."""
        client_id = data.get("client_id", self.client_id)
        if client_id != self.client_id:
            contact_id = data.get("contact_id")  # the old one was one of the old client
            return {"contact_id": contact_id, **_client(client_id, contact_id)}
        if data.get("contact_id") not in (None, self.contact_id):
            _require_contact_of(client_id, data["contact_id"])
        return {}

    def _amount_values(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return amount and mode: a sent amount is set by hand, the mode `items` is the total."""
        if not {"amount", "amount_mode", "currency"}.intersection(data):
            return {}
        count, total, _ = self.items()
        if count and data.get("currency", self.currency) != self.currency:
            raise Conflict("the currency stays while the deal has items", "currency_fixed")
        mode = data.get("amount_mode", "manual" if "amount" in data else self.amount_mode)
        if mode == "manual":
            return {"amount_mode": mode}
        # In the mode `items` a sent amount is accepted only as the total that GET has shown.
        # A key without deals:read sends no amount with the mode: refusals would reveal the total.
        if "amount" in data and not (data["amount"] == total and rights.can_read("deals")):
            raise amount_not_total()
        return {"amount_mode": mode, "amount": total}

    def _closing_time(self, data: dict[str, Any], status: str) -> str | None:
        """Return when the deal was won or lost: as sent, or now; None for an open deal."""
        closed_at = data.get("closed_at")
        if status == "open":
            if closed_at not in (None, self.closed_at):  # the time before may be sent back
                raise Invalid.field("closed_at", "deal_is_open", CLOSED_AT_OF_OPEN)
            return None
        if closed_at is not None:
            return _after_creation(closed_at, self.created_at)
        if status == self.status and "closed_at" in data:
            raise Invalid.field("closed_at", "null", "a deal won or lost has a closing time")
        return self.closed_at if status == self.status else now()

    def _emit_changes(self, before: dict[str, Any], stage: Stage, moved_at: str) -> None:
        """Write the history and the events of the fields that have changed."""
        previous = DEAL.show(before)
        # Order by D7: the move first, then won or lost. Reopening has no event but the move.
        if "stage_id" in before:
            old_stage = Stage.find(before["stage_id"])
            history.add_move(self.id, old_stage, stage, moved_at)
            body = {
                "deal": DEAL.one(self.id),
                "from_stage": STAGE.one(old_stage.id),
                "to_stage": STAGE.one(stage.id),
            }
            events.emit(events.DEAL_STAGE_CHANGED, self.id, body, previous)
        if "status" in before and self.status in EVENT_OF_STATUS:
            kind = EVENT_OF_STATUS[self.status]
            events.emit(kind, self.id, {"deal": DEAL.one(self.id)}, previous)
        if "stage_id" in before:
            add_task_of_stage(self, stage)


own_rows.declare_records("deal")
own_rows.declare_parts("deal_item", "deal")

# A row of a deleted record that refers to it goes first: it has been deleted for 30 days, too.
erase_deleted("deal", "lead", "task")

OnCreated = Callable[[Deal], None]
# As crm/resources/__init__.py sets them, because leads and tasks import deals: what creates a deal
# that names a lead, and what adds the task of the stage that a deal has come to.
create_deal_of_lead: Any = None
add_task_of_stage: Any = None


def create(data: dict[str, Any], on_created: OnCreated = lambda deal: None) -> int:
    """Add a deal: deal.created, then deal.won or deal.lost if it comes as such.

    `data` may have `lead_id`, of the lead that is converted into the deal, and `stage_changed_at`
    of a deal with a history. `on_created` adds the deal's parts before its events are written.
    Returns the deal's id. Raises Invalid, and Conflict `lead_already_converted`.
    """
    with transaction():
        if data.get("lead_id") is None:
            return add_deal(data, on_created).id
        # Leads decide on the client, the contact and their own status, in the same transaction.
        return create_deal_of_lead(data, on_created)


def create_with_client(data: dict[str, Any], client: dict[str, Any]) -> int:
    """Add a deal of a client who is added with it. Returns and raises as create()."""
    with transaction():
        return create({**data, "client_id": add_client(client)})


update, delete, restore = verbs.of(Deal)


def add_deal(data: dict[str, Any], on_created: OnCreated = lambda deal: None) -> Deal:
    """Add a deal as create() does, but only store its `lead_id`; inside a transaction."""
    data = _with_manager(data)
    stage, status = stages.resolve_stage(data)
    data = with_assignee({**data, "status": status})
    created_at = data.get("created_at") or now()
    values = {
        "amount": None,
        "amount_mode": "manual",
        "currency": tenant.currency(),
        "assigned_to": current_session().user_id,
        **data,
        **_client(data.get("client_id"), data.get("contact_id")),
        "pipeline_id": stage.pipeline_id,
        "stage_id": stage.id,
    }
    if values["amount_mode"] == "items":
        if values["amount"]:
            raise amount_not_total()
        values["amount"] = 0  # the total of no items yet
    if status == "open" and data.get("closed_at"):
        raise Invalid.field("closed_at", "deal_is_open", CLOSED_AT_OF_OPEN)
    if status != "open":
        values["closed_at"] = _after_creation(data.get("closed_at") or created_at, created_at)
    reached_at = created_at if stage.type == "open" else values["closed_at"]
    values["stage_changed_at"] = data.get("stage_changed_at") or reached_at
    values["title"] = values.get("title") or values["client_name"] or ""
    # A default title has the id, which the insert gives. That is no change of the deal.
    deal = Deal.add(values)
    if not deal.title:
        deal.title = _default_title(deal.id)
        execute("UPDATE deal SET title = ? WHERE id = ?", (deal.title, deal.id))
        deal.update_search_text()
    history.add_move(deal.id, None, stage, deal.stage_changed_at)
    # Before the event is written, so that its body has the items.
    on_created(deal)
    body = {"deal": DEAL.one(deal.id)}
    events.emit(events.DEAL_CREATED, deal.id, body)
    if status in EVENT_OF_STATUS:
        events.emit(EVENT_OF_STATUS[status], deal.id, body)
    if "assigned_to" in data:  # not by default
        alerts.add_assigned(deal)
    add_task_of_stage(deal, stage)
    return deal


def _client(client_id: int | None, contact_id: int | None) -> dict[str, Any]:
    """The client's id and a copy of the name, which outlives the client."""
    require_reference(Client, client_id, "client_id")
    if contact_id is not None:
        _require_contact_of(client_id, contact_id)
    name = None if client_id is None else Client.find(client_id).name
    return {"client_id": client_id, "client_name": name}


def _require_live_client(client_id: int | None) -> None:
    """Raise Conflict `client_deleted`: no client with open deals can be deleted (D6)."""
    if client_id is not None and Client.first("id = ?", client_id) is None:
        raise Conflict("its client is deleted: restore the client first", "client_deleted")


def _require_contact_of(client_id: int | None, contact_id: int) -> None:
    require_reference(Contact, contact_id, "contact_id")
    if Contact.find(contact_id).client_id != client_id:
        raise Invalid.field(
            "contact_id", "contact_of_another_client", "this contact is not the client's"
        )


def _with_manager(data: dict[str, Any]) -> dict[str, Any]:
    """`manager` is another name of `assigned_to`; both must agree."""
    if "manager" not in data:
        return data
    data = dict(data)
    manager = data.pop("manager")
    if data.setdefault("assigned_to", manager) != manager:
        raise Invalid.field("manager", "manager_conflict", "differs from assigned_to")
    return data


def _after_creation(closed_at: str, created_at: str) -> str:
    if closed_at < created_at:
        raise Invalid.field("closed_at", "before_created_at", "must not be before created_at")
    return closed_at


def amount_not_total() -> Invalid:
    return Invalid.field("amount", "amount_of_items", "is the items' total in the mode items")


def _default_title(id: int) -> str:
    return f"Deal {id}"


DEAL, DEAL_IN, DEAL_PATCH = declare_views(Deal)
