"""Dates, money, numbers and phones as the reader writes them, and errors in their language."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import phonenumbers
from babel import dates, numbers
from flask import Flask, g

from crm.cabinet import languages
from crm.cabinet.languages import get_locale, gettext
from crm.errors import CRMError, Fault, TooMany
from crm.resources import tenant


def install(app: Flask) -> None:
    """Our texts in the templates, and their filters."""
    languages.install(app)
    for filter in (money, number, phone, moment, day, month, ago, size):
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
    written = numbers.format_decimal(amount, format=f"#,##0{places}", locale=get_locale())
    symbol = numbers.get_currency_symbol(currency or tenant.currency(), locale=get_locale())
    return f"{written}\u00a0{symbol}"


def number(value: Any, exact: bool = False) -> str:
    """With at most 3 decimals unless `exact`."""
    if value is None:
        return ""
    amount = Decimal(str(value))
    return numbers.format_decimal(amount, locale=get_locale(), decimal_quantization=not exact)


def phone(number: str | None, space: str = "\u00a0") -> str:
    """A phone number as people write it: `067 123 45 67`, those of other countries `+48 22 …`.

    `number` is E.164 (D2); anything else, as a form that was refused has it, stays as it is.
    """
    if not number or not number.startswith("+") or not number[1:].isdecimal():
        return number or ""
    if number.startswith("+380") and len(number) == 13:
        return space.join((number[3:6], number[6:9], number[9:11], number[11:]))
    parsed = phonenumbers.parse(number)
    written = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.INTERNATIONAL)
    return written.replace(" ", space)


def moment(text: str | None) -> str:
    """A day and time in the tenant's zone."""
    return (
        dates.format_datetime(_local(text), "d MMM y, HH:mm", locale=get_locale()) if text else ""
    )


def day(text: str | None) -> str:
    """The day of a date, or of a moment in the tenant's zone."""
    if not text:
        return ""
    local_day = date.fromisoformat(text) if len(text) == 10 else _local(text).date()
    return dates.format_date(local_day, "d MMM y", locale=get_locale())


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
    """A number of bytes with its unit."""
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


def fault(reason: Fault) -> str:
    """Why a value doesn't fit, in the reader's language, else in the API's own words."""
    texts = {
        "required": gettext("Please fill in this field."),
        "null": gettext("Please fill in this field."),
        "invalid_phone": gettext("Enter a phone number, such as 067 123 45 67."),
        "invalid_email": gettext("Enter an e-mail address, such as olena@example.com."),
        "invalid_number": gettext("Enter a number."),
        "too_precise": gettext("Too many decimal places."),
        "too_small": gettext("This number is too small."),
        "too_large": gettext("This number is too large."),
        "out_of_range": gettext("This number is out of range."),
        "too_long": gettext("This text is too long."),
        "invalid_text": gettext("The text contains characters that cannot be saved."),
        "invalid_choice": gettext("Choose one from the list."),
        "unknown_id": gettext("This record no longer exists."),
        "invalid_time": gettext("Enter a date and time."),
        "invalid_date": gettext("Enter a date."),
        "in_the_future": gettext("This cannot be in the future."),
        "phone_or_email": gettext("Enter a phone number or an e-mail address."),
        "currency_mismatch": gettext("The currencies are different."),
        "invalid_label": gettext("Use Latin letters, digits and hyphens."),
        "invalid_url": gettext("Enter a web address, such as https://…"),
        "forbidden_address": gettext("This address is not public."),
        "too_short": gettext("This is too short."),
        "wrong_password": gettext("Wrong password."),
        "invalid_origin": gettext("Enter a site as https://shop.example.ua, without a path."),
        "not_a_form_key": gettext("Sites can only be set for a key that only creates leads."),
        "invalid_stage": gettext("Choose the stage to move the deals to."),
        "invalid_color": gettext("Enter a colour."),
        "amount_of_items": gettext(
            "The amount is calculated from items. To enter it, choose “entered manually”"
            " under “More”."
        ),
        "contact_of_another_client": gettext("This contact belongs to another client."),
        "invalid_currency": gettext("Enter a currency code, such as UAH."),
        "duplicate_source": gettext("Another form has this source."),
        "in_the_past": gettext("This must be in the future."),
        "url_like_name": gettext("A name cannot contain a web or e-mail address."),
    }
    return texts.get(reason.code, reason.detail)


def refusal(refused: CRMError) -> str:
    """Why something was refused as a whole."""
    texts = {
        "duplicate_sku": gettext("Another product has this SKU."),
        "duplicate_user": gettext("Another user has this phone number or e-mail address."),
        "duplicate_external_id": gettext("Another record has this external id."),
        "last_owner": gettext("At least one active owner is needed."),
        "client_has_open_deals": gettext("This client has open deals."),
        "lead_already_converted": gettext("This lead has already been converted."),
        "task_cancelled": gettext("A cancelled task cannot be completed: reopen it first."),
        "label_taken": gettext("This address is taken."),
        "tenant_suspended": gettext("This account is suspended."),
        "tenant_unavailable": gettext(
            "The data of this account cannot be opened. The operator has been notified."
        ),
        "storage_full": gettext("Nothing can be saved now: the server's disk is full."),
        "storage_read_only": gettext("Nothing can be saved now: the server's disk is read-only."),
        "missing_scope": gettext("Your role does not allow this."),
        "no_access": gettext("You do not have access to this."),
        "webhook_inactive": gettext("This webhook is turned off."),
        "too_many_webhooks": gettext("There can be at most ten webhooks."),
        "default_pipeline": gettext("Make another pipeline the default first."),
        "stage_in_use": gettext("This stage has deals. Choose where to move them."),
        "pipeline_in_use": gettext("This pipeline has deals. Choose where to move them."),
        "last_open_stage": gettext("A pipeline needs at least one open stage."),
        "too_many_stages": gettext("No more stages can be added."),
        "too_many_pipelines": gettext("No more pipelines can be added."),
        "too_many_letters": gettext("The daily e-mail limit is reached. Try again tomorrow."),
        "login_again": gettext("Please log in again to continue."),
        "currency_fixed": gettext("The currency cannot be changed while the deal has items."),
        "too_many_items": gettext("A deal can have at most 1000 items."),
        "precondition_failed": gettext(
            "Someone else has changed this in the meantime. Nothing was saved: the current version"
            " is shown."
        ),
        "too_large": gettext("This is too large to upload."),
        "storage_quota": gettext(
            "The storage limit of this plan is reached. Delete some records first."
        ),
    }
    if isinstance(refused, TooMany) and refused.code not in texts:
        return gettext("Please try again %(when)s.", when=later(refused.retry_after))
    return texts.get(refused.code, refused.detail)
