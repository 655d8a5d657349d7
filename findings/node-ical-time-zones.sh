#!/bin/sh
# node-ical does not follow the rules of a time zone that a calendar brings: events move by hours.
#
# Expected: a TZID names a VTIMEZONE of the same calendar, which has the offsets and the days on which
# they change (RFC 5545, sections 3.2.19 and 3.6.5). start is the exact instant, says the README of
# node-ical, and ical.js returns it for each name of a zone with the rules of Kyiv.
# What happens: the rules are not used. Which zone is taken depends on the name:
# - "Customized Time Zone", a name of Outlook: the first zone of the alphabet that has the two offsets
#   in January and in July, which is Africa/Cairo. In 2024 its clock changed on the 26th of April, that
#   of Kyiv on the 31st of March: an event between them is an hour late, those of other months are not.
# - "(UTC+02:00) Гельсінкі, Київ", made as the names of Windows: the offset in the name, without summer
#   time. (The English name of Windows is in a list of node-ical, and is read well.)
# - "Київ": the time zone of the server, here UTC.
# Nothing is reported.
# Version: node-ical 0.26.1 on Node.js 20, ical.js 2.2.1. The issues of node-ical about "Customized
# Time Zone" are closed.
# For a CRM: an invitation from a client shows the wrong hour for a month of the year, or all summer.
set -eu
command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
npm install --silent --no-audit --no-fund --no-progress node-ical@0.26.1 ical.js@2.2.1 \
  > npm.log 2>&1 || { echo "node-ical@0.26.1 cannot be installed" >&2; exit 1; }

cat > read.mjs <<'JS'
import ICAL from 'ical.js'
import nodeIcal from 'node-ical'

const calendar = (zone, day) => [
  'BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//example.com//calendar//UK',
  'BEGIN:VTIMEZONE', `TZID:${zone.replaceAll(',', '\\,')}`,
  'BEGIN:DAYLIGHT', 'DTSTART:19700329T030000', 'RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU',
  'TZOFFSETFROM:+0200', 'TZOFFSETTO:+0300', 'END:DAYLIGHT',
  'BEGIN:STANDARD', 'DTSTART:19701025T040000', 'RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU',
  'TZOFFSETFROM:+0300', 'TZOFFSETTO:+0200', 'END:STANDARD', 'END:VTIMEZONE',
  'BEGIN:VEVENT', 'UID:1@example.com', 'DTSTAMP:20240101T000000Z', 'SUMMARY:Зустріч',
  `DTSTART;TZID="${zone}":${day}T100000`, 'END:VEVENT', 'END:VCALENDAR', ''
].join('\r\n')

const time = date => date.toISOString().slice(11, 16)
const days = ['20240110', '20240410', '20240610']
for (const zone of ['Europe/Kyiv', 'Customized Time Zone', '(UTC+02:00) Гельсінкі, Київ', 'Київ']) {
  const found = { 'ical.js': [], 'node-ical': [] }
  let taken
  for (const day of days) {
    const text = calendar(zone, day)
    const component = new ICAL.Component(ICAL.parse(text)).getFirstSubcomponent('vevent')
    found['ical.js'].push(time(new ICAL.Event(component).startDate.toJSDate()))
    const { start } = nodeIcal.parseICS(text)['1@example.com']
    found['node-ical'].push(time(start))
    taken = start.tz
  }
  console.log(zone)
  console.log('  ical.js:  ', ...found['ical.js'])
  console.log('  node-ical:', ...found['node-ical'], taken === zone ? '' : `(${taken})`)
}
JS
expected="Europe/Kyiv
  ical.js:   08:00 07:00 07:00
  node-ical: 08:00 07:00 07:00
Customized Time Zone
  ical.js:   08:00 07:00 07:00
  node-ical: 08:00 08:00 07:00 (Africa/Cairo)
(UTC+02:00) Гельсінкі, Київ
  ical.js:   08:00 07:00 07:00
  node-ical: 08:00 08:00 08:00
Київ
  ical.js:   08:00 07:00 07:00
  node-ical: 10:00 10:00 10:00"
seen=$(TZ=UTC node read.mjs 2>&1 | sed 's/ *$//') || :
echo "10:00 in Kyiv on the 10th of January, April and June 2024, in UTC"
echo "ical.js 2.2.1, node-ical 0.26.1, Node.js $(node --version)"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: node-ical reads other instants" >&2; exit 1; }
