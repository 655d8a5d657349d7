#!/bin/sh
# uWSGI ends a broken answer as if it were complete, where other WSGI servers let the client notice.
#
# Expected: an application that fails in the middle of its answer leaves an incomplete message, and
# the client can tell: with Transfer-Encoding: chunked the last chunk is missing (RFC 9112, section
# 8), as it is with gunicorn, waitress and hypercorn. curl then ends with exit status 18.
# What happens: uWSGI speaks HTTP/1.1, but sends a body without Content-Length neither chunked nor
# with a length: its end is the end of the connection, and so is its failure. curl reports success,
# status 200, exit status 0, for a file that has two of its three parts.
# Version: uWSGI 2.0.30 (package pyuwsgi 2.0.30.post1), option --http-socket; gunicorn 27.0.1.
# For a CRM: an export that the server streams is cut without a sign; give it a length or a last
# line.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check pyuwsgi==2.0.30.post1 gunicorn==27.0.1
export PYTHONUTF8=1

command -v curl > /dev/null || { echo "needs curl" >&2; exit 1; }
cat > export.py <<'PY'
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/csv")])
    if environ["PATH_INFO"] == "/ready":
        return [b"ready"]
    return lines()


def lines():
    yield b"1,first part\n"
    yield b"2,second part\n"
    raise OSError("the disk cannot be read")
PY
cat > port.py <<'PY'
import socket

with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1])
PY

fetch() { # fetch NAME COMMAND: start the server, print what curl gets from it, end the server
  name=$1
  shift
  timeout 40 "$@" > server.log 2>&1 &
  server=$!
  tries=0
  until [ "$(curl -s --noproxy '*' -m 5 "http://127.0.0.1:$port/ready")" = ready ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || break
    sleep 0.2
  done
  status=0
  curl -s --noproxy '*' -m 10 -o "$name.csv" -D "$name.head" "http://127.0.0.1:$port/" || status=$?
  kill $server
  wait $server || :
  echo "$name: $(head -n 1 "$name.head" | tr -d '\r'), $(wc -l < "$name.csv" | tr -d ' ') lines," \
    "curl's exit status $status"
}

port=$(venv/bin/python port.py)
first=$(fetch gunicorn venv/bin/gunicorn -b "127.0.0.1:$port" export:application)
port=$(venv/bin/python port.py)
second=$(fetch uWSGI venv/bin/pyuwsgi --http-socket "127.0.0.1:$port" --module export \
  --master --die-on-term)
expected="gunicorn: HTTP/1.1 200 OK, 2 lines, curl's exit status 18
uWSGI: HTTP/1.1 200 OK, 2 lines, curl's exit status 0"
seen="$first
$second"
echo "an application that fails before its third line, by gunicorn 27.0.1 and by uWSGI 2.0.30"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the end of a broken answer is another" >&2; exit 1; }
