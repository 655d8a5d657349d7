#!/bin/sh
# Babel's parse_time() reads an evening hour that its format_time() wrote as a morning one.
#
# Expected: parse_time(format_time(t, "short", locale), locale, "short") is t or an error, whichever
# language: the docstring says that the function uses the time format of the locale.
# What happens: only "pm" and "am" are recognized, not the words for them that format_time() writes:
# 21:30 becomes 09:30, and 00:30 becomes 12:30, without an error. Locales with a clock of 24 hours are
# not affected, unless the format has "a". Of those with a clock of 12 hours, almost half are: Arabic,
# Greek, Korean, Albanian, and Spanish in America; in English, "9:30 p.m." of Canada.
# Version: Babel 2.19.0, which treats "12:30 AM" and "12:30 PM" well.
# For a CRM: a meeting at half past nine in the evening is stored for the morning.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check babel==2.19.0
export PYTHONUTF8=1

cat > hours.py <<'PY'
from collections import Counter
from datetime import time

from babel.dates import format_time, get_time_format, parse_time
from babel.localedata import locale_identifiers

TIMES = time(9, 30), time(21, 30), time(0, 30)
for locale in "en_US", "en_CA", "es_MX", "el", "ar", "ko", "sq":
    texts = [format_time(moment, "short", locale=locale) for moment in TIMES]
    read = [parse_time(text, locale=locale, format="short") for text in texts]
    print(f"{locale}:", ", ".join(f"{a:%H:%M} {b:%H:%M}" for a, b in zip(TIMES, read, strict=True)))
text = format_time(TIMES[1], "h:mm a", locale="uk")
print(f"uk, h:mm a: {text} is {parse_time(text, locale='uk', format='h:mm a'):%H:%M}")
count = Counter()
for locale in locale_identifiers():
    if "h" in get_time_format("short", locale).pattern:
        text = format_time(TIMES[1], "short", locale=locale)
        count[parse_time(text, locale=locale, format="short")] += 1
read = ", ".join(f"{number} read {moment:%H:%M}" for moment, number in sorted(count.items()))
print(f"21:30 in locales of 12 hours: {read}")
PY
expected="en_US: 09:30 09:30, 21:30 21:30, 00:30 00:30
en_CA: 09:30 09:30, 21:30 09:30, 00:30 12:30
es_MX: 09:30 09:30, 21:30 09:30, 00:30 12:30
el: 09:30 09:30, 21:30 09:30, 00:30 12:30
ar: 09:30 09:30, 21:30 09:30, 00:30 12:30
ko: 09:30 09:30, 21:30 09:30, 00:30 12:30
sq: 09:30 09:30, 21:30 09:30, 00:30 12:30
uk, h:mm a: 9:30 пп is 09:30
21:30 in locales of 12 hours: 168 read 09:30, 189 read 21:30"
seen=$(venv/bin/python hours.py 2>&1) || :
echo "Babel 2.19.0 writes 09:30, 21:30 and 00:30 and reads them again"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: parse_time() reads other hours" >&2; exit 1; }
