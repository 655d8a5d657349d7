#!/bin/sh
# vobject gives two time zones of one abbreviation the same TZID, and one of them is lost.
#
# Expected: TZID identifies one VTIMEZONE within a calendar (RFC 5545, section 3.8.3.1), and each
# zone that is used has its own (3.2.19), so that 10:00 in Cairo is read as 10:00 in Cairo.
# What happens: the TZID of a datetime with a ZoneInfo is an abbreviation of the zone, EET for Kyiv
# and for Cairo. Only the first VTIMEZONE is written, and the event in Cairo refers to the rules of
# Kyiv. In April, when Kyiv has summer time already and Cairo not yet, it is an hour early.
# Version: vobject 0.9.9, with zoneinfo of Python's standard library.
# For a CRM: meetings with clients in two countries, exported into one calendar, move by an hour.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check vobject==0.9.9 tzdata==2026.3
export PYTHONUTF8=1

cat > write.py <<'PY'
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import vobject

calendar = vobject.iCalendar()
for zone in ("Europe/Kyiv", "Africa/Cairo"):
    event = calendar.add("vevent")
    event.add("uid").value = zone
    event.add("summary").value = zone
    event.add("dtstart").value = datetime(2026, 4, 10, 10, tzinfo=ZoneInfo(zone))
    print("written:", zone, event.dtstart.value.astimezone(UTC))
text = calendar.serialize()
print(*[line for line in text.splitlines() if "TZID" in line])
for event in vobject.readOne(text).vevent_list:
    print("read:", event.summary.value, event.dtstart.value.astimezone(UTC))
PY
expected="written: Europe/Kyiv 2026-04-10 07:00:00+00:00
written: Africa/Cairo 2026-04-10 08:00:00+00:00
TZID:EET DTSTART;TZID=EET:20260410T100000 DTSTART;TZID=EET:20260410T100000
read: Europe/Kyiv 2026-04-10 07:00:00+00:00
read: Africa/Cairo 2026-04-10 07:00:00+00:00"
seen=$(venv/bin/python write.py 2>&1) || :
echo "vobject 0.9.9 writes events at 10:00 in Kyiv and at 10:00 in Cairo"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: vobject writes other time zones" >&2; exit 1; }
