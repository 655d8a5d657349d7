#!/bin/sh
# python-calamine reads prices as dates in an .xls file that Gnumeric has written.
#
# Expected: a cell with the format "$"#,##0 is a number. The file says so: each cell refers to a
# format, and a FORMAT record has its text, which xlrd, LibreOffice and Gnumeric itself follow.
# What happens: Gnumeric gives its first formats the numbers from 50 on. 50 to 58 are the numbers of
# built-in date formats of East Asian versions of Excel (ECMA-376 part 1, section 18.8.30), and
# calamine takes cells with them for dates, whatever the record says. A price of 1250 is the third of
# June 1903, article 00067 the seventh of March 1900.
# Version: Gnumeric 1.12.55 (Debian 12), python-calamine 0.9.1, xlrd 2.0.2.
# For a CRM: a price list in .xls imports dates for prices; the one of .xlsx from the same sheet is
# right.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  openpyxl==3.1.5 python-calamine==0.9.1 xlrd==2.0.2
export PYTHONUTF8=1

command -v ssconvert > /dev/null || { echo "needs ssconvert: apt-get install gnumeric" >&2; exit 1; }
cat > write.py <<'PY'
import openpyxl

workbook = openpyxl.Workbook()
workbook.active.append(["Стіл", 1250, 67, 0.05])
for cell, number_format in (("B1", '"$"#,##0'), ("C1", "00000"), ("D1", "0%")):
    workbook.active[cell].number_format = number_format
workbook.save("prices.xlsx")
PY
cat > read.py <<'PY'
import python_calamine
import xlrd


def by_calamine(name):
    return python_calamine.CalamineWorkbook.from_path(name).get_sheet_by_index(0).to_python()[0][1:]


print("prices.xlsx, calamine:", *by_calamine("prices.xlsx"))
print("prices.xls, xlrd:", *xlrd.open_workbook("prices.xls").sheet_by_index(0).row_values(0)[1:])
print("prices.xls, calamine:", *by_calamine("prices.xls"))
PY
venv/bin/python write.py
LC_ALL=C.UTF-8 ssconvert prices.xlsx prices.xls 2> ssconvert.log
expected="prices.xlsx, calamine: 1250.0 67.0 0.05
prices.xls, xlrd: 1250.0 67.0 0.05
prices.xls, calamine: 1903-06-03 1900-03-07 0.05"
seen=$(venv/bin/python read.py 2>&1) || :
echo "$(ssconvert --version 2>&1 | head -n 1); python-calamine 0.9.1, xlrd 2.0.2"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the numbers are read otherwise" >&2; exit 1; }
