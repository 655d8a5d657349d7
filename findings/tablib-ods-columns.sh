#!/bin/sh
# tablib moves the values of a row to other columns when it reads an .ods file of LibreOffice.
#
# Expected: a row of five columns is read as these five values, as pandas and pyexcel do.
# What happens: LibreOffice writes adjacent cells that are alike as one cell with the attribute
# table:number-columns-repeated (OpenDocument 1.2 part 1, section 19.675). tablib drops such a cell
# if it is empty, reads it once if it is not, and fills the row up at its end. After a phone and an
# e-mail address that are both missing, the town of the client is the phone. One missing value is
# read well. Of a cell with two lines, only the first is read. Nothing is reported.
# Version: tablib 3.10.0, LibreOffice 7.4.7 (Debian 12, package libreoffice-calc); pandas 3.1.1 with
# odfpy 1.4.1, pyexcel-ods3 0.6.1. tablib writes no such cells itself, and reads its own files well.
# For a CRM: read .ods with another library; a town that got into the phone is found much later.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check 'tablib[ods]==3.10.0' \
  pandas==3.1.1 odfpy==1.4.1 pyexcel-ods3==0.6.1
export PYTHONUTF8=1

command -v soffice > /dev/null ||
  { echo "needs soffice: apt-get install libreoffice-calc" >&2; exit 1; }
cat > clients.csv <<'CSV'
клієнт,телефон,пошта,місто,доставка
Коваль Марія,,,Львів,Київ
Шевчук Іван,,ivan@example.com,Київ,Львів
Бойко Ольга,"0671234568
0501234568",olha@example.com,Одеса,Одеса
CSV
cat > read.py <<'PY'
import pandas
import pyexcel_ods3
import tablib

with open("clients.ods", "rb") as file:
    dataset = tablib.Dataset().load(file, format="ods")
frame = pandas.read_excel("clients.ods", engine="odf", dtype=str).fillna("")
rows = pyexcel_ods3.get_data("clients.ods")["clients"]
for name, table in ("pandas", frame.values), ("pyexcel", rows[1:4]), ("tablib", dataset):
    print(name)
    for row in table:
        print("  ", *map(repr, row))
PY
timeout 50 soffice "-env:UserInstallation=file://$folder/profile" --headless \
  --infilter="Text - txt - csv (StarCalc):44,34,76,1,1/2/2/2/2/2" \
  --convert-to ods clients.csv > soffice.log 2>&1
right="   'Коваль Марія' '' '' 'Львів' 'Київ'
   'Шевчук Іван' '' 'ivan@example.com' 'Київ' 'Львів'
   'Бойко Ольга' '0671234568\\n0501234568' 'olha@example.com' 'Одеса' 'Одеса'"
expected="pandas
$right
pyexcel
$right
tablib
   'Коваль Марія' 'Львів' 'Київ' '' ''
   'Шевчук Іван' '' 'ivan@example.com' 'Київ' 'Львів'
   'Бойко Ольга' '0671234568' 'olha@example.com' 'Одеса' ''"
seen=$(venv/bin/python read.py 2>&1) || :
echo "$(soffice --version 2> soffice.log | head -n 1); pandas 3.1.1, pyexcel-ods3 0.6.1, tablib 3.10.0"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: tablib reads the columns otherwise" >&2; exit 1; }
