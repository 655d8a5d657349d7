"""Times and dates (D2)."""

import re
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from crm.values.invalid_value import InvalidValue


def moment(value: object) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SSZ`, from RFC 3339 text or an aware datetime (D2).

    Fractions of a second are cut; years 1970 to 9999. Errors: invalid_time.
    """
    if isinstance(value, datetime):
        return _utc(value)
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise _not_a_moment()
    try:
        local = datetime.fromisoformat(f"{match[1]}{match[2].upper()}")
    except ValueError:
        raise _not_a_moment() from None
    return _utc(local)


def day(value: object) -> str:
    """Return a date as `YYYY-MM-DD`, from such a text or a date (D2). Errors: invalid_date."""
    # A datetime is a date to Python, but its day depends on the time zone.
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            pass
    raise InvalidValue("invalid_date", "must be a date such as 2026-03-31")


def midnight(day: date, zone: str) -> str:
    """Return the time at which a day begins in a time zone, as times are stored.

    Errors: invalid_date for a day that begins before 1970 or after 9999.
    """
    try:
        start = datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
    except OverflowError:
        start = None
    if start is None or start.year < 1970:
        raise InvalidValue("invalid_date", "must be a date from 1970 on")
    return f"{start:%Y-%m-%dT%H:%M:%SZ}"


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    rf"({_DAY.pattern}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def _utc(local: datetime) -> str:
    if local.utcoffset() is None:
        raise _not_a_moment()
    try:
        exact = local if local.tzinfo is UTC else local.astimezone(UTC)
    except OverflowError:
        raise _not_a_moment() from None
    if exact.year < 1970:
        raise InvalidValue("invalid_time", "must not be before 1970")
    return exact.isoformat("T", "seconds")[:19] + "Z"


def _not_a_moment() -> InvalidValue:
    return InvalidValue(
        "invalid_time", "must be a time with an offset such as 2026-03-31T12:00:00Z or …+03:00"
    )
