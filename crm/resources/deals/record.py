"""Deals: what is being sold, to whom, and how far it has come (spec: Deals; D7, D17).

A deal sits on a stage of a pipeline. The stage's type (open, won, lost) goes before the status: in
a closed stage a deal is what the stage says, in an open one it may be won or lost all the same, and
a move to another open stage opens it again. Its amount is set by hand, or is the total of its items
(see items.py). A deal is its maker's unless it says otherwise.

How a lead becomes a deal is the rule of leads/conversion.py, also when a new deal names the lead.
"""

from collections.abc import Callable
from typing import Any

from crm import values as forms
from crm.access import rights
from crm.errors import Conflict, Invalid
from crm.outbox import events
from crm.records import columns, fields, nested, queries
from crm.records.columns import N_, Shown
from crm.records.record import SoftDeletedRecord, reference
from crm.records.schemas import RecordSchema, schema_of
from crm.records.views import RecordView
from crm.resources import tenant
from crm.resources.clients.record import Client, Contact
from crm.resources.deals import history
from crm.resources.pipelines.record import STAGE, Pipeline, Stage
from crm.resources.users import User
from crm.tenancy.database import current_session, execute, now, row, transaction
from crm.tenancy.dialect import json_row

STATUSES = ("open", "won", "lost")
AMOUNT_MODES = ("manual", "items")
CLOSED = {"won": events.DEAL_WON, "lost": events.DEAL_LOST}


class Title(fields.Text):
    """Never null when shown; null when sent means the default."""

    def variant(self, *, incoming: bool, required: bool) -> fields.Field:
        found = super().variant(incoming=incoming, required=required)
        found.allow_none = found.allow_none = incoming
        return found


class Deal(SoftDeletedRecord):
    """One deal, in stored form."""

    noun = "deal"

    title = columns.Text(
        wire=Title(255, example="Крісла для офісу", about="By default the client's name."),
        null=False,
        searched=True,
        label=N_("Title"),
        form="new",
    )
    client_id = columns.Id(
        example="5",
        filtered=queries.Reference(about="Deals of this client.", in_order=False),
        label=N_("Client"),
        form=False,
        csv=False,
    )
    client_name = columns.Text(255, dump_only=True, allow_none=True, null=True, searched=True)
    contact_id = columns.Id(
        example="7",
        about="One of the client's contacts.",
        label=N_("Contact"),
        form=False,
        csv=False,
    )
    lead_id = columns.Id(
        create_only=True,
        example="3",
        about="The lead that this deal converts.",
        label=N_("Lead"),
        csv=False,
    )
    pipeline_id = columns.Id(
        allow_none=False,
        null=False,
        example="1",
        about="By default the default pipeline.",
        filtered=queries.Reference(),
        label=N_("Pipeline"),
        form=False,
        csv=False,
    )
    stage_id = columns.Id(
        allow_none=False,
        null=False,
        example="1",
        about="By default the first open stage.",
        filtered=queries.Reference(),
        label=N_("Stage"),
        form=False,
        csv=False,
    )
    status = columns.Choice(
        *STATUSES,
        allow_none=False,
        default="open",
        filtered=queries.Equals(),
        label=N_("Status"),
        form=False,
    )
    amount = columns.Amount(sorted="coalesce(amount, -1)", label=N_("Amount"), form="new")
    amount_mode = columns.Choice(
        *AMOUNT_MODES,
        allow_none=False,
        default="manual",
        about="`items`: the amount is the items' total. The first item leads there.",
        label=N_("Amount is"),
        form=False,
    )
    currency = columns.Currency(
        allow_none=False,
        null=False,
        about="By default the tenant's.",
        label=N_("Currency"),
        form="new",
    )
    assigned_to = columns.Id(
        example="1",
        about="By default the key's user.",
        filtered=queries.User(about="A user's id, `me` or `none`."),
        label=N_("Responsible"),
        form="new",
        csv=False,
    )
    manager = Shown(
        lambda: Manager(
            ManagerSchema.out("ManagerOut"),
            column=MANAGER,
            allow_none=True,
            about="The user of `assigned_to`; another name of it when sent.",
        )
    )
    expected_close_date = columns.Date(
        sorted="coalesce(expected_close_date, '9999')",
        label=N_("Expected close date"),
        form="new",
    )
    source = columns.Text(64, example="site-form", label=N_("Source"), form="new")
    tags = columns.Tags(label=N_("Tags"), form="new")
    comment = columns.LongText(label=N_("Comment"), form="new")
    lost_reason = columns.Text(255, example="задорого", label=N_("Lost reason"))
    items_count = Shown(lambda: fields.Integer(0, 1 << 53, dump_only=True, column=ITEMS_COUNT))
    stage_changed_at = columns.DateTime(dump_only=True)
    closed_at = columns.PastDateTime(
        about="May be sent with a deal won or lost.", label=N_("Closed on"), form=False
    )

    def search_texts(self) -> tuple[str | None, ...]:
        return self.title, self.client_name

    def change(
        self, data: dict[str, Any], beside: dict[str, tuple] | None = None
    ) -> dict[str, Any]:
        """Change the sent fields; inside a transaction. One event for each fact, in this order:
        deal.stage_changed, then deal.won or deal.lost.

        `beside` is what changed of its items: {name: (before, after)}. Gives what its own fields
        were. Raises Invalid, or Conflict `currency_fixed`.
        """
        data = _named_by_manager(data)
        if data.get("assigned_to") != self.assigned_to:
            reference(User, data.get("assigned_to"), "assigned_to")
        stage, status = self._goal(data)
        values = {
            **data,
            **self._of_client(data),
            **self._of_amount(data),
            "pipeline_id": stage.pipeline_id,
            "stage_id": stage.id,
            "status": status,
            "closed_at": self._closing_time(data, status),
        }
        if values.get("title", "") is None:
            values["title"] = values.get("client_name", self.client_name) or _untitled(self.id)
        if stage.id != self.stage_id:
            closes = status not in ("open", self.status)
            values["stage_changed_at"] = values["closed_at"] if closes else now()
        before = self.put(values, beside)
        before.pop("items", None)  # the trail has them; events tell of the deal's own fields
        self._tell(before, stage)
        return before

    def items(self) -> tuple[int, int, int]:
        """(how many items it has, their total, the last position)."""
        return row(
            "SELECT count(*), coalesce(sum(total), 0), coalesce(max(position), 0)"
            " FROM deal_item WHERE deal_id = ?",
            (self.id,),
        )

    def _goal(self, data: dict[str, Any]) -> tuple[Stage, str]:
        """The stage and the status that the sent fields lead to (D7)."""
        status = data.get("status")
        if "stage_id" in data or data.get("pipeline_id", self.pipeline_id) != self.pipeline_id:
            return _placed(data, self)
        stage = Stage.find(self.stage_id)
        if status is None or stage.type in ("open", status):
            return stage, status or self.status
        stages = [each for each in _pipeline(self.pipeline_id).list_stages() if each.type == status]
        if not stages:
            raise Invalid.field(
                "status", "no_such_stage", f"the deal's pipeline has no stage of the type {status}"
            )
        return stages[-1 if status == "open" else 0], status

    def _of_client(self, data: dict[str, Any]) -> dict[str, Any]:
        """The client with its name, and the contact, which must be one of the client's."""
        client_id = data.get("client_id", self.client_id)
        if client_id != self.client_id:
            data = {"contact_id": None, **data}  # the contact was one of the client before
            return {"contact_id": data["contact_id"], **_client(client_id, data["contact_id"])}
        if data.get("contact_id") not in (None, self.contact_id):
            _is_of_client(data["contact_id"], client_id)
        return {}

    def _of_amount(self, data: dict[str, Any]) -> dict[str, Any]:
        """Amount sent: by hand from now on. Mode `items` sent: what the items come to."""
        if not {"amount", "amount_mode", "currency"}.intersection(data):
            return {}
        count, total, _ = self.items()
        if count and data.get("currency", self.currency) != self.currency:
            raise Conflict("the currency stays while the deal has items", "currency_fixed")
        mode = data.get("amount_mode", "manual" if "amount" in data else self.amount_mode)
        if mode == "manual":
            return {"amount_mode": mode}
        # Who may not read deals sends no amount with the mode: else refusals would tell the total.
        if "amount" in data and not (data["amount"] == total and rights.can_read("deals")):
            raise _amount_is_of_items()
        return {"amount_mode": mode, "amount": total}

    def _closing_time(self, data: dict[str, Any], status: str) -> str | None:
        """When it was won or lost: as sent, or now; an open deal has none."""
        sent = data.get("closed_at")
        if status == "open":
            if sent not in (None, self.closed_at):  # what it was may come along unchanged
                raise _open_is_not_closed()
            return None
        if sent is not None:
            return _in_its_life(sent, self.created_at)
        if status == self.status and "closed_at" in data:
            raise Invalid.field("closed_at", "null", "a deal won or lost has a closing time")
        return self.closed_at if status == self.status else now()

    def _tell(self, before: dict[str, Any], stage: Stage) -> None:
        """The history and the events of what has changed."""
        previous = DEAL.show(before)
        if "stage_id" in before:
            left = Stage.find(before["stage_id"])
            history.note(self.id, left, stage, self.stage_changed_at)
            shown = {"deal": DEAL.one(self.id)}
            stages = {"from_stage": STAGE.one(left.id), "to_stage": STAGE.one(stage.id)}
            events.emit(events.DEAL_STAGE_CHANGED, self.id, shown | stages, previous)
        if "status" in before and self.status in CLOSED:
            events.emit(CLOSED[self.status], self.id, {"deal": DEAL.one(self.id)}, previous)


def create(data: dict[str, Any], furnish: Callable[[Deal], None] = lambda deal: None) -> int:
    """Add a deal and give its id: deal.created, then deal.won or deal.lost if it comes as such.

    `furnish` adds what belongs to it before they are told. History may bring `stage_changed_at`.
    `lead_id` is only noted here: conversion.create_deal() is the verb that converts the lead.
    Raises Invalid.
    """
    data = _named_by_manager(data)
    with transaction():
        reference(User, data.get("assigned_to"), "assigned_to")
        stage, status = _placed(data)
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
            "status": status,
        }
        if values["amount_mode"] == "items":
            if values["amount"]:
                raise _amount_is_of_items()
            values["amount"] = 0
        if status == "open" and data.get("closed_at"):
            raise _open_is_not_closed()
        if status != "open":
            values["closed_at"] = _in_its_life(data.get("closed_at") or created_at, created_at)
        reached_at = created_at if stage.type == "open" else values["closed_at"]
        values["stage_changed_at"] = data.get("stage_changed_at") or reached_at
        values["title"] = values.get("title") or values["client_name"] or ""
        deal = Deal.add(values)
        if not deal.title:
            _name_by_id(deal)
        history.note(deal.id, None, stage, deal.stage_changed_at)
        furnish(deal)
        shown = {"deal": DEAL.one(deal.id)}
        events.emit(events.DEAL_CREATED, deal.id, shown)
        if status in CLOSED:
            events.emit(CLOSED[status], deal.id, shown)
        return deal.id


def _placed(data: dict[str, Any], deal: Deal | None = None) -> tuple[Stage, str]:
    """Stage and status of a deal that is new, or told a stage, or another pipeline."""
    status = data.get("status")
    if "stage_id" in data:
        reference(Stage, data["stage_id"], "stage_id")
        stage = Stage.find(data["stage_id"])
        if data.get("pipeline_id", stage.pipeline_id) != stage.pipeline_id:
            raise Invalid.field(
                "stage_id", "stage_of_another_pipeline", "this stage is of another pipeline"
            )
    else:
        stages = _pipeline(data.get("pipeline_id")).list_stages()
        first = {each.type: each for each in reversed(stages)}
        stage = first.get(status) or first["open"]
    if stage.type == "open":
        stays = deal is not None and deal.stage_id == stage.id
        return stage, status or (deal.status if stays else "open")
    if status not in (None, stage.type):
        raise Invalid.field(
            "status", "stage_status_conflict", "a deal in this stage has another status"
        )
    return stage, stage.type


def _pipeline(id: int | None) -> Pipeline:
    reference(Pipeline, id, "pipeline_id")
    return Pipeline.default() if id is None else Pipeline.find(id)


def _client(client_id: int | None, contact_id: int | None) -> dict[str, Any]:
    """The client's id and its name, copied: it outlives the client."""
    reference(Client, client_id, "client_id")
    if contact_id is not None:
        _is_of_client(contact_id, client_id)
    name = None if client_id is None else Client.find(client_id).name
    return {"client_id": client_id, "client_name": name}


def _is_of_client(contact_id: int, client_id: int | None) -> None:
    reference(Contact, contact_id, "contact_id")
    if Contact.find(contact_id).client_id != client_id:
        raise Invalid.field(
            "contact_id", "contact_of_another_client", "this contact is not the client's"
        )


def _named_by_manager(data: dict[str, Any]) -> dict[str, Any]:
    """`manager` is another name of `assigned_to`; both must agree."""
    if "manager" not in data:
        return data
    data = dict(data)
    manager = data.pop("manager")
    if data.setdefault("assigned_to", manager) != manager:
        raise Invalid.field("manager", "manager_conflict", "differs from assigned_to")
    return data


def _in_its_life(closed_at: str, created_at: str) -> str:
    if closed_at < created_at:
        raise Invalid.field("closed_at", "before_created_at", "must not be before created_at")
    return closed_at


def _open_is_not_closed() -> Invalid:
    return Invalid.field("closed_at", "deal_is_open", "goes only with a deal won or lost")


def _amount_is_of_items() -> Invalid:
    return Invalid.field("amount", "amount_of_items", "is the items' total in the mode items")


def _untitled(id: int) -> str:
    return f"Deal {id}"


def _name_by_id(deal: Deal) -> None:
    """A new deal's id is known once it is there; giving it a name then is no change of it."""
    deal.title = _untitled(deal.id)
    execute("UPDATE deal SET title = ? WHERE id = ?", (deal.title, deal.id))
    deal.refold()


class UserId(fields.Id):
    """A user's id, or an object with it."""

    def read(self, value: Any) -> int:
        if isinstance(value, dict):
            if not {"id"} <= set(value) <= {"id", "name"}:
                raise forms.InvalidValue("invalid_type", "must be an id or an object with an id")
            value = value["id"]
        return super().read(value)

    def schema_type(self) -> dict[str, Any]:
        id = super().schema_type()
        name = {"type": "string", "maxLength": 255}
        user = {
            "type": "object",
            "properties": {"id": super().schema_type(), "name": name},
            "required": ["id"],
            "additionalProperties": False,
        }
        return {"anyOf": [*id["anyOf"], user]}


class ManagerSchema(RecordSchema):
    id = fields.Id(dump_only=True)
    name = fields.Text(255, required=True, example="Тарас")


class Manager(nested.Nested):
    """Shown as {id, name}, sent as an id or {id}."""

    def variant(self, *, incoming: bool, required: bool) -> Any:
        if incoming:
            sent = UserId(example="1", about=self.about)
            return sent.variant(incoming=True, required=False)
        return super().variant(incoming=incoming, required=required)


MANAGER = json_row({"id": "user.id", "name": "user.name"}, "user WHERE user.id = deal.assigned_to")
ITEMS_COUNT = "(SELECT count(*) FROM deal_item WHERE deal_item.deal_id = deal.id)"


DealSchema = schema_of(Deal)
DEAL = RecordView(DealSchema.out("DealOut"), "deal")
DEAL_IN = DealSchema.body("DealIn")
DEAL_PATCH = DealSchema.patch("DealPatch")
