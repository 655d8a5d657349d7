#!/bin/sh
# Dates that openpyxl writes with iso_dates are days of the year 1905 for ExcelJS and Gnumeric.
#
# Expected: workbook.iso_dates writes dates as ISO 8601 texts (openpyxl's documentation, "Dates and
# Times") in cells of type "d" (ECMA-376 part 1, section 18.18.11, ST_CellType), and a reader that
# does not know the type refuses the file or returns the text.
# What happens: ExcelJS reads 2024-05-06 as far as it is a number: 2024, which as a day count is the
# 16th of July 1905. Every date of 2024 is that day, with no warning. Gnumeric does the same (and
# says "Unknown enum value" on its standard error, with exit status 0). openpyxl, python-calamine
# and LibreOffice read the day.
# Version: openpyxl 3.1.5, ExcelJS 4.4.0; also Gnumeric 1.12.55, which is asked if ssconvert is
# installed.
# For a CRM: write dates to .xlsx as numbers, and look at the year of what an import brings.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check openpyxl==3.1.5 python-calamine==0.9.1
export PYTHONUTF8=1

command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
npm install --silent --no-audit --no-fund --no-progress exceljs@4.4.0 > npm.log 2>&1 ||
  { echo "exceljs@4.4.0 cannot be installed" >&2; exit 1; }
cat > write.py <<'PY'
from datetime import date, datetime

import openpyxl
import python_calamine

workbook = openpyxl.Workbook()
workbook.iso_dates = True
workbook.active.append([date(2024, 5, 6), date(2024, 12, 31), datetime(2024, 5, 6, 10, 30)])
workbook.save("dates.xlsx")
sheet = python_calamine.CalamineWorkbook.from_path("dates.xlsx").get_sheet_by_index(0)
print("openpyxl:", *next(openpyxl.load_workbook("dates.xlsx").active.values), sep="  ")
print("calamine:", *sheet.to_python()[0], sep="  ")
PY
cat > read.js <<'JS'
const ExcelJS = require('exceljs')
const workbook = new ExcelJS.Workbook()
workbook.xlsx.readFile('dates.xlsx').then(() => {
  const values = workbook.worksheets[0].getRow(1).values.slice(1)
  console.log(['ExcelJS:', ...values.map(value => value.toISOString())].join('  '))
})
JS
expected="openpyxl:  2024-05-06  2024-12-31  2024-05-06 10:30:00
calamine:  2024-05-06  2024-12-31  2024-05-06 10:30:00
ExcelJS:  1905-07-16T00:00:00.000Z  1905-07-16T00:00:00.000Z  1905-07-16T00:00:00.000Z"
seen=$(venv/bin/python write.py 2>&1; node read.js 2>&1) || :
echo "openpyxl 3.1.5 writes three dates with iso_dates; python-calamine 0.9.1, ExcelJS 4.4.0"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the dates are read otherwise" >&2; exit 1; }
command -v ssconvert > /dev/null || exit 0
LC_ALL=C.UTF-8 ssconvert dates.xlsx dates.csv 2> ssconvert.log
echo "Gnumeric:  $(cat dates.csv)"
[ "$(cat dates.csv)" = "1905/07/16,1905/07/16,1905/07/16" ] ||
  { echo "CHANGED: Gnumeric reads other dates" >&2; exit 1; }
