#!/bin/sh
# ical.js keeps the backslash of a semicolon in a vCard, and vcf moves the parts of such an address.
#
# Expected: a semicolon in a text of a vCard is written as "\;" and read as ";" (RFC 2426, section 4,
# text-value of 3.0; RFC 6350, section 3.4 of 4.0): vobject writes the names and notes of both versions
# so, and reads them. In N and ADR, a ";" with a backslash does not end a component.
# What happens: ical.js reads "a\; b" as the text "a\; b" in FN, TITLE and NOTE, though not in N and
# ADR. A card that it writes again has "\\;", which is a backslash and a semicolon for every reader.
# (In calendars it reads "\;" well.) vcf, whose toJCard() makes a list of the components of ADR, cuts
# the address at "\;": the flat becomes the city, the city the region, the postal code the country,
# and the country is an eighth component. Neither reports anything.
# Version: ical.js 2.2.1, vcf 2.1.2, vobject 0.9.9.
# For a CRM: names and notes with backslashes after a contact went through another program; parcels.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check vobject==0.9.9
npm install --silent --no-audit --no-fund --no-progress ical.js@2.2.1 vcf@2.1.2 \
  > npm.log 2>&1 || { echo "ical.js@2.2.1 and vcf@2.1.2 cannot be installed" >&2; exit 1; }
export PYTHONUTF8=1

cat > write.py <<'PY'
import vobject

card = vobject.vCard()
card.add("fn").value = "Марія Коваль; склад"
card.add("n").value = vobject.vcard.Name(family="Коваль", given="Марія")
card.add("note").value = "дзвонити зранку; просить знижку"
card.add("adr").value = vobject.vcard.Address(
    street="вул. Садова 5; кв. 2", city="Київ", code="01001", country="Україна"
)
with open("before.vcf", "w", encoding="utf-8", newline="") as file:
    file.write(card.serialize())
PY
cat > again.mjs <<'JS'
import { readFileSync, writeFileSync } from 'node:fs'
import ICAL from 'ical.js'
import VCard from 'vcf'

const text = readFileSync('before.vcf', 'utf8')
const card = new ICAL.Component(ICAL.parse(text))
for (const name of ['fn', 'note']) console.log(`ical.js: ${card.getFirstPropertyValue(name)}`)
console.log(`ical.js: ${card.getFirstPropertyValue('adr').join(' | ')}`)
writeFileSync('after.vcf', card.toString() + '\r\n')
const address = new VCard().parse(text).toJCard()[1].find(([name]) => name === 'adr')
console.log(`vcf: ${address[3].join(' | ')}`)
JS
cat > read.py <<'PY'
import vobject

for name in "before", "after":
    with open(f"{name}.vcf", encoding="utf-8", newline="") as file:
        card = vobject.readOne(file.read())
    address = card.adr.value
    print(f"{name}, vobject: {card.fn.value}")
    print(f"{name}, vobject: {card.note.value}")
    print(f"{name}, vobject: {address.street} | {address.city} | {address.code} | {address.country}")
PY
expected='ical.js: Марія Коваль\; склад
ical.js: дзвонити зранку\; просить знижку
ical.js:  |  | вул. Садова 5; кв. 2 | Київ |  | 01001 | Україна
vcf:  |  | вул. Садова 5\ |  кв. 2 | Київ |  | 01001 | Україна
before, vobject: Марія Коваль; склад
before, vobject: дзвонити зранку; просить знижку
before, vobject: вул. Садова 5; кв. 2 | Київ | 01001 | Україна
after, vobject: Марія Коваль\; склад
after, vobject: дзвонити зранку\; просить знижку
after, vobject: вул. Садова 5; кв. 2 | Київ | 01001 | Україна'
seen=$(venv/bin/python write.py 2>&1 && node again.mjs 2>&1 && venv/bin/python read.py 2>&1) || :
echo "vobject 0.9.9 writes a vCard; ical.js 2.2.1 and vcf 2.1.2 read it, ical.js writes it again"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: semicolons of vCards are read otherwise" >&2; exit 1; }
