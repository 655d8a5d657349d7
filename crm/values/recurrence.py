"""Rules by which a task repeats: a part of RRULE of iCalendar (RFC 5545, 3.3.10)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from crm.values.invalid_value import InvalidValue
from crm.values.times import local_moment

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# What each frequency takes, in the order in which rules are stored.
PARTS = {"DAILY": (), "WEEKLY": ("BYDAY",), "MONTHLY": ("BYMONTHDAY",), "YEARLY": ()}
VALUES = {
    "INTERVAL": "[1-9][0-9]{0,2}",
    "BYDAY": f"(?:{'|'.join(WEEKDAYS)})(?:,(?:{'|'.join(WEEKDAYS)})){{0,6}}",
    "BYMONTHDAY": "[1-9]|[12][0-9]|3[01]|-1",
    "UNTIL": "[0-9]{8}(?:T[0-9]{6}Z)?",
    "COUNT": "[1-9][0-9]{0,3}",
}


class Next(NamedTuple):
    """A later time of a rule, and the rule as it goes on from there."""

    moment: str
    rule: str


def repeat_rule(value: object) -> str:
    """Return a rule in its one spelling, such as `FREQ=WEEKLY;BYDAY=MO,WE`. Errors: invalid_rule.

    FREQ is DAILY, WEEKLY (with BYDAY), MONTHLY (with BYMONTHDAY, of which -1 is the last day) or
    YEARLY; INTERVAL, and UNTIL or COUNT, may follow.
    """
    pairs = [part.partition("=") for part in str(value).upper().split(";")]
    parts = {name: text for name, _, text in pairs}
    frequency = parts.pop("FREQ", "")
    names = ("INTERVAL", *PARTS.get(frequency, ()), "UNTIL", "COUNT")
    if (
        frequency not in PARTS
        or len(parts) != len(pairs) - 1  # none stands twice
        or not parts.keys() <= {*names}
        or parts.keys() >= {"UNTIL", "COUNT"}
        or not all(re.fullmatch(VALUES[name], text) for name, text in parts.items())
    ):
        raise InvalidValue(
            "invalid_rule",
            "must be FREQ=DAILY, WEEKLY[;BYDAY=MO,…], MONTHLY[;BYMONTHDAY=1…31 or -1] or YEARLY,"
            " perhaps with INTERVAL, and UNTIL or COUNT",
        )
    if "UNTIL" in parts:
        _end(parts["UNTIL"], ZoneInfo("UTC"))
    if "BYDAY" in parts:
        parts["BYDAY"] = ",".join(sorted({*parts["BYDAY"].split(",")}, key=WEEKDAYS.index))
    if parts.get("INTERVAL") == "1":
        del parts["INTERVAL"]
    return _spell({"FREQ": frequency, **{name: parts[name] for name in names if name in parts}})


def times_after(rule: str, moment: str, zone: ZoneInfo) -> Iterator[str]:
    """The times of a rule that follow one of them, by the clocks of a zone."""
    from dateutil import rrule  # takes 25 ms, of processes that repeat tasks alone

    parts = parts_of(rule)
    start = datetime.fromisoformat(moment).astimezone(zone).replace(tzinfo=None)
    options: dict[str, Any] = {"dtstart": start, "interval": int(parts.get("INTERVAL", 1))}
    if "BYDAY" in parts:
        options["byweekday"] = list(map(WEEKDAYS.index, parts["BYDAY"].split(",")))
    if "BYMONTHDAY" in parts:
        options["bymonthday"] = int(parts["BYMONTHDAY"])
    if "UNTIL" in parts:
        options["until"] = _end(parts["UNTIL"], zone)
    # The first is the time itself, unless it is none of the rule's: then the rule begins after it.
    times = (time for time in rrule.rrule(getattr(rrule, parts["FREQ"]), **options) if time > start)
    further = int(parts["COUNT"]) - 1 if "COUNT" in parts else None
    return (local_moment(time, zone) for time in islice(times, further))


def next_time(rule: str, moment: str, after: str, zone: ZoneInfo) -> Next | None:
    """The first time of a rule behind `moment` that is after `after`; None if the rule ends."""
    parts = parts_of(rule)
    for passed, following in enumerate(times_after(rule, moment, zone), 1):
        if following > after:
            if "COUNT" in parts:
                parts["COUNT"] = str(int(parts["COUNT"]) - passed)
            return Next(following, _spell(parts))
    return None


def parts_of(rule: str) -> dict[str, str]:
    """{name: text} of a stored rule."""
    return dict(part.split("=") for part in rule.split(";"))


def _spell(parts: dict[str, str]) -> str:
    return ";".join(f"{name}={text}" for name, text in parts.items())


def _end(text: str, zone: ZoneInfo) -> datetime:
    """The last time that UNTIL allows, by the clocks of a zone: of a day its end."""
    try:
        if len(text) == 8:
            return datetime.combine(datetime.strptime(text, "%Y%m%d"), time.max)
        end = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return end.astimezone(zone).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidValue("invalid_rule", f"UNTIL={text} is no day and no time") from None
