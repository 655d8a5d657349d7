#!/bin/sh
# A client made by openapi-python-client sends the defaults of all fields with every PATCH.
#
# Expected: "default" in a schema is an annotation: it says what a receiver may take for a missing
# value (JSON Schema Validation 2020-12, section 9.2), and a property that the caller did not set is
# not sent. That is what the client does with properties without a default: they are UNSET and left
# out.
# What happens: the default becomes the value of the attribute, so that a change of the name alone
# sends status, priority and currency too, and overwrites what is stored.
# Version: openapi-python-client 0.29.1.
# For a CRM: no "default" may stand in the schema of a change, or a new name reopens a won deal.
set -eu
command -v python3 > /dev/null || { echo "needs python3" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"
python3 -m venv venv
venv/bin/pip install -qq --disable-pip-version-check \
  openapi-python-client==0.29.1 httpx==0.28.1 python-dateutil==2.9.0.post0
export PYTHONUTF8=1

cat > api.json <<'JSON'
{"openapi": "3.1.0", "info": {"title": "CRM", "version": "1"},
 "paths": {"/deals/{id}": {"patch": {
   "operationId": "change_deal",
   "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
   "requestBody": {"content": {"application/json": {
     "schema": {"$ref": "#/components/schemas/DealChange"}}}},
   "responses": {"204": {"description": "Changed"}}}}},
 "components": {"schemas": {"DealChange": {"type": "object", "properties": {
   "name": {"type": "string"},
   "note": {"type": "string"},
   "status": {"type": "string", "enum": ["open", "won", "lost"], "default": "open"},
   "priority": {"type": "integer", "default": 3},
   "currency": {"type": "string", "default": "UAH"}}}}}}
JSON
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
PATH="$folder/venv/bin:$PATH" openapi-python-client generate --path api.json --meta none \
  --output-path client > generator.log 2>&1 || { echo "no client was made" >&2; exit 1; }
cat > change.py <<'PY'
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from client import Client
from client.api.default import change_deal
from client.models import DealChange


class Handler(BaseHTTPRequestHandler):
    def do_PATCH(self):
        print("sent:", self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        """Write no log of requests."""


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Client(base_url=f"http://127.0.0.1:{server.server_port}")
response = change_deal.sync_detailed("1", client=client, body=DealChange(name="Кухня"))
print("status:", int(response.status_code))
PY
expected='sent: {"name":"Кухня","status":"open","priority":3,"currency":"UAH"}
status: 204'
seen=$(venv/bin/python change.py 2>&1) || :
echo "openapi-python-client 0.29.1 changes only the name of a deal"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "CHANGED: the client sends something else" >&2; exit 1; }
