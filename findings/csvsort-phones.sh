#!/bin/sh
# csvsort of csvkit changes the values of the rows that it sorts.
#
# Expected: csvsort is "like the Unix sort command, but for tabular data" (its own help): the rows
# come in another order and are otherwise the same, as they are with csvcut and csvgrep of the same
# package.
# What happens: each column gets a type that is guessed from its values and is written as that type.
# The zero of 0671234567 and the plus of +380671234568 are gone, article 00012 is 12 and 1E5 is
# 1E+5, 5% is 5, 05/06/2024 is read as the sixth of May, and the note "none" is empty. The exit
# status is 0. -I (--no-inference) turns it off.
# Version: csvkit 2.2.0 with agate 1.14.2.
# For a CRM: a list of clients that was only sorted before its import comes with other phone
# numbers.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check csvkit==2.2.0 agate==1.14.2
export PYTHONUTF8=1

cat > clients.csv <<'CSV'
name,phone,article,discount,since,note
Тарас,0671234567,00012,5%,05/06/2024,none
Олена,+380671234568,1E5,10%,06/07/2024,опт
CSV
echo "csvkit $(venv/bin/csvsort --version 2>&1), csvsort -c name of"
cat clients.csv
expected="name,phone,article,discount,since,note
Олена,380671234568,1E+5,10,2024-06-07,опт
Тарас,671234567,12,5,2024-05-06,"
seen=$(venv/bin/csvsort -c name clients.csv 2>&1) || :
echo "writes"
printf '%s\n' "$seen"
cut=$(venv/bin/csvcut -c name,phone clients.csv 2>&1 | tail -n 2) || :
echo "while csvcut -c name,phone writes"
printf '%s\n' "$cut"
[ "$cut" = "Тарас,0671234567
Олена,+380671234568" ] || { echo "CHANGED: csvcut writes other values" >&2; exit 1; }
[ "$seen" = "$expected" ] || { echo "CHANGED: csvsort writes other values" >&2; exit 1; }
