#!/bin/sh
# A CSV file of stored values depends on the language of the LibreOffice that writes it.
#
# Expected: the export option "Save cell contents as shown" makes the difference between what is
# shown and what is stored (LibreOffice Help, "CSV Filter Parameters", token 8). Without it, TRUE,
# FALSE and 1250.5 are written alike everywhere.
# What happens: with the locale of Ukraine they are ІСТИНА, БРЕХНЯ and "1250,5". An English
# LibreOffice reads them as texts: the row is neither paid nor unpaid, and its price is no number.
# Nothing is reported.
# Version: LibreOffice 7.4.7 (Debian 12, package libreoffice-calc), openpyxl 3.1.5 to write the
# sheet and to read the result.
# For a CRM: an import must know the words ІСТИНА and БРЕХНЯ and the decimal comma.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check openpyxl==3.1.5
export PYTHONUTF8=1

command -v soffice > /dev/null ||
  { echo "needs soffice: apt-get install libreoffice-calc" >&2; exit 1; }
cat > write.py <<'PY'
import datetime

import openpyxl

workbook = openpyxl.Workbook()
workbook.active.append([True, False, 1250.5, datetime.date(2024, 5, 6)])
workbook.save("deals.xlsx")
PY
cat > read.py <<'PY'
import openpyxl

values = next(openpyxl.load_workbook("again/deals.xlsx").active.values)
print("English, reading that of uk-UA:", *(type(value).__name__ for value in values))
PY
convert() { # convert LOCALE ARGUMENTS: LibreOffice with a new profile of this locale
  mkdir -p "$1/user"
  cat > "$1/user/registrymodifications.xcu" <<XCU
<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooSetupSystemLocale" oor:op="fuse">
<value>$1</value></prop></item>
</oor:items>
XCU
  profile=$1
  shift
  timeout 50 soffice "-env:UserInstallation=file://$folder/$profile" --headless "$@" > soffice.log 2>&1
}

venv/bin/python write.py
csv="csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false"
for locale in en-US uk-UA; do
  convert $locale --convert-to "$csv" --outdir "$locale" deals.xlsx
  seen="${seen:-}$locale: $(cat $locale/deals.csv)
"
done
convert en-US --infilter="Text - txt - csv (StarCalc):44,34,76,1,,0,false,true" \
  --convert-to xlsx --outdir again uk-UA/deals.csv
seen="$seen$(venv/bin/python read.py 2>&1)" || :
expected='en-US: TRUE,FALSE,1250.5,2024-05-06
uk-UA: ІСТИНА,БРЕХНЯ,"1250,5",2024-05-06
English, reading that of uk-UA: str str str datetime'
soffice --version 2> soffice.log | head -n 1
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: LibreOffice writes other values" >&2; exit 1; }
