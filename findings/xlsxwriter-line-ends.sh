#!/bin/sh
# A text with the line ends of a web form gets "_x000D_" on its way from XlsxWriter to openpyxl.
#
# Expected: a text written by one library for .xlsx is read back by another. A carriage return,
# which XML would drop, is written as _x000D_ and decoded by the reader (ECMA-376 part 1, section
# 22.9.2.19, ST_Xstring). The <textarea> of a form always submits its lines with CR LF.
# What happens: XlsxWriter writes _x000D_, as Excel does, and python-calamine decodes it, but
# openpyxl, and with it pandas.read_excel, hands out the seven characters "_x000D_" as a part of the
# text.
# Version: XlsxWriter 3.3.1, openpyxl 3.1.5, python-calamine 0.9.1.
# For a CRM: write texts with LF alone to .xlsx, or each note that has two lines comes back changed.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  xlsxwriter==3.3.1 openpyxl==3.1.5 python-calamine==0.9.1
export PYTHONUTF8=1

cat > notes.py <<'PY'
import openpyxl
import python_calamine
import xlsxwriter

NOTE = "Телефонувати\r\nпісля шостої"
workbook = xlsxwriter.Workbook("notes.xlsx")
workbook.add_worksheet().write_string(0, 0, NOTE)
workbook.close()
sheet = python_calamine.CalamineWorkbook.from_path("notes.xlsx").get_sheet_by_index(0)
print("written: ", repr(NOTE))
print("calamine:", repr(sheet.to_python()[0][0]))
print("openpyxl:", repr(openpyxl.load_workbook("notes.xlsx").active["A1"].value))
PY
expected="written:  'Телефонувати\\r\\nпісля шостої'
calamine: 'Телефонувати\\r\\nпісля шостої'
openpyxl: 'Телефонувати_x000D_\\nпісля шостої'"
seen=$(venv/bin/python notes.py 2>&1) || :
echo "XlsxWriter 3.3.1 writes a note of two lines"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the note is read otherwise" >&2; exit 1; }
