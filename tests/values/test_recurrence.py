"""Rules by which tasks repeat (D10)."""

from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from crm import values
from crm.values import InvalidValue

KYIV = ZoneInfo("Europe/Kyiv")


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("freq=daily;interval=1", "FREQ=DAILY"),
        ("INTERVAL=2;FREQ=WEEKLY;BYDAY=FR,MO,FR", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR"),
        ("FREQ=MONTHLY;COUNT=3;BYMONTHDAY=-1", "FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3"),
        ("FREQ=YEARLY;UNTIL=20301231T100000Z", "FREQ=YEARLY;UNTIL=20301231T100000Z"),
    ],
)
def test_a_rule_has_one_spelling(sent, stored):
    assert values.repeat_rule(sent) == stored == values.repeat_rule(stored)


@pytest.mark.parametrize(
    "sent",
    [
        *("", 7, None, "daily", "FREQ=HOURLY", "FREQ=DAILY;FREQ=DAILY", "FREQ=DAILY;", "BYDAY=MO"),
        *("FREQ=DAILY;BYDAY=MO", "FREQ=WEEKLY;BYMONTHDAY=1", "FREQ=YEARLY;BYMONTH=2"),
        *("FREQ=MONTHLY;BYMONTHDAY=32", "FREQ=MONTHLY;BYMONTHDAY=0", "FREQ=WEEKLY;BYDAY=1MO"),
        *("FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;UNTIL=20261301"),
        *("FREQ=DAILY;COUNT=2;UNTIL=20270101", "FREQ=DAILY\nCOUNT=2", "RRULE:FREQ=DAILY"),
    ],
)
def test_any_other_text_is_refused(sent):
    with pytest.raises(InvalidValue) as refused:
        values.repeat_rule(sent)
    assert refused.value.code == "invalid_rule"


@pytest.mark.parametrize(
    ("rule", "moment", "following"),
    [  # the clocks of Kyiv go forward on 29 March and back on 25 October
        ("FREQ=DAILY", "2026-03-28T07:00:00Z", ["03-29T06:00", "03-30T06:00"]),
        ("FREQ=WEEKLY", "2026-10-19T06:00:00Z", ["10-26T07:00", "11-02T07:00"]),
        ("FREQ=WEEKLY;BYDAY=MO", "2026-03-29T21:30:00Z", ["04-05T21:30", "04-12T21:30"]),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-03-06T10:00:00Z", ["03-09T10:00"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "2026-03-04T10:00:00Z", ["03-16T10:00"]),
        ("FREQ=MONTHLY", "2026-01-31T10:00:00Z", ["03-31T09:00", "05-31T09:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "2026-01-31T10:00:00Z", ["02-28T10:00", "03-31T09:00"]),
        ("FREQ=DAILY;UNTIL=20260303", "2026-03-02T10:00:00Z", ["03-03T10:00"]),
        ("FREQ=DAILY;UNTIL=20260303T095959Z", "2026-03-02T10:00:00Z", []),
        ("FREQ=DAILY;COUNT=2", "2026-03-02T10:00:00Z", ["03-03T10:00"]),
    ],
)
def test_the_times_of_a_rule_follow_the_clocks_of_the_zone(rule, moment, following):
    times = list(islice(values.times_after(rule, moment, KYIV), 2))
    assert times[: len(following)] == [f"2026-{text}:00Z" for text in following]
    assert len(times) == len(following) or len(following) == 1 and "UNTIL" not in rule
    assert values.next_time(rule, moment, moment, KYIV) == (
        (times[0], rule.replace("COUNT=2", "COUNT=1")) if times else None
    )


def test_times_that_are_over_are_passed_and_counted():
    due_at, now = "2026-03-02T10:00:00Z", "2026-03-05T12:00:00Z"
    following = values.next_time("FREQ=DAILY;COUNT=6", due_at, now, KYIV)
    assert following == ("2026-03-06T10:00:00Z", "FREQ=DAILY;COUNT=2")
    assert values.next_time("FREQ=DAILY;COUNT=4", due_at, now, KYIV) is None
