#!/bin/sh
# ics names the calendar scale "Georgian", which another program refuses to read.
#
# Expected: a calendar without CALSCALE has the default, GREGORIAN, the only value that RFC 5545
# defines (section 3.7.1), and is valid when it has been read and written again.
# What happens: for a calendar that did not name its scale ics writes CALSCALE:GEORGIAN. Its own
# calendars and those that name the scale are written right, and ics reads its own file without a
# complaint. recurring-ical-events, which looks at the property, refuses the whole calendar.
# Version: ics 0.7.3, recurring-ical-events 3.8.2 with icalendar 7.3.2.
# For a CRM: a valid feed that such a program passes on is not valid any more.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  ics==0.7.3 icalendar==7.3.2 recurring-ical-events==3.8.2
export PYTHONUTF8=1

cat > scale.py <<'PY'
import icalendar
import ics
import recurring_ical_events

LINES = (
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//example//EN",
    "BEGIN:VEVENT",
    "UID:1",
    "DTSTAMP:20260301T000000Z",
    "SUMMARY:Зустріч",
    "DTSTART:20260319T080000Z",
    "DTEND:20260319T090000Z",
    "END:VEVENT",
    "END:VCALENDAR",
)
text = "\r\n".join(LINES) + "\r\n"
again = ics.Calendar(text).serialize()
print("written:", *[line for line in again.splitlines() if line.startswith("CALSCALE")])
print("ics reads:", len(ics.Calendar(again).events), "event")
for name, calendar in (("before", text), ("after", again)):
    try:
        events = recurring_ical_events.of(icalendar.Calendar.from_ical(calendar)).all()
        print(f"{name}: recurring-ical-events reads {len(list(events))} event")
    except Exception as error:
        print(f"{name}: recurring-ical-events refuses: {error}")
PY
expected="written: CALSCALE:GEORGIAN
ics reads: 1 event
before: recurring-ical-events reads 1 event
after: recurring-ical-events refuses: Only Gregorian calendars are supported."
seen=$(venv/bin/python -W ignore scale.py 2>&1) || :
echo "ics 0.7.3 reads and writes a calendar without CALSCALE"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: ics writes another scale" >&2; exit 1; }
