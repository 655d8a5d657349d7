#!/bin/sh
# Of an .xlsb workbook of SheetJS, calamine and polars read the first column, pandas reads nothing.
#
# Expected: a reader returns every cell, or fails. A cell of an .xlsb file may be stored in a short
# form, in which the column is the one after the previous cell (MS-XLSB, section 2.5.10, ShortCell).
# SheetJS stores all cells of a row but the first in this form, and reads them, as LibreOffice does.
# What happens: calamine, and polars and pandas with it, return the first column as if it were the
# whole sheet. pyxlsb, which pandas takes for .xlsb when no engine is named, knows neither this form
# nor the first cells (texts that are stored in the cell): the table of pandas is empty. No error is
# raised, though the file names the range A1:C3, and pyxlsb gives it as the dimension of the sheet.
# Version: xlsx 0.18.5 (npm), python-calamine 0.9.1, polars 2.1.0 with fastexcel 0.21.0, pandas 3.1.1
# with pyxlsb 1.0.10. Also LibreOffice 7.4.7 (Debian 12, package libreoffice-calc), which is asked if
# soffice is installed.
# For a CRM: a price list of which only the names arrive, or a file "without rows".
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
command -v npm > /dev/null || { echo "needs npm" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check python-calamine==0.9.1 polars==2.1.0 \
  fastexcel==0.21.0 pandas==3.1.1 pyxlsb==1.0.10
npm install --silent --no-audit --no-fund --no-progress xlsx@0.18.5 \
  > npm.log 2>&1 || { echo "xlsx@0.18.5 cannot be installed" >&2; exit 1; }
export PYTHONUTF8=1

cat > write.cjs <<'JS'
const XLSX = require('xlsx')

const rows = [['Назва', 'Ціна', 'Залишок'], ['Стіл', 1250.5, 2], ['Стілець', 300, 4]]
const book = XLSX.utils.book_new()
XLSX.utils.book_append_sheet(book, XLSX.utils.aoa_to_sheet(rows), 'Ціни')
XLSX.writeFile(book, 'prices.xlsb')
const [name] = XLSX.readFile('prices.xlsb').SheetNames
const read = XLSX.utils.sheet_to_json(XLSX.readFile('prices.xlsb').Sheets[name], { header: 1 })
console.log('SheetJS:', read.map(row => row.join(' | ')).join('; '))
JS
cat > read.py <<'PY'
import pandas
import polars
import pyxlsb
import python_calamine


def show(reader, rows):
    print(f"{reader}: " + ("; ".join(" | ".join(map(str, row)) for row in rows) or "no rows"))


book = python_calamine.CalamineWorkbook.from_path("prices.xlsb")
show("calamine", book.get_sheet_by_index(0).to_python())
show("polars", polars.read_excel("prices.xlsb", has_header=False).rows())
show("pandas", pandas.read_excel("prices.xlsb", header=None).values.tolist())
with pyxlsb.open_workbook("prices.xlsb") as book, book.get_sheet(1) as sheet:
    size = sheet.dimension
    values = {cell.v for row in sheet.rows() for cell in row}
    print(f"pyxlsb: {size.h} rows of {size.w} cells, values: {values}")
PY
expected="SheetJS: Назва | Ціна | Залишок; Стіл | 1250.5 | 2; Стілець | 300 | 4
calamine: Назва; Стіл; Стілець
polars: Назва; Стіл; Стілець
pandas: no rows
pyxlsb: 3 rows of 3 cells, values: {None}"
seen=$(node write.cjs 2>&1 && venv/bin/python -W ignore read.py 2>&1) || :
echo "xlsx 0.18.5 writes three rows; python-calamine 0.9.1, polars 2.1.0, pandas 3.1.1 read them"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: other cells of the .xlsb file are read" >&2; exit 1; }

command -v soffice > /dev/null || exit 0
timeout 50 soffice "-env:UserInstallation=file://$folder/profile" --headless \
  --convert-to "csv:Text - txt - csv (StarCalc):44,34,76,1" prices.xlsb > soffice.log 2>&1
expected='"Назва","Ціна","Залишок"
"Стіл",1250.5,2
"Стілець",300,4'
seen=$(cat prices.csv 2>&1) || :
soffice --version 2> soffice.log | head -n 1
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: LibreOffice reads other cells" >&2; exit 1; }
