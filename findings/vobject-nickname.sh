#!/bin/sh
# vobject keeps only the first nickname of a card.
#
# Expected: NICKNAME is a list whose values are separated by commas (RFC 2426, section 3.1.3; RFC
# 6350, section 6.2.3), and vobject returns CATEGORIES, the other list of a card, whole.
# What happens: the value is the text before the first comma. Nothing is logged, and serialize()
# writes the card without the other names.
# Version: vobject 0.9.9.
# For a CRM: a card that is read, changed and written again loses names by which people search.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check vobject==0.9.9
export PYTHONUTF8=1

cat > read.py <<'PY'
import vobject

LINES = (
    "BEGIN:VCARD",
    "VERSION:3.0",
    "N:Коваль;Марія;;;",
    "FN:Марія Коваль",
    "NICKNAME:Маруся,Майстриня",
    "CATEGORIES:опт,постійні",
    "END:VCARD",
)
card = vobject.readOne("\r\n".join(LINES) + "\r\n")
print("categories:", card.categories.value)
print("nickname:", card.nickname.value)
print("written:", *[line for line in card.serialize().splitlines() if line.startswith("NICK")])
PY
expected="categories: ['опт', 'постійні']
nickname: Маруся
written: NICKNAME:Маруся"
seen=$(venv/bin/python read.py 2>&1) || :
echo "vobject 0.9.9 reads NICKNAME:Маруся,Майстриня"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: vobject no longer drops nicknames" >&2; exit 1; }
