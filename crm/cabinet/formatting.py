"""Dates, money, numbers and phones as the reader writes them, and errors in their language."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from babel import Locale, dates, numbers, units
from flask import Flask, g

from crm import values
from crm.cabinet import languages
from crm.cabinet.languages import TEXTS, coded_text, get_locale, gettext, ngettext
from crm.errors import CRMError, Fault, TooMany
from crm.resources import tenant
from crm.storage.session import now
from crm.values.recurrence import WEEKDAYS

SIZE_UNITS = (
    *(("digital-gigabyte", 1 << 30), ("digital-megabyte", 1 << 20), ("digital-kilobyte", 1 << 10)),
    ("digital-byte", 1),
)
UNITS_OF_RULES = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
DURATION_UNITS = (("duration-day", 86_400), ("duration-hour", 3600), ("duration-minute", 60))


def install(app: Flask) -> None:
    """Our texts in the templates, and their filters."""
    languages.install(app)
    for filter in (
        *(money, short_money, number, phone, moment, day, ago, due, weekday),
        *(duration, size, source, initials, urlencode_all),
    ):
        app.add_template_filter(filter)


def time_zone() -> str:
    """The name of the zone of the tenant visited."""
    if (zone := g.get("time_zone")) is None:
        zone = g.time_zone = tenant.about()["time_zone"]
    return zone


def local(text: str) -> datetime:
    """A moment in the tenant's zone; in UTC where that would not be on a day of D2."""
    return _in_zone(text, time_zone())


@lru_cache(maxsize=1000)
def _in_zone(text: str, zone: str) -> datetime:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    with suppress(OverflowError):  # of the last hours of the year 9999
        if (local := moment.astimezone(ZoneInfo(zone))).year >= 1900:
            return local
    return moment


def end_of_today() -> str:
    """The midnight that ends the present day of the tenant's zone, as times are stored."""
    return values.midnight(f"{local(now()).date()}", time_zone(), at_end=True)


def money(value: Any, currency: str | None = None) -> str:
    """An amount with its currency, kopecks only where there are any."""
    if value is None:
        return ""
    if not currency:  # kept for the request: rows of lists have amounts of own fields
        currency = g.currency = g.get("currency") or tenant.currency()
    return _written_money(str(value), currency, get_locale())


@lru_cache(maxsize=1000)
def _written_money(value: str, currency: str, locale: Locale) -> str:
    amount = Decimal(value)
    places = "" if amount == amount.to_integral_value() else ".00##"
    written = numbers.format_decimal(amount, format=f"#,##0{places}", locale=locale)
    return f"{written}\u00a0{numbers.get_currency_symbol(currency, locale=locale)}"


def short_money(value: Any, currency: str) -> str:
    """An amount of three digits or so, where there is little room: "2,52 млн ₴"."""
    return numbers.format_compact_currency(
        value, currency, locale=get_locale(), fraction_digits=2 if value >= 1_000_000 else 0
    )


def number(value: Any, exact: bool = False) -> str:
    """With at most 3 decimals unless `exact`."""
    if value is None:
        return ""
    amount = Decimal(str(value))
    return numbers.format_decimal(amount, locale=get_locale(), decimal_quantization=not exact)


def typed_number(value: Any, is_amount: bool = False) -> str:
    """A number as it is typed into a form: with the reader's decimal sign, without groups."""
    exact = Decimal(str(value))
    whole = exact == exact.to_integral_value()
    places = "" if whole else ".00##" if is_amount else ".######"
    return numbers.format_decimal(exact, format=f"0{places}", locale=get_locale())


def phone(number: str | None, space: str = "\u00a0") -> str:
    """A phone number as people write it: `067 123 45 67`, those of other countries `+48 22 …`.

    `number` is E.164 (D2); anything else, as a form that was refused has it, stays as it is.
    """
    if not number or not number.startswith("+") or not number[1:].isdecimal():
        return number or ""
    if number.startswith("+380") and len(number) == 13:
        return space.join((number[3:6], number[6:9], number[9:11], number[11:]))
    import phonenumbers  # see crm/values/phone_email.py

    parsed = phonenumbers.parse(number)
    written = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.INTERNATIONAL)
    return written.replace(" ", space)


def moment(text: str | None, time: str = "%H:%M") -> str:
    """A day and time in the tenant's zone; `time` is the format of the time."""
    if not text:
        return ""
    at = local(text)
    return f"{_written_day(at.date(), 'd MMM y', get_locale())}, {at:{time}}"


def day(text: str | None) -> str:
    """The day of a date, or of a moment in the tenant's zone."""
    if not text:
        return ""
    local_day = date.fromisoformat(text) if len(text) == 10 else local(text).date()
    return _written_day(local_day, "d MMM y", get_locale())


@lru_cache(maxsize=1000)
def _written_day(day: date, pattern: str, locale: Locale) -> str:
    return dates.format_date(day, pattern, locale=locale)


def month(text: str) -> str:
    """The month of `YYYY-MM`, short."""
    return dates.format_date(date.fromisoformat(f"{text}-01"), "LLL y", locale=get_locale())


def ago(text: str | None, **options: Any) -> str:
    """How long ago it was, roughly; `options` are those of Babel's format_timedelta()."""
    if not text:
        return ""
    since = datetime.now(UTC) - datetime.fromisoformat(text)
    if since < timedelta(minutes=1):
        return gettext("just now")
    options = options or {"add_direction": True}
    # So exactly that the texts are the same, and few enough to be remembered.
    step = timedelta(minutes=1) if since < timedelta(days=2) else timedelta(hours=1)
    return _written_length(-round(since / step) * step, get_locale(), **options)


def due(text: str | None) -> str:
    """When something is due, as briefly as it is clear: the time, the weekday, the date."""
    if not text:
        return ""
    at, today = local(text), local(now()).date()
    days = (at.date() - today).days
    if days < 0:
        return f"−{_written_length(timedelta(-days), get_locale(), format='short')}"
    if days >= 7:
        return _written_day(at.date(), "d MMM", get_locale())
    day = f"{_written_day(at.date(), 'EEE', get_locale())}, " if days else ""
    return f"{day}{at:%H:%M}"


@lru_cache(maxsize=1000)
def _written_length(delta: timedelta, locale: Locale, **options: Any) -> str:
    return dates.format_timedelta(delta, locale=locale, **options)


def weekday(text: str) -> str:
    """A day with its name: "Tuesday, 24 November"."""
    return dates.format_date(date.fromisoformat(text), "EEEE, d MMMM", locale=get_locale())


def initials(name: str) -> str:
    """The first letters of the first two words of a name."""
    return "".join(word[0] for word in re.findall(r"\w+", name)[:2]).upper()


def source(text: str | None) -> str:
    """Where a record came from, in words for the sources that the program itself writes."""
    return coded_text("sources", text) or text if text else ""


def source_codes(words: str) -> list[str]:
    """The sources that source() writes so, whatever the case of letters."""
    return [code for code in TEXTS["sources"] if source(code).casefold() == words.casefold()]


def urlencode_all(parameters: dict[str, Any]) -> str:
    """A query string; a list of values becomes as many parameters."""
    return urlencode(parameters, doseq=True)


def size(count: int) -> str:
    """A number of bytes with its unit."""
    return _in_largest_unit(count, SIZE_UNITS)


def later(seconds: int) -> str:
    """In how long that is, rounded up: "in 2 minutes"."""
    full = seconds if seconds < 60 else -(-seconds // 60) * 60
    delta = timedelta(seconds=full)
    return dates.format_timedelta(delta, add_direction=True, threshold=1, locale=get_locale())


def duration(seconds: int | None) -> str:
    """A length of time in the largest unit that it has one of: "4.6 days", "12 min"."""
    if seconds is None:
        return ""
    return _in_largest_unit(seconds, DURATION_UNITS)


def rule_parts(parts: dict[str, str]) -> Iterator[str]:
    """What a rule such as `FREQ=WEEKLY;INTERVAL=2;BYDAY=MO` says beside its frequency."""
    locale = get_locale()
    if count := parts.get("INTERVAL"):
        unit = UNITS_OF_RULES[parts["FREQ"]]
        time = units.format_unit(int(count), f"duration-{unit}", locale=locale)
        yield gettext("every %(time)s", time=time)
    if days := parts.get("BYDAY"):
        names = locale.days["format"]["abbreviated"]
        yield from (names[WEEKDAYS.index(day)] for day in days.split(","))
    if number := parts.get("BYMONTHDAY"):
        last = gettext("the last day")
        yield last if number == "-1" else gettext("on day %(number)s", number=number)
    if until := parts.get("UNTIL"):
        yield gettext("until %(day)s", day=day(date.fromisoformat(until[:8]).isoformat()))
    if count := parts.get("COUNT"):
        yield ngettext("%(num)d more time", "%(num)d more times", int(count))


def _in_largest_unit(count: int, sizes: tuple[tuple[str, int], ...]) -> str:
    name, size = next((unit for unit in sizes if count >= unit[1]), sizes[-1])
    return units.format_unit(round(count / size, 1), name, "short", locale=get_locale())


def local_input(text: str | None) -> str:
    """A moment as an `<input type=datetime-local>` takes it."""
    return f"{local(text):%Y-%m-%dT%H:%M}" if text else ""


def fault(reason: Fault) -> str:
    """Why a value doesn't fit, in the reader's language, else in the API's own words."""
    return coded_text("faults", reason.code) or reason.detail


def refusal(refused: CRMError) -> str:
    """Why something was refused as a whole, or for the first value that doesn't fit."""
    if refused.faults:
        return fault(refused.faults[0])
    if text := coded_text("refusals", refused.code):
        return text
    if isinstance(refused, TooMany):
        return gettext("Please try again %(when)s.", when=later(refused.retry_after))
    return refused.detail
