#!/bin/sh
# standardwebhooks signs one moment differently for each time zone in which it is written.
#
# Expected: the signed timestamp is the attempt's Unix time, an integer (Standard Webhooks
# specification, header webhook-timestamp), and equal datetimes of Python have one timestamp(). The
# Node.js package of the same project takes a Date, a moment, too.
# What happens: sign() replaces the time zone of the datetime by UTC instead of converting it. 12:00
# in Kyiv is signed as 12:00 UTC. No error is raised where it is signed, but every receiver refuses
# it. The same happens to a naive datetime.now() on a server whose zone is not UTC.
# Version: standardwebhooks 1.1.0 for Python.
# For a CRM: webhooks that this package signs must be given datetimes in UTC.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check standardwebhooks==1.1.0 tzdata==2026.3
export PYTHONUTF8=1

cat > sign.py <<'PY'
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
utc = datetime.now(UTC)
kyiv = utc.astimezone(ZoneInfo("Europe/Kyiv"))
print("equal datetimes:", utc == kyiv, int(utc.timestamp()) == int(kyiv.timestamp()))
for zone, moment in (("UTC", utc), ("Kyiv", kyiv)):
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": webhook.sign("msg_1", moment, '{"id": 1}'),
    }
    try:
        print(f"signed with {zone}: accepted", webhook.verify('{"id": 1}', headers))
    except WebhookVerificationError as error:
        print(f"signed with {zone}: refused, {error}")
PY
expected="equal datetimes: True True
signed with UTC: accepted {'id': 1}
signed with Kyiv: refused, No matching signature found"
seen=$(venv/bin/python sign.py 2>&1) || :
echo "standardwebhooks 1.1.0 signs one moment, written in UTC and in the time of Kyiv"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: sign() treats time zones otherwise" >&2; exit 1; }
