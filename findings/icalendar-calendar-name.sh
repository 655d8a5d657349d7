#!/bin/sh
# icalendar shows the backslash of an escaped comma in the name of a calendar, and writes none.
#
# Expected: NAME is of the type TEXT (RFC 7986, section 5.1), whose commas, semicolons and line ends
# are escaped (RFC 5545, section 3.3.11). A calendar called "Furniture, doors" is read as
# "Furniture, doors" and written as NAME:Furniture\, doors, as its DESCRIPTION is, which the same
# RFC 7986 defines.
# What happens: `calendar_name` of a calendar that was read has the backslash, while `description`
# has none. The property that is set from Python is written without one.
# Version: icalendar 7.3.2.
# For a CRM: the feed of tasks of a company whose name has a comma.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check icalendar==7.3.2
export PYTHONUTF8=1

cat > name.py <<'PY'
import icalendar

LINES = (
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//example//EN",
    "NAME:Furniture\\, doors",
    "DESCRIPTION:Furniture\\, doors",
    "END:VCALENDAR",
)
calendar = icalendar.Calendar.from_ical("\r\n".join(LINES) + "\r\n")
print("read, name:", calendar.calendar_name)
print("read, description:", calendar.description)
calendar = icalendar.Calendar()
calendar.calendar_name = calendar.description = "Furniture, doors"
for line in calendar.to_ical().decode().splitlines():
    if line.startswith(("NAME", "DESCRIPTION")):
        print("written,", line)
PY
expected="read, name: Furniture\\, doors
read, description: Furniture, doors
written, DESCRIPTION:Furniture\\, doors
written, NAME:Furniture, doors"
seen=$(venv/bin/python -W ignore name.py 2>&1) || :
echo "icalendar 7.3.2 reads and writes the name of a calendar that has a comma"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: icalendar takes NAME otherwise" >&2; exit 1; }
