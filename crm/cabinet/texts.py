"""Dates, money and numbers as the reader's language writes them, and errors told in it."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from babel import dates, numbers
from flask import Flask, g

from crm.cabinet import languages
from crm.cabinet.languages import get_locale, gettext
from crm.errors import CRMError, Fault, TooMany
from crm.resources import tenant


def install(app: Flask) -> None:
    """Our texts in the templates, and their filters."""
    languages.install(app)
    for filter in (money, number, moment, day, month, ago, size):
        app.add_template_filter(filter)


def time_zone() -> str:
    """The name of the zone of the tenant visited."""
    if "time_zone" not in g:
        g.time_zone = tenant.about()["time_zone"]
    return g.time_zone


def _local(text: str) -> datetime:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    try:
        return moment.astimezone(ZoneInfo(time_zone()))
    except OverflowError:
        return moment  # the last hours of the year 9999


def money(value: Any, currency: str | None = None) -> str:
    """An amount with its currency, kopecks only where there are any."""
    if value is None:
        return ""
    amount = Decimal(str(value))
    places = "" if amount == amount.to_integral_value() else ".00##"
    shown = numbers.format_decimal(amount, format=f"#,##0{places}", locale=get_locale())
    symbol = numbers.get_currency_symbol(currency or tenant.currency(), locale=get_locale())
    return f"{shown}\u00a0{symbol}"


def number(value: Any, exact: bool = False) -> str:
    """With at most 3 decimals unless `exact`."""
    if value is None:
        return ""
    found = Decimal(str(value))
    return numbers.format_decimal(found, locale=get_locale(), decimal_quantization=not exact)


def moment(text: str | None) -> str:
    """A day and time in the tenant's zone."""
    return (
        dates.format_datetime(_local(text), "d MMM y, HH:mm", locale=get_locale()) if text else ""
    )


def day(text: str | None) -> str:
    """The day of a date, or of a moment in the tenant's zone."""
    if not text:
        return ""
    found = date.fromisoformat(text) if len(text) == 10 else _local(text).date()
    return dates.format_date(found, "d MMM y", locale=get_locale())


def month(text: str) -> str:
    """The month of `YYYY-MM`, short."""
    return dates.format_date(date.fromisoformat(f"{text}-01"), "LLL y", locale=get_locale())


def ago(text: str | None) -> str:
    """How long ago it was, roughly."""
    if not text:
        return ""
    since = datetime.now(UTC) - datetime.fromisoformat(text)
    return dates.format_timedelta(-since, add_direction=True, locale=get_locale())


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit in (gettext("bytes"), gettext("kB")):
        if count < 1024:
            return f"{number(count)} {unit}"
        count //= 1024
    return f"{number(count)} {gettext('MB')}"


def later(seconds: int) -> str:
    """In how long that is, rounded up: "in 2 minutes"."""
    full = seconds if seconds < 60 else -(-seconds // 60) * 60
    delta = timedelta(seconds=full)
    return dates.format_timedelta(delta, add_direction=True, threshold=1, locale=get_locale())


def local_input(text: str | None) -> str:
    """A moment as an `<input type=datetime-local>` takes it."""
    return f"{_local(text):%Y-%m-%dT%H:%M}" if text else ""


def fault(found: Fault) -> str:
    """Why a value doesn't fit, in the reader's language, else in the API's own words."""
    texts = {
        "required": gettext("Please fill this in."),
        "null": gettext("Please fill this in."),
        "invalid_phone": gettext("This is not a phone number, such as +380501234567."),
        "invalid_email": gettext("This is not an e-mail address, such as olena@example.com."),
        "invalid_number": gettext("This is not a number."),
        "too_precise": gettext("Too many digits after the comma."),
        "too_small": gettext("This number is too small."),
        "too_large": gettext("This number is too large."),
        "out_of_range": gettext("This number is out of range."),
        "too_long": gettext("This text is too long."),
        "invalid_text": gettext("There are characters here that cannot be kept."),
        "invalid_choice": gettext("Please choose one of the list."),
        "unknown_id": gettext("This record is not there any more."),
        "invalid_time": gettext("This is not a date and time."),
        "invalid_date": gettext("This is not a date."),
        "in_the_future": gettext("This must not be in the future."),
        "phone_or_email": gettext("Please give a phone number or an e-mail address."),
        "currency_mismatch": gettext("The currencies differ."),
        "invalid_label": gettext("Use Latin letters, digits and hyphen."),
        "invalid_url": gettext("This is not an address that can be called, such as https://…"),
        "forbidden_address": gettext("This address is not public."),
        "too_short": gettext("This is too short."),
        "wrong_password": gettext("This is not your password."),
        "invalid_origin": gettext("A site looks like https://shop.example.ua, without a path."),
        "not_a_form_key": gettext("Only a key that just creates leads names sites."),
        "invalid_stage": gettext("Please choose the stage that takes the deals."),
        "invalid_color": gettext("This is not a colour."),
        "amount_of_items": gettext("The amount comes from the items: set it by hand instead."),
        "contact_of_another_client": gettext("This contact is another client's."),
        "invalid_currency": gettext("This is not a currency, such as UAH."),
        "in_the_past": gettext("This must be in the future."),
        "url_like_name": gettext("A name must not hold the address of a site or an e-mail."),
    }
    return texts.get(found.code, found.detail)


def refusal(refused: CRMError) -> str:
    """Why something was refused as a whole."""
    texts = {
        "duplicate_sku": gettext("Another product has this SKU."),
        "duplicate_user": gettext("Another user has this phone number or e-mail address."),
        "duplicate_external_id": gettext("Another record has this external id."),
        "last_owner": gettext("Somebody must stay an active owner."),
        "client_has_open_deals": gettext("This client has open deals."),
        "lead_already_converted": gettext("This lead has been converted already."),
        "task_cancelled": gettext("A cancelled task cannot be done: open it first."),
        "label_taken": gettext("This address is taken."),
        "tenant_suspended": gettext("This account is suspended."),
        "tenant_unavailable": gettext(
            "The data of this account cannot be opened. Its operator has been told."
        ),
        "storage_full": gettext("Nothing can be saved now: the server's disk is full."),
        "storage_read_only": gettext("Nothing can be saved now: the server's disk is read-only."),
        "missing_scope": gettext("Your role does not allow this."),
        "no_access": gettext("You have no access here."),
        "webhook_inactive": gettext("This webhook is switched off."),
        "too_many_webhooks": gettext("There are ten webhooks already."),
        "default_pipeline": gettext("Make another pipeline the default first."),
        "stage_in_use": gettext("Deals sit in this stage: choose where they go."),
        "pipeline_in_use": gettext("Deals sit in this pipeline: choose where they go."),
        "last_open_stage": gettext("A pipeline keeps at least one open stage."),
        "too_many_stages": gettext("There is no room for another stage."),
        "too_many_pipelines": gettext("There is no room for another pipeline."),
        "too_many_letters": gettext("So many letters were sent today that no more can go."),
        "login_again": gettext("Please log in again first: this takes a login of a moment ago."),
        "currency_fixed": gettext("The currency stays while the deal has items."),
        "too_many_items": gettext("A deal has at most 1000 items."),
        "precondition_failed": gettext("Somebody else has changed this meanwhile."),
        "too_large": gettext("This is larger than what can be taken here."),
        "storage_quota": gettext("The storage of this plan is used up: delete records first."),
    }
    if isinstance(refused, TooMany) and refused.code not in texts:
        return gettext("Please try again %(when)s.", when=later(refused.retry_after))
    return texts.get(refused.code, refused.detail)
