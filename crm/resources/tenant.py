"""The tenant itself: its name, plan and currency; verbs of the command line and the cabinet (D18).

An API request never creates or changes a tenant.
"""

from collections.abc import Callable
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from crm import values
from crm.access import api_keys, calendar_tokens, codes, links, sessions
from crm.alerts import alerts, telegram_chats
from crm.config import PLANS
from crm.copies import backup
from crm.errors import Conflict, Invalid
from crm.installation.tenants import Tenants
from crm.outbox import subscriptions
from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.resources import users
from crm.resources.pipelines import record as pipelines
from crm.storage.session import (
    current_session,
    execute,
    notify_after_commit,
    now,
    one_row,
    transaction,
)

KYIV = "Europe/Kyiv"


@cache
def time_zones() -> tuple[str, ...]:
    """The time zones that a business may choose, Kyiv's first."""
    cities = (name for name in available_timezones() if "/" in name and "Etc/" not in name)
    return (KYIV, *sorted({*cities, "UTC"} - {KYIV}))


class TimeZone(fields.Field):
    """A time zone that a business may choose."""

    def read(self, value: Any) -> str:
        if value not in time_zones():
            raise values.InvalidValue("invalid_choice", "must be a zone such as Europe/Kyiv")
        return value


class SettingsSchema(RecordSchema):
    """What a business may change of itself."""

    name = fields.Text(255, required=True)
    currency = fields.Currency(allow_none=False)
    time_zone = TimeZone(allow_none=False)
    sellers_see_unassigned = fields.Boolean(allow_none=False)


SETTINGS = SettingsSchema.patch("Settings")


def open_tenant(
    tenants: Tenants,
    label: str,
    *,
    name: str = "",
    plan: str = "business",
    currency: str = "UAH",
    language: str | None = None,
    owner: dict[str, Any] | None = None,
    on_created: Callable[[], None] = lambda: None,
) -> None:
    """Create a tenant with its owner and the pipeline "Sales" (D11).

    `owner` is as sent to users, `currency` the ISO 4217 code of amounts without one (D2).
    `language`, "uk" or "en", is that of the pipeline, by default English, and of the owner's pages.
    `on_created` adds more records in the same transaction, before anyone can see the tenant.
    Raises Invalid, and Conflict `label_taken`.
    """
    users.check_name(name)
    code = SETTINGS.parse({"currency": currency})["currency"]
    if language is not None and language not in pipelines.FIRST_NAMES:
        detail = f"must be one of {', '.join(pipelines.FIRST_NAMES)}"
        raise Invalid.field("language", "invalid_choice", detail)
    person = {"name": name or label, **(owner or {}), "role": "owner"}

    # Called before the file gets its name, so no session can open a tenant without an owner.
    def add_first_records() -> None:
        with transaction():
            execute("UPDATE tenant SET currency = ?", (code,))
            users.create({**users.USER_IN.parse(person), "language": language})
            pipelines.create_first(language or "en")
            on_created()

    tenants.create(label, name=name, plan=plan, on_created=add_first_records)


def clone(tenants: Tenants, label: str, new: str, name: str = "") -> None:
    """Copy a tenant with all its records to another label, to try things out on.

    API keys, sessions, SMS codes and links, those to papers too, which could act in the other
    tenant's name, end in the copy; its webhooks are switched off and their waiting deliveries held.
    Numbers of records and events go on. `name` of the business: the other's when empty. Raises
    Invalid, NotFound, and Conflict `label_taken`.
    """

    def end_access() -> None:
        mark_as_trial()
        calendar_tokens.end_all()
        for end in (api_keys.revoke_all, sessions.end_all, codes.end_all, links.end_all):
            end()
        execute("UPDATE paper_link SET ended_at = ? WHERE ended_at IS NULL", (now(),))
        subscriptions.switch_all_off()
        alerts.cancel_messages("9999")
        telegram_chats.disconnect_all()
        if name:
            update(name=name)

    backup.clone(tenants, label, new, end_access)


def mark_as_trial() -> None:
    """Note that the session's tenant is for trying things out; in the transaction that makes it."""
    execute("UPDATE tenant SET is_trial = 1")


def require_trial() -> None:
    """Raise Conflict unless the session's tenant is one of the demo or a clone."""
    if not one_row("SELECT is_trial FROM tenant")[0]:
        label = current_session().label
        raise Conflict(
            f"{label} is neither the demo's nor a clone, so its records are real: make a copy by"
            f" `tenant clone {label} NEW` and use that",
            "not_a_trial",
        )


def about() -> dict[str, Any]:
    """The name, plan, settings, `created_at` and `suspended_at` of the session's tenant."""
    names = ("name", "plan", *SETTINGS.fields, "created_at", "suspended_at")
    return dict(zip(names, one_row(f"SELECT {', '.join(names)} FROM tenant"), strict=True))


def currency() -> str:
    """The currency of amounts that don't name one (D2)."""
    return one_row("SELECT currency FROM tenant")[0]


def update(**settings: Any) -> None:
    """Change the settings that are given; records keep their currency.

    `name` is that of the business, `currency` that of amounts without one, `time_zone` that of the
    business's days, such as "Europe/Kyiv"; `sellers_see_unassigned`: whether sellers see the leads
    of nobody. Raises Invalid.
    """
    stored = SETTINGS.parse(settings)
    # An older file may have a name that is refused today: saving it unchanged is no error.
    if "name" in stored and stored["name"] != about()["name"]:
        users.check_name(stored["name"])
    with transaction():
        for column, value in stored.items():
            execute(f"UPDATE tenant SET {column} = ?", (value,))


def change_plan(plan: str) -> None:
    """Change the plan; its limits apply from the next request on. Raises Invalid."""
    if plan not in PLANS:
        raise Invalid.field("plan", "invalid_choice", f"must be one of {', '.join(PLANS)}")
    with transaction():
        execute("UPDATE tenant SET plan = ?", (plan,))


def suspend() -> None:
    """Refuse all keys and sessions, and send no deliveries and alerts, until resume()."""
    with transaction():
        # A tenant that is suspended already keeps the time of the first suspension.
        execute("UPDATE tenant SET suspended_at = coalesce(suspended_at, ?)", (now(),))


def resume() -> None:
    """Undo suspend()."""
    with transaction():
        execute("UPDATE tenant SET suspended_at = NULL")
        notify_after_commit()  # what has waited is due
