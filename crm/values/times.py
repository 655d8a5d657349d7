"""Times and dates, from 1900 to 9999 (D2)."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from crm.values.invalid_value import InvalidValue

FIRST_DAY, LAST_DAY = "1900-01-01", "9999-12-31"
FIRST, LAST = f"{FIRST_DAY}T00:00:00Z", f"{LAST_DAY}T23:59:59Z"
END = f"{LAST_DAY}T24:00:00Z"  # sorts behind every time; only filters have it


def moment(value: object) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SSZ`, from RFC 3339 text or an aware datetime (D2).

    Fractions of a second are cut. Errors: invalid_time.
    """
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    try:
        if match:
            value = datetime.fromisoformat(f"{match[1]}{match[2].upper()}")
        if isinstance(value, datetime) and value.utcoffset() is not None:
            exact = value if value.tzinfo is UTC else value.astimezone(UTC)
            if (text := exact.isoformat("T", "seconds")[:19] + "Z") >= FIRST:
                return text
    except (ValueError, OverflowError):
        pass
    raise InvalidValue(
        "invalid_time",
        "must be a time from 1900 to 9999 with an offset, such as 2026-03-31T12:00:00Z or …+03:00",
    )


def local_moment(local: datetime, zone: ZoneInfo) -> str:
    """Return the time at which the clocks of a zone show a date and time, as times are stored.

    On the first and the last day it is the nearest one that can be stored. Errors: invalid_time.
    """
    try:
        return moment(local.replace(tzinfo=zone))
    except InvalidValue:
        if (day := f"{local:%Y-%m-%d}") in (FIRST_DAY, LAST_DAY):
            return FIRST if day == FIRST_DAY else LAST
        raise


def local_day(value: object, time_of_day: time, zone: ZoneInfo) -> str:
    """Return the time of day of a zone on a date, as times are stored. Errors: invalid_date."""
    return local_moment(datetime.combine(date.fromisoformat(day(value)), time_of_day), zone)


def day(value: object) -> str:
    """Return a date as `YYYY-MM-DD`, from such a text or a date (D2). Errors: invalid_date."""
    # A datetime is a date to Python, but its day depends on the time zone.
    text = value.isoformat() if isinstance(value, date) else value
    if isinstance(text, str) and _DAY.fullmatch(text) and text >= FIRST_DAY:
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            pass
    detail = f"must be a date from {FIRST_DAY} to {LAST_DAY}, such as 2026-03-31"
    raise InvalidValue("invalid_date", detail)


def midnight(text: str, zone: str, at_end: bool = False) -> str:
    """Return the time at which a day begins in a time zone, or ends, as times are stored.

    The first day has all times before it, and the last day, which ends with END, all behind it: so
    each time is on a day. Errors: invalid_date.
    """
    start = date.fromisoformat(day(text))
    if text == (LAST_DAY if at_end else FIRST_DAY):
        return END if at_end else FIRST
    return local_day(start + timedelta(at_end), time(), ZoneInfo(zone))


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    rf"({_DAY.pattern}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
