"""Dates, money, numbers and phones as the reader writes them, and errors in their language."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import phonenumbers
from babel import dates, numbers
from flask import Flask, g

from crm.cabinet import languages
from crm.cabinet.languages import N_, get_locale, gettext
from crm.errors import CRMError, Fault, TooMany
from crm.resources import tenant

# Why a value does not fit, by the code of the fault.
FAULT_TEXTS = {
    "required": N_("Please fill in this field."),
    "null": N_("Please fill in this field."),
    "invalid_phone": N_("Enter a whole phone number: 067 123 45 67 or +48 22 123 45 67."),
    "invalid_email": N_("Enter an e-mail address, such as olena@example.com."),
    "invalid_number": N_("Enter a number."),
    "too_precise": N_("Too many decimal places."),
    "too_small": N_("This number is too small."),
    "too_large": N_("This number is too large."),
    "out_of_range": N_("This number is out of range."),
    "too_long": N_("This text is too long."),
    "invalid_text": N_("The text contains characters that cannot be saved."),
    "invalid_choice": N_("Choose one from the list."),
    "unknown_id": N_("This record no longer exists."),
    "invalid_time": N_("Enter a date and time."),
    "invalid_date": N_("Enter a date."),
    "in_the_future": N_("This cannot be in the future."),
    "phone_or_email": N_("Enter a phone number or an e-mail address."),
    "currency_mismatch": N_("The currencies are different."),
    "invalid_label": N_("Use Latin letters, digits and hyphens."),
    "invalid_url": N_("Enter a web address, such as https://…"),
    "forbidden_address": N_("This address is not public."),
    "too_short": N_("This is too short."),
    "wrong_password": N_("Wrong password."),
    "invalid_origin": N_("Enter a site as https://shop.example.ua, without a path."),
    "not_a_form_key": N_("Sites can only be set for a key that only creates leads."),
    "invalid_stage": N_("Choose the stage to move the deals to."),
    "invalid_color": N_("Enter a colour."),
    "amount_of_items": N_(
        "The amount is calculated from items. To enter it, choose “entered manually” under “More”."
    ),
    "contact_of_another_client": N_("This contact belongs to another client."),
    "invalid_currency": N_("Enter a currency code, such as UAH."),
    "too_many_rows": N_("A workbook has at most 100,000 rows: export CSV instead."),
    "missing_extra": N_("The extra “xlsx” is not installed here: export CSV instead."),
    "duplicate_source": N_("Another form has this source."),
    "in_the_past": N_("This must be in the future."),
    "url_like_name": N_("A name cannot contain a web or e-mail address."),
}
# Why something was refused as a whole, by the code of the error.
REFUSAL_TEXTS = {
    "not_your_batch": N_("Only who made these changes, or an owner, can undo them."),
    "already_undone": N_("This is undone already."),
    "batch_running": N_("This is still running: stop it first."),
    "too_old": N_("Changes can be undone for 30 days."),
    "too_many_imports": N_("Several imports are running: wait for one of them, or stop one."),
    "duplicate_sku": N_("Another product has this SKU."),
    "duplicate_user": N_("Another user has this phone number or e-mail address."),
    "duplicate_external_id": N_("Another record has this external id."),
    "last_owner": N_("At least one active owner is needed."),
    "client_has_open_deals": N_("This client has open deals."),
    "client_deleted": N_("The client of this deal is deleted. Restore the client first."),
    "lead_already_converted": N_("This lead has already been converted."),
    "task_cancelled": N_("A cancelled task cannot be completed: reopen it first."),
    "label_taken": N_("This address is taken."),
    "tenant_suspended": N_("This account is suspended."),
    "tenant_unavailable": N_(
        "The data of this account cannot be opened. The operator has been notified."
    ),
    "tenant_moving": N_("This account is being moved. Please try again in a minute."),
    "storage_full": N_("Nothing can be saved now: the server's disk is full."),
    "storage_read_only": N_("Nothing can be saved now: the server's disk is read-only."),
    "missing_scope": N_("Your role does not allow this."),
    "no_access": N_("You do not have access to this."),
    "webhook_inactive": N_("This webhook is turned off."),
    "too_many_webhooks": N_("There can be at most ten webhooks."),
    "default_pipeline": N_("Make another pipeline the default first."),
    "stage_in_use": N_("This stage has deals. Choose where to move them."),
    "pipeline_in_use": N_("This pipeline has deals. Choose where to move them."),
    "last_open_stage": N_("A pipeline needs at least one open stage."),
    "too_many_stages": N_("No more stages can be added."),
    "too_many_pipelines": N_("No more pipelines can be added."),
    "too_many_letters": N_("The daily e-mail limit is reached. Try again tomorrow."),
    "unlike_external_ids": N_("Both have an external ID: choose one."),
    "owners_only": N_("Only an owner of this account may erase personal data."),
    "login_again": N_("Please log in again to continue."),
    "currency_fixed": N_("The currency cannot be changed while the deal has items."),
    "too_many_items": N_("A deal can have at most 1000 items."),
    "precondition_failed": N_(
        "Someone else has changed this in the meantime. Nothing was saved: the current version"
        " is shown."
    ),
    "too_large": N_("This is too large to upload."),
    "storage_quota": N_("The storage limit of this plan is reached. Delete some records first."),
}


def install(app: Flask) -> None:
    """Our texts in the templates, and their filters."""
    languages.install(app)
    for filter in (money, number, phone, moment, day, month, ago, size, initials):
        app.add_template_filter(filter)


def time_zone() -> str:
    """The name of the zone of the tenant visited."""
    if "time_zone" not in g:
        g.time_zone = tenant.about()["time_zone"]
    return g.time_zone


def local(text: str) -> datetime:
    """A moment in the tenant's zone."""
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
    return dates.format_datetime(local(text), "d MMM y, HH:mm", locale=get_locale()) if text else ""


def day(text: str | None) -> str:
    """The day of a date, or of a moment in the tenant's zone."""
    if not text:
        return ""
    local_day = date.fromisoformat(text) if len(text) == 10 else local(text).date()
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


def initials(name: str) -> str:
    """The first letters of the first two words of a name."""
    words = [word for word in re.split(r"\W+", name) if word]
    return "".join(word[0] for word in words[:2]).upper()


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
    return f"{local(text):%Y-%m-%dT%H:%M}" if text else ""


def fault(reason: Fault) -> str:
    """Why a value doesn't fit, in the reader's language, else in the API's own words."""
    text = FAULT_TEXTS.get(reason.code)
    return gettext(text) if text else reason.detail


def refusal(refused: CRMError) -> str:
    """Why something was refused as a whole."""
    if text := REFUSAL_TEXTS.get(refused.code):
        return gettext(text)
    if isinstance(refused, TooMany):
        return gettext("Please try again %(when)s.", when=later(refused.retry_after))
    return refused.detail
