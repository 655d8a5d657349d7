#!/bin/sh
# ts-ics moves a meeting to UTC and cuts the names of guests when it writes a calendar again.
#
# Expected: a calendar that ts-ics has read and written is the same calendar; its README says that it
# aims to be fully compliant with RFC 5545. A time with neither a zone nor a "Z" is a local one
# (section 3.3.5, form 1), and a name with a comma is in quotes (section 3.2).
# What happens: the local time gets a "Z": ten o'clock becomes ten o'clock in UTC, 13:00 in Kyiv in
# summer. Names are written without quotes, and one with a comma is a list of two names for icalendar.
# None of them reports anything.
# Version: ts-ics 2.4.6, ical.js 2.2.1, icalendar 7.3.2.
# For a CRM: the meeting is missed, and the name "Surname, Given" of a guest is common.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check icalendar==7.3.2
npm install --silent --no-audit --no-fund --no-progress ts-ics@2.4.6 ical.js@2.2.1 \
  > npm.log 2>&1 || { echo "ts-ics@2.4.6 cannot be installed" >&2; exit 1; }
export PYTHONUTF8=1

cat > write.mjs <<'JS'
import { writeFileSync } from 'node:fs'
import ICAL from 'ical.js'
import { convertIcsCalendar, generateIcsCalendar } from 'ts-ics'

const text = [
  'BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//example.com//calendar//UK', 'BEGIN:VEVENT',
  'UID:1@example.com', 'DTSTAMP:20240101T000000Z', 'SUMMARY:Зустріч',
  'DTSTART:20240506T100000', 'DTEND:20240506T110000',
  'ATTENDEE;CN="Коваль, Марія";PARTSTAT=ACCEPTED:mailto:maria@example.com',
  'END:VEVENT', 'END:VCALENDAR', ''
].join('\r\n')
const again = generateIcsCalendar(convertIcsCalendar(undefined, text))
writeFileSync('before.ics', text)
writeFileSync('after.ics', again)
for (const [name, calendar] of [['before', text], ['after', again]]) {
  const event = new ICAL.Component(ICAL.parse(calendar)).getFirstSubcomponent('vevent')
  const start = new ICAL.Event(event).startDate.toJSDate().toTimeString().slice(0, 5)
  console.log(`${name}, ical.js: ${start} in Kyiv`)
  for (const guest of event.getAllProperties('attendee')) {
    console.log(`   ${guest.getFirstParameter('cn')} | ${guest.getFirstValue()}`)
  }
}
JS
cat > read.py <<'PY'
import icalendar

for name in "before", "after":
    with open(f"{name}.ics", "rb") as file:
        (event,) = icalendar.Calendar.from_ical(file.read()).events
    print(f"{name}, icalendar: {event.start.time()}, zone {event.start.tzinfo}")
    guest = event["attendee"]
    print(f"   {guest.params['cn']} | {guest}")
PY
expected="before, ical.js: 10:00 in Kyiv
   Коваль, Марія | mailto:maria@example.com
after, ical.js: 13:00 in Kyiv
   Коваль, Марія | MAILTO:maria@example.com
before, icalendar: 10:00:00, zone None
   Коваль, Марія | mailto:maria@example.com
after, icalendar: 10:00:00, zone UTC
   ['Коваль', ' Марія'] | MAILTO:maria@example.com"
seen=$(TZ=Europe/Kyiv node write.mjs 2>&1 && venv/bin/python read.py 2>&1) || :
echo "ts-ics 2.4.6 reads and writes a meeting; ical.js 2.2.1 and icalendar 7.3.2 read both files"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: ts-ics writes another calendar" >&2; exit 1; }
