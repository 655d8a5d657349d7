#!/bin/sh
# ics moves a weekly meeting by an hour when summer time begins.
#
# Expected: a series whose DTSTART has a local time and a time zone keeps that local time when the
# offset from UTC changes (RFC 5545, section 3.8.5.3: its New York examples at 9:00, EDT and EST).
# Reading a calendar and writing it again keeps a meeting of Thursdays, 10:00.
# What happens: DTSTART is written in UTC, 08:00Z, while the RRULE beside it, which the library does
# not understand but keeps, stays as it was. From the Sunday of the change on, the series is at
# 11:00.
# Version: ics 0.7.3, read with icalendar 7.3.2 and recurring-ical-events 3.8.2.
# For a CRM: a calendar feed that such a program reads and passes on sends people an hour too late.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check ics==0.7.3 tzdata==2026.3
export PYTHONUTF8=1

venv/bin/pip install -qq --disable-pip-version-check \
  icalendar==7.3.2 recurring-ical-events==3.8.2

cat > series.py <<'PY'
from zoneinfo import ZoneInfo

import icalendar
import ics
import recurring_ical_events

LINES = (
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//example//EN",
    "CALSCALE:GREGORIAN",
    "BEGIN:VEVENT",
    "UID:1",
    "DTSTAMP:20260301T000000Z",
    "SUMMARY:Зустріч",
    "DTSTART;TZID=Europe/Kyiv:20260319T100000",
    "DTEND;TZID=Europe/Kyiv:20260319T110000",
    "RRULE:FREQ=WEEKLY;COUNT=4",
    "END:VEVENT",
    "END:VCALENDAR",
)


def times(text):
    """The starts of all occurrences, as clocks in Kyiv show them."""
    events = recurring_ical_events.of(icalendar.Calendar.from_ical(text)).all()
    starts = sorted(event.start.astimezone(ZoneInfo("Europe/Kyiv")) for event in events)
    return ", ".join(f"{start:%d.%m %H:%M}" for start in starts)


text = "\r\n".join(LINES) + "\r\n"
again = ics.Calendar(text).serialize()
print("before:", times(text))
print("after:", times(again))
print(*[line for line in again.splitlines() if line.startswith(("DTSTART", "RRULE"))])
PY
expected="before: 19.03 10:00, 26.03 10:00, 02.04 10:00, 09.04 10:00
after: 19.03 10:00, 26.03 10:00, 02.04 11:00, 09.04 11:00
RRULE:FREQ=WEEKLY;COUNT=4 DTSTART:20260319T080000Z"
seen=$(venv/bin/python series.py 2>&1) || :
echo "ics 0.7.3 reads and writes a weekly meeting at 10:00 in Kyiv"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: ics writes another series" >&2; exit 1; }
