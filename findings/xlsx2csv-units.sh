#!/bin/sh
# xlsx2csv writes the format of a cell in place of its number when the format has a unit such as USD.
#
# Expected: 1250.5 with the format #,##0.00" USD" is 1250.5, as it is with #,##0.00" грн". What stands
# in quotes in a format is a text to be shown (ECMA-376 part 1, section 18.8.31).
# What happens: a format with one of the letters d, h, m, s and y is taken for that of a date, also
# if they are in quotes. The letters are replaced, and the rest of the format stands where the number
# was: #,##0.00" us03". The number is in no place of the CSV file. From a number below one, 0.75 USD,
# a time of day is made. Negative numbers are written well. There is no warning, and the exit status
# is 0. polars returns the same with its engine "xlsx2csv"; openpyxl and python-calamine return the
# numbers.
# Version: xlsx2csv 0.8.6, polars 2.1.0, openpyxl 3.1.5, python-calamine 0.9.1. The option
# --ignore-formats date time keeps the numbers, and makes numbers of dates and times.
# For a CRM: prices in UAH or USD and quantities in pieces are lost on the way to an import.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  xlsx2csv==0.8.6 polars==2.1.0 openpyxl==3.1.5 python-calamine==0.9.1
export PYTHONUTF8=1

cat > write.py <<'PY'
import openpyxl

CELLS = (
    (1250.5, '#,##0.00" грн"'),
    (1250.5, '#,##0.00" UAH"'),
    (1250.5, '#,##0.00" USD"'),
    (0.75, '#,##0.00" USD"'),
    (-50, '#,##0.00" USD"'),
    (12, '0" pcs"'),
    (3, '0" days"'),
)
workbook = openpyxl.Workbook()
for row, (number, number_format) in enumerate(CELLS, start=1):
    cell = workbook.active.cell(row, 1, number)
    cell.number_format = number_format
workbook.save("prices.xlsx")
PY
cat > read.py <<'PY'
import csv

import openpyxl
import polars
import python_calamine

with open("prices.csv", encoding="utf-8", newline="") as file:
    texts = [text for (text,) in csv.reader(file)]
frame = polars.read_excel("prices.xlsx", engine="xlsx2csv", has_header=False)
print("polars returns the same:", frame.to_series().to_list() == texts)
cells = list(openpyxl.load_workbook("prices.xlsx").active["A"])
workbook = python_calamine.CalamineWorkbook.from_path("prices.xlsx")
numbers = [number for (number,) in workbook.get_sheet_by_index(0).to_python()]
print("calamine returns the numbers:", numbers == [cell.value for cell in cells])
for cell, text in zip(cells, texts, strict=True):
    print(f"{cell.value} as {cell.number_format}: {text}")
PY
venv/bin/python write.py
venv/bin/xlsx2csv prices.xlsx prices.csv
expected='polars returns the same: True
calamine returns the numbers: True
1250.5 as #,##0.00" грн": 1250.5
1250.5 as #,##0.00" UAH": #,##0.00" ua12"
1250.5 as #,##0.00" USD": #,##0.00" us03"
0.75 as #,##0.00" USD": 18:00
-50 as #,##0.00" USD": -50
12 as 0" pcs": 0" pcs"
3 as 0" days": 0" 02ays"'
seen=$(venv/bin/python read.py 2>&1) || :
echo "xlsx2csv 0.8.6 and polars 2.1.0; openpyxl 3.1.5 and python-calamine 0.9.1"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: xlsx2csv writes other texts" >&2; exit 1; }
