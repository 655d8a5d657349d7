"""A receiver of webhooks that checks signatures and stores each event once.

    WEBHOOK_SECRET=whsec_… python3 receiver.py 9000

It listens on 127.0.0.1: your web server, with TLS, passes requests on to it. Events are stored in
the folder `received`, one file each: another program does the work after the answer was sent.
"""

import base64
import hashlib
import hmac
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SECRET = os.environ["WEBHOOK_SECRET"]
RECEIVED = Path("received")
MAX_BODY_BYTES = 5_000_000


def verify(secret: str, headers, body: bytes) -> bool:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    is_recent = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return is_recent and any(
        hmac.compare_digest(expected, signature)
        for signature in headers["webhook-signature"].split()
    )


def store_once(event_id: str, body: bytes) -> None:
    """Store an event, unless it is here already: a delivery may arrive more than once."""
    try:
        with open(RECEIVED / f"{event_id}.json", "xb") as file:
            file.write(body)
    except FileExistsError:
        pass


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
        try:
            accepted = verify(SECRET, self.headers, body)
        except (AttributeError, TypeError, ValueError):  # a header is missing, or is no number
            accepted = False
        event_id = self.headers.get("webhook-id", "")
        if accepted and re.fullmatch(r"\w+", event_id):
            store_once(event_id, body)
        self.send_response(204 if accepted else 400)
        self.end_headers()


if __name__ == "__main__":
    RECEIVED.mkdir(exist_ok=True)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
