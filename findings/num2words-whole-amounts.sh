#!/bin/sh
# num2words writes an amount of 1000 as ten units of the currency in most languages, in others as 1000.
#
# Expected: num2words(1000, to="currency") is "one thousand …", as num2words(Decimal("1000")) is, in
# every language: 1000 and Decimal("1000") are equal, and no parameter tells the unit of a number.
# What happens: an int is taken for hundredths in English, Ukrainian and Polish, for whole units in
# Romanian and Arabic. A Decimal is taken for whole units in all of them.
# Version: num2words 0.5.14. Its README and the docstring of to_currency() do not mention hundredths.
# For a CRM: the amount in words of an invoice; of a sum without kopiykas, JSON gives an int.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check num2words==0.5.14
export PYTHONUTF8=1

cat > words.py <<'PY'
from decimal import Decimal

from num2words import num2words

for language, currency in ("en", "USD"), ("uk", "UAH"), ("pl", "PLN"), ("ro", "RON"), ("ar", "SAR"):
    for amount in (1000, Decimal("1000")):
        text = num2words(amount, lang=language, to="currency", currency=currency)
        print(f"{language} {amount!r}: {text}")
PY
expected="en 1000: ten dollars, zero cents
en Decimal('1000'): one thousand dollars, zero cents
uk 1000: десять гривень, нуль копійок
uk Decimal('1000'): одна тисяча гривень, нуль копійок
pl 1000: dziesięć złotych, zero groszy
pl Decimal('1000'): tysiąc złotych, zero groszy
ro 1000: una mie de lei
ro Decimal('1000'): una mie de lei
ar 1000: ألف ريال
ar Decimal('1000'): ألف ريال"
seen=$(venv/bin/python words.py 2>&1) || :
echo "num2words 0.5.14 writes 1000 units of a currency in words"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: num2words takes whole amounts otherwise" >&2; exit 1; }
