"""The tenant itself: its name, plan and currency; the command line's and the cabinet's verbs (D18).

An API request never creates or changes a tenant.
"""

from collections.abc import Callable
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from crm import values
from crm.access import api_keys, codes, links, sessions
from crm.config import PLANS
from crm.errors import FaultCollector, Invalid
from crm.outbox import subscriptions
from crm.resources import pipelines, users
from crm.tenancy import backup
from crm.tenancy.database import execute, now, row, transaction
from crm.tenancy.tenants import Tenants

KYIV = "Europe/Kyiv"


def open_tenant(
    tenants: Tenants,
    label: str,
    *,
    name: str = "",
    plan: str = "business",
    currency: str = "UAH",
    language: str | None = None,
    owner: dict[str, Any] | None = None,
    furnish: Callable[[], None] = lambda: None,
) -> None:
    """Create a tenant with its owner and the pipeline "Sales" (D11). `owner` is as sent to users,
    `currency` the ISO 4217 code of what doesn't name one (D2). `language`, "uk" or "en", is that of
    the pipeline, English without one, and of the owner's pages.

    `furnish` adds what else shall be there, in the same transaction, before anyone can see it.
    Raises Invalid, or Conflict `label_taken`.
    """
    users.check_name(name)
    try:
        code = values.currency(currency)
    except values.InvalidValue as unfit:
        raise Invalid.field("currency", unfit.code, unfit.detail) from None
    if language is not None and language not in pipelines.FIRST_NAMES:
        detail = f"must be one of {', '.join(pipelines.FIRST_NAMES)}"
        raise Invalid.field("language", "invalid_choice", detail)
    person = {"name": name or label, **(owner or {}), "role": "owner"}

    def begin() -> None:
        with transaction():
            execute("UPDATE tenant SET currency = ?", (code,))
            users.create({**users.USER_IN.take(person), "language": language})
            pipelines.create_first(language or "en")
            furnish()

    tenants.create(label, name=name, plan=plan, furnish=begin)


def clone(tenants: Tenants, label: str, new: str, name: str = "") -> None:
    """Make a tenant to try things out on: everything that another has, beside it.

    What could act in the other's name ends in it: keys, sessions, codes and links; its webhooks are
    switched off, with what waited for them. Numbers of records and events go on. `name` of the
    business: the other's when empty. Raises Invalid, Conflict `label_taken`, NotFound.
    """

    def settle() -> None:
        for ends in (api_keys.revoke_all, sessions.end_all, codes.end_all, links.end_all):
            ends()
        subscriptions.switch_all_off()
        if name:
            rename(name)

    backup.clone(tenants, label, new, settle)


def about() -> dict[str, Any]:
    """{name, plan, currency, time_zone, created_at, suspended_at} of the tenant visited."""
    names = "name", "plan", "currency", "time_zone", "created_at", "suspended_at"
    return dict(zip(names, row(f"SELECT {', '.join(names)} FROM tenant"), strict=True))


def currency() -> str:
    """The currency of what doesn't name one (D2)."""
    return row("SELECT currency FROM tenant")[0]


def plan() -> str:
    """The plan of the tenant visited."""
    return row("SELECT plan FROM tenant")[0]


def rename(name: str) -> None:
    """Another name of the business. Raises Invalid."""
    try:
        kept = values.one_line(name, 255)
    except values.InvalidValue as unfit:
        raise Invalid.field("name", unfit.code, unfit.detail) from None
    if kept is None:
        raise Invalid.field("name", "required", "a business needs a name")
    if kept != about()["name"]:
        users.check_name(kept)
    with transaction():
        execute("UPDATE tenant SET name = ?", (kept,))


def settle(currency: str, time_zone: str) -> None:
    """The currency of what will not name one, and the zone whose days count: "Europe/Kyiv".

    What is there keeps its currency. Raises Invalid.
    """
    wrong = FaultCollector()
    try:
        currency = values.currency(currency)
    except values.InvalidValue as unfit:
        wrong.add("currency", unfit.code, unfit.detail)
    if time_zone not in time_zones():
        wrong.add("time_zone", "invalid_choice", "must be a zone such as Europe/Kyiv")
    wrong.raise_any()
    with transaction():
        execute("UPDATE tenant SET currency = ?, time_zone = ?", (currency, time_zone))


@cache
def time_zones() -> tuple[str, ...]:
    """The zones of the world that a business may be in, Kyiv's first."""
    cities = (name for name in available_timezones() if "/" in name and "Etc/" not in name)
    return (KYIV, *sorted({*cities, "UTC"} - {KYIV}))


def change_plan(plan: str) -> None:
    """The limit of the new plan holds from the next request on. Raises Invalid."""
    if plan not in PLANS:
        raise Invalid.field("plan", "invalid_choice", f"must be one of {', '.join(PLANS)}")
    with transaction():
        execute("UPDATE tenant SET plan = ?", (plan,))


def suspend() -> None:
    """No key works until resume()."""
    with transaction():
        execute("UPDATE tenant SET suspended_at = coalesce(suspended_at, ?)", (now(),))


def resume() -> None:
    with transaction():
        execute("UPDATE tenant SET suspended_at = NULL")
