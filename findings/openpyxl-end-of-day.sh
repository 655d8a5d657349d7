#!/bin/sh
# The last microsecond of a day is the next day after openpyxl has written and read it.
#
# Expected: a datetime comes back from .xlsx at least on its day. The format has milliseconds, as
# openpyxl's documentation says ("Dates and Times"), so the last three digits may be lost.
# What happens: openpyxl rounds to the nearest millisecond when it reads, upwards too.
# 23:59:59.999999, the usual end of a period (datetime.combine(day, time.max)), is 00:00 of the next
# day, so the 31st of December becomes a day of the next year, and a cell with time.max is no time
# any more but a datetime of 1900.
# Version: openpyxl 3.1.5.
# For a CRM: write the end of a period as a date, or with whole seconds.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check openpyxl==3.1.5
export PYTHONUTF8=1

cat > ends.py <<'PY'
from datetime import date, datetime, time

import openpyxl

END = datetime.combine(date(2025, 12, 31), time.max)
workbook = openpyxl.Workbook()
workbook.active.append([END, END.replace(microsecond=999000), time.max])
workbook.save("ends.xlsx")
for written, read in zip(
    (END, END.replace(microsecond=999000), time.max),
    next(openpyxl.load_workbook("ends.xlsx").active.values),
    strict=True,
):
    print(f"{written} is read as {type(read).__name__} {read}")
PY
expected="2025-12-31 23:59:59.999999 is read as datetime 2026-01-01 00:00:00
2025-12-31 23:59:59.999000 is read as datetime 2025-12-31 23:59:59.999000
23:59:59.999999 is read as datetime 1900-01-01 00:00:00"
seen=$(venv/bin/python ends.py 2>&1) || :
echo "openpyxl 3.1.5 writes ends of a day"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the ends of a day are read otherwise" >&2; exit 1; }
