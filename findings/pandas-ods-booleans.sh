#!/bin/sh
# pandas reads TRUE as False in .ods files of tablib, of pyexcel and of a Ukrainian LibreOffice.
#
# Expected: read_excel() returns the value of a boolean cell. Its value is the attribute
# office:boolean-value (OpenDocument 1.2 part 1, section 19.385); the text in the cell is only what
# is shown, and may be missing. pandas takes numbers, sums of money and dates from their attributes.
# What happens: a boolean is True if the shown text is "TRUE", else it is False. tablib and pyexcel
# write booleans without a text, and LibreOffice with the locale of Ukraine shows ІСТИНА: all of them
# are False, the column is of the type bool, and no warning is given. The engine "calamine" reads the
# attribute, as tablib and pyexcel do.
# Version: pandas 3.1.1 with odfpy 1.4.1, the engine it takes for .ods when none is named; tablib
# 3.10.0, pyexcel-ods3 0.6.1, python-calamine 0.9.1. Also LibreOffice 7.4.7 (Debian 12, package
# libreoffice-calc), which is asked if soffice is installed.
# For a CRM: of an imported list of invoices, none is paid.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check pandas==3.1.1 odfpy==1.4.1 \
  'tablib[ods]==3.10.0' pyexcel-ods3==0.6.1 python-calamine==0.9.1
export PYTHONUTF8=1

cat > write.py <<'PY'
import pandas
import pyexcel_ods3
import tablib

ROWS = [["рахунок", "оплачено"], ["24/001", True], ["24/002", False]]
with open("tablib.ods", "wb") as file:
    file.write(tablib.Dataset(*ROWS[1:], headers=ROWS[0]).export("ods"))
pyexcel_ods3.save_data("pyexcel.ods", {"рахунки": ROWS})
pandas.DataFrame(ROWS[1:], columns=ROWS[0]).to_excel("pandas.ods", index=False)
PY
cat > read.py <<'PY'
import sys

import pandas

for name in sys.argv[1:]:
    for engine in None, "calamine":
        paid = pandas.read_excel(name, engine=engine)["оплачено"]
        values = " ".join(map(str, paid))
        print(f"{name}, {engine or 'no engine named'}: {values} ({paid.dtype})")
PY
expected="pandas.ods, no engine named: True False (bool)
pandas.ods, calamine: True False (bool)
tablib.ods, no engine named: False False (bool)
tablib.ods, calamine: True False (bool)
pyexcel.ods, no engine named: False False (bool)
pyexcel.ods, calamine: True False (bool)"
venv/bin/python write.py
seen=$(venv/bin/python read.py pandas.ods tablib.ods pyexcel.ods 2>&1) || :
echo "pandas 3.1.1 reads True and False from files of pandas, tablib 3.10.0 and pyexcel-ods3 0.6.1"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: pandas reads booleans otherwise" >&2; exit 1; }

command -v soffice > /dev/null || exit 0
mkdir -p profile/user
cat > profile/user/registrymodifications.xcu <<'XCU'
<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooSetupSystemLocale" oor:op="fuse">
<value>uk-UA</value></prop></item>
</oor:items>
XCU
printf 'рахунок,оплачено\n24/001,ІСТИНА\n24/002,БРЕХНЯ\n' > libreoffice.csv
timeout 50 soffice "-env:UserInstallation=file://$folder/profile" --headless \
  --infilter="Text - txt - csv (StarCalc):44,34,76,1,1/2/2/1" \
  --convert-to ods libreoffice.csv > soffice.log 2>&1
expected="libreoffice.ods, no engine named: False False (bool)
libreoffice.ods, calamine: True False (bool)"
seen=$(venv/bin/python read.py libreoffice.ods 2>&1) || :
echo "$(soffice --version 2> soffice.log | head -n 1), locale uk-UA"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] ||
  { echo "CHANGED: booleans of LibreOffice are read otherwise" >&2; exit 1; }
