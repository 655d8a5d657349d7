"""Leads: people who asked, not yet clients (spec: Leads; D4, D5, D12, D17).

A lead has a name, and a phone or an e-mail. It is unassigned unless the request says otherwise, or
the owner has chosen users who get new leads in turn: then one that names nobody goes to the next of
them. Imported leads and those with a date of their own are history, and stay with nobody.

`converted` is its last status; conversion.py has the rule that leads there. A website form must not
lose a lead: what doesn't fit on create is kept in `extra` under its name in the request.
"""

from collections.abc import Iterable
from typing import Any

from marshmallow import INCLUDE, ValidationError
from peewee import TextField

from crm.access import api_keys, rights
from crm.alerts import alerts
from crm.alerts.kinds import LEAD_NEW
from crm.errors import Conflict, Fault, Invalid, NotFound
from crm.json import dumps, loads
from crm.outbox import events
from crm.records import columns, parameters, verbs
from crm.records.columns import N_, Shown
from crm.records.custom.fields import PREFIX
from crm.records.custom.values import Custom
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.schemas import Body, Payload, faults
from crm.records.views import declare_views
from crm.records.words import Word
from crm.resources import duplicates, tenant
from crm.resources.users import assignee, require_assignee, with_assignee
from crm.storage import own_rows
from crm.storage.session import current_session, execute, one_row, row, rows, transaction
from crm.values import InvalidValue, json_object

STATUSES = ("new", "in_progress", "qualified", "unqualified", "converted")
NOT_FOR_FORMS = frozenset(
    ["assigned_to", "status", "tags", "amount", "currency", "created_at", "external_id", "extra"]
)
NEXT_IN_TURN = """
    SELECT user_id FROM lead_turn
    JOIN "user" ON "user".id = user_id AND "user".active = 1 AND "user".role <> 'viewer'
    ORDER BY turn, user_id LIMIT 1
"""
HONEYPOT = "extra_website_url"  # a form's field that people don't see and robots fill in
UNREACHABLE = [
    Fault(f"/{name}", "phone_or_email", "a lead needs a phone or an email")
    for name in ("phone", "email")
]


class Lead(SoftDeletedRecord):
    """One lead, in stored form."""

    noun = "lead"
    is_tagged = True

    name = columns.Text(
        255,
        required=True,
        example="Олена Коваль",
        searched=True,
        sorted="sort_key",
        label=N_("Full name"),
    )
    sort_key = TextField(default="")
    phone = columns.Phone(
        about="`phone` or `email` must be present.",
        searched=True,
        filtered=parameters.Equals(about="In any spelling.", rare=True),
        label=N_("Phone"),
        form="new",
    )
    email = columns.Email(
        searched=True,
        filtered=parameters.Equals(about="In any case.", rare=True),
        label=N_("E-mail"),
        form="new",
    )
    company = columns.Text(
        255, example="ТОВ Ромашка", searched=True, label=N_("Company"), form="new"
    )
    position = columns.Text(255, example="директорка", label=N_("Position"))
    source = Word(
        64,
        "source",
        default="api",
        allow_none=True,
        example="site-form",
        filtered=parameters.Equals(about="Where it came from."),
        label=N_("Source"),
        form="new",
    )
    status = columns.Choice(
        *STATUSES, default="new", filtered=parameters.Equals(), label=N_("Status"), form=False
    )
    assigned_to = assignee()
    comment = columns.LongText(searched=True, label=N_("Comment"), form="new")
    amount = columns.Amount(sorted="coalesce(amount, -1)", label=N_("Amount"))
    currency = columns.Currency(allow_none=False, label=N_("Currency"))
    tags = columns.Tags(label=N_("Tags"))
    utm_source = columns.Text(255, example="google")
    utm_medium = columns.Text(255, example="cpc")
    utm_campaign = columns.Text(255, example="spring")
    utm_content = columns.Text(255, example="banner")
    utm_term = columns.Text(255, example="стіл")
    page_url = columns.Text(
        2048, example="https://example.com/tables", label=N_("Page"), form=False
    )
    referrer = columns.Text(2048, example="https://example.com/", label=N_("Referrer"), form=False)
    lost_reason = columns.Text(255, example="задорого", label=N_("Lost reason"))
    client_id = columns.Id(dump_only=True, allow_none=True, label=N_("Client"))
    deal_id = columns.Id(
        dump_only=True, allow_none=True, references="deal", csv=True, label=N_("Deal")
    )
    converted_at = columns.DateTime(dump_only=True, allow_none=True, csv=True)
    created_by = columns.Id(dump_only=True, allow_none=True)
    custom = Custom("leads")
    possible_duplicates = Shown(duplicates.field("lead"))

    def update_fields(self, data: dict[str, Any]) -> None:
        """Change the sent fields, which don't convert the lead; inside a transaction.

        Raises Invalid, and Conflict `lead_already_converted` or `not_converted`.
        """
        if self.status == "converted" and data.get("status", "converted") != "converted":
            raise Conflict("a converted lead keeps its status", "lead_already_converted")
        if data.get("status") == "converted" != self.status:
            raise Conflict("a lead is converted together with a deal", "not_converted")
        if "assigned_to" in data:
            require_assignee(data, self)
        require_phone_or_email(data.get("phone", self.phone), data.get("email", self.email))
        has_left = data.get("status", self.status) not in ("unqualified", self.status)
        if has_left and data.get("lost_reason", self.lost_reason) == self.lost_reason:
            data = {**data, "lost_reason": None}
        before = self.save_changes(data)
        if "assigned_to" in before:
            alerts.add_assigned(self)

    def restore(self) -> None:
        """As SoftDeletedRecord.restore(); raises NotFound also for a lead that was erased."""
        if not self.name:
            raise NotFound
        super().restore()


own_rows.declare_records("lead", unassigned=True)
erase_deleted("lead")


def create(data: dict[str, Any]) -> int:
    """Add a lead and return its id; one lead.created. Raises Invalid."""
    if data.get("status") == "converted":
        raise Invalid.field("status", "invalid_choice", "a new lead cannot be converted already")
    require_phone_or_email(data.get("phone"), data.get("email"))
    with transaction():
        values = {"currency": tenant.currency(), **data}
        if "assigned_to" in data:
            values = with_assignee(values)
        is_new = "created_at" not in data and not current_session().is_import
        if is_new and values.get("assigned_to") is None:  # else history that moves in
            values["assigned_to"] = _take_turn()
        lead = Lead.add(values)
        events.emit(events.LEAD_CREATED, lead.id, {"lead": LEAD.of_record(lead)})
        if is_new:
            alerts.add(LEAD_NEW, "lead", lead.id, to=lead.assigned_to)
        return lead.id


_, delete, restore = verbs.of(Lead)


def create_as_sent(data: dict[str, Any]) -> int:
    """Add a lead as the caller may send it; a form of a site has fewer fields (D12)."""
    if not rights.is_form_key(rights.granted()):
        return create(_with_known_assignee(data))
    if loads(data.get("extra") or "{}").get(HONEYPOT):
        # A plausible id: a robot must not learn of its refusal.
        return one_row("SELECT coalesce(max(id), 0) + 1 FROM lead")[0]
    return create(_from_form(data))


def list_users_in_turn() -> list[int]:
    """The ids of the users who get new leads in turn."""
    return [id for (id,) in rows("SELECT user_id FROM lead_turn ORDER BY user_id")]


def choose_users_in_turn(ids: Iterable[int]) -> None:
    """Let these users get new leads in turn; those who did before keep their turn."""
    before, chosen = {*list_users_in_turn()}, {*ids}
    with transaction():
        for id in before - chosen:
            execute("DELETE FROM lead_turn WHERE user_id = ?", (id,))
        for id in sorted(chosen - before):
            execute('INSERT INTO lead_turn (user_id) SELECT id FROM "user" WHERE id = ?', (id,))


def _take_turn() -> int | None:
    """Return whose turn it is, None if nobody is chosen, and move on; inside a transaction."""
    if (user := row(NEXT_IN_TURN)) is None:
        return None
    last = "(SELECT max(turn) FROM lead_turn)"
    execute(f"UPDATE lead_turn SET turn = {last} + 1 WHERE user_id = ?", user)
    return user[0]


def require_phone_or_email(phone: str | None, email: str | None) -> None:
    """Raise Invalid if both are missing (spec: Resources, rule 1)."""
    if not phone and not email:
        raise Invalid(UNREACHABLE)


class LeadIn(Body):
    """A new lead: only a name and a phone or e-mail are required (D4)."""

    class Meta:
        unknown = INCLUDE

    def parse(self, sent: Any) -> Payload:
        """The lead in stored form; what doesn't fit goes into `extra`."""
        if not isinstance(sent, dict):
            return super().parse(sent)
        fitting = {name: value for name, value in sent.items() if name in self.fields}
        unfit_custom: dict[str, Any] = {}
        try:
            lead = self.read(fitting)
        except ValidationError as error:
            unfit = error.normalized_messages()
            # A wrong field must not cost a lead: it is refused only if the person could not be
            # named or reached without that field.
            if "name" in unfit or not _reachable_without(unfit, fitting):
                unreachable = [] if _reachable_without({}, fitting) else UNREACHABLE
                raise Invalid([*faults(unfit), *unreachable]) from None
            fitting = {name: value for name, value in fitting.items() if name not in unfit}
            if isinstance(keys := unfit.get("custom"), dict):  # single values of it
                unfit_custom = {key: sent["custom"][key] for key in keys}
                own = sent["custom"].items()
                fitting["custom"] = {key: value for key, value in own if key not in keys}
            lead = self.read(fitting)
        unfit_values = {
            name: value
            for name, value in sent.items()
            if name not in fitting and not (name in self.fields and value is None)
        }
        if unfit_custom:
            unfit_values["custom"] = unfit_custom
        if unfit_values:
            lead["extra"] = _with_extra(lead.get("extra"), unfit_values)
        lead.echoed = {}  # read-only fields that were sent are in `extra`, not to be compared
        return lead


def _with_known_assignee(data: dict[str, Any]) -> dict[str, Any]:
    """A new lead as sent; the id of an assignee who doesn't exist goes into `extra` (D4)."""
    assignee = data.get("assigned_to")
    if assignee is None or row('SELECT 1 FROM "user" WHERE id = ?', (assignee,)):
        return data
    extra = _with_extra(data.get("extra"), {"assigned_to": str(assignee)})
    return {**data, "assigned_to": None, "extra": extra}


def _from_form(data: dict[str, Any]) -> dict[str, Any]:
    """A lead as a website form may send it; other fields are kept in `extra` (D12).

    Of the tenant's own fields it may send those that were chosen for it.
    """
    allowed = {name: value for name, value in data.items() if name not in NOT_FOR_FORMS}
    refused = LEAD.show({name: value for name, value in data.items() if name not in allowed})
    extra = {**(refused.pop("extra", None) or {}), **refused}
    extra.pop(HONEYPOT, None)
    if custom := loads(allowed.get("custom") or "{}"):
        key = api_keys.find(current_session().key_id or 0)
        chosen = loads(key.form_fields or "[]")
        unchosen = {name: custom.pop(name) for name in [*custom] if PREFIX + name not in chosen}
        allowed["custom"] = dumps(custom).decode()
        if unchosen:
            unfit = extra.get("custom")
            extra["custom"] = unchosen | (unfit if isinstance(unfit, dict) else {})
    allowed["extra"] = _with_extra(None, extra)
    return allowed


def _with_extra(extra: str | None, more: dict[str, Any]) -> str | None:
    """`extra` in stored form with more in it; raises Invalid beyond its limits."""
    try:
        return json_object({**loads(extra or "{}"), **more}) if more else extra
    except InvalidValue as unfit:
        raise Invalid.field("extra", unfit.code, unfit.detail) from None


def join_extra(own: str | None, other: str | None) -> str | None:
    """A stored `extra` with the keys of another that it lacks. Raises Invalid beyond its limits."""
    values, others = loads(own or "{}"), loads(other or "{}")
    return _with_extra(own, {name: others[name] for name in others if name not in values})


def _reachable_without(unfit: dict[str, Any], sent: dict[str, Any]) -> bool:
    return any(sent.get(name) and name not in unfit for name in ("phone", "email"))


LEAD, LEAD_IN, LEAD_PATCH = declare_views(Lead, LeadIn)
