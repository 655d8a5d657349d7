#!/bin/sh
# n2words cuts an amount to kopiykas, and writes Ukrainian words with the Latin letter i.
#
# Expected: toCurrency() rounds an amount as toFixed(2) and Intl.NumberFormat do, so that the figures
# and the words of an invoice agree; neither its README nor its documentation comments tell otherwise.
# Ukrainian words are made of Cyrillic letters, і among them.
# What happens: everything after the second digit is cut. Three pieces at 1.15 are 3.4499999999999997
# in JavaScript: 3.45 in figures, three hryvnias and 44 kopiykas in words. The letter і is the Latin i
# in each word that has it: the words look right, but a search for "дві гривні" does not find them.
# Version: n2words 4.0.0, all of its languages; the letter in Ukrainian.
# For a CRM: a document whose words, which prevail over the figures, tell another sum, and which
# full-text search and a comparison with another program's words do not find. A price times a quantity
# is such a number wherever it is computed with the numbers of JavaScript.
set -eu
command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
npm install --silent --no-audit --no-fund --no-progress n2words@4.0.0 \
  > npm.log 2>&1 || { echo "n2words@4.0.0 cannot be installed" >&2; exit 1; }

cat > words.mjs <<'JS'
import { toCurrency as english } from 'n2words/en-US'
import { toCurrency as ukrainian } from 'n2words/uk-UA'

const format = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
for (const amount of [3.45, 1.15 * 3, 8.2 - 0.2, '99.999']) {
  console.log(`${amount}: ${format.format(amount)}`)
  console.log(`  ${english(amount)}`)
  console.log(`  ${ukrainian(amount)}`)
}
const words = ukrainian(2)
console.log(`${words}: ${words === 'дві гривні'}, Latin letters: ${words.match(/[a-z]/g)}`)
JS
expected="3.45: 3.45
  three dollars and forty-five cents
  три гривнi сорок п'ять копiйок
3.4499999999999997: 3.45
  three dollars and forty-four cents
  три гривнi сорок чотири копiйки
7.999999999999999: 8.00
  seven dollars and ninety-nine cents
  сiм гривень дев'яносто дев'ять копiйок
99.999: 100.00
  ninety-nine dollars and ninety-nine cents
  дев'яносто дев'ять гривень дев'яносто дев'ять копiйок
двi гривнi: false, Latin letters: i,i"
seen=$(node words.mjs 2>&1) || :
echo "n2words 4.0.0 writes amounts in words"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: n2words writes other words" >&2; exit 1; }
