"""`Idempotency-Key` (D4): the same request twice is one change and one answer, for 24 hours.

The response is stored in the transaction of the change, so neither is there without the other. A
duplicate that arrives meanwhile waits for the writer's lock, finds the response and replays it.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson
from flask import Request, Response
from werkzeug.wrappers import Response as BaseResponse

from crm.errors import Fault, Invalid
from crm.json import dumps
from crm.records import erasure
from crm.storage import sweeps
from crm.storage.clocks import erasing_before
from crm.storage.session import current_session, execute, now, row, transaction

ANSWER_SECONDS = 24 * 3600
PIECE_BYTES = 256 * 1024  # of a file that is hashed
OF_REQUEST = (
    "FROM idempotency_response WHERE key = ? AND method = ? AND path = ? AND user_key_id = ?"
)
STORED_HEADERS = ("Content-Type", "ETag", "Location", "Preference-Applied")


def once(request: Request, act: Callable[[], Any]) -> Any:
    """Replay the response that is stored for the key; if there is none, act and store its response.

    act: makes the response, in the transaction that stores it. Raises Invalid for a key that is no
    key, or came before with another body.
    """
    key = request.headers["Idempotency-Key"]
    if not (0 < len(key) <= 255 and all("!" <= letter <= "~" for letter in key)):
        detail = "1 to 255 visible ASCII characters"
        raise Invalid(Fault("Idempotency-Key", "invalid_header", detail, "header"))
    scope = (key, request.method, request.path, current_session().key_id)
    fingerprint = _fingerprint(request)
    with transaction():
        if stored := find_response(scope):
            known_fingerprint, response = stored
            if known_fingerprint != fingerprint:
                code = "idempotency_key_reused"
                fault = Fault("Idempotency-Key", code, "came with another body", "header")
                raise Invalid(fault, code)
            response.headers["Idempotency-Replayed"] = "true"
            return response
        response = act()
        if 200 <= response.status_code < 300:
            store_response(scope, fingerprint, response)
        return response


def find_response(scope: tuple) -> tuple[bytes, Response] | None:
    """Return the fingerprint of the request with this key, and what it was answered."""
    # By the clock that erases: one that is ahead for a moment must not repeat a change.
    stored = row(
        f"SELECT fingerprint, status, headers, body {OF_REQUEST} AND created_at > ?",
        (*scope, erasing_before(ANSWER_SECONDS)),
    )
    if stored is None:
        return None
    fingerprint, status, headers, body = stored
    return fingerprint, Response(body, status, orjson.loads(headers))


def store_response(scope: tuple, fingerprint: bytes, response: BaseResponse) -> None:
    """Store the answer of a request; scope: its key, method and path, and whose key it is."""
    headers = {name: response.headers[name] for name in STORED_HEADERS if name in response.headers}
    # A secret is in no replay, and so not in the database either.
    body = getattr(response, "replay_body", None) or response.get_data()
    # The row of an expired response, which the sweep has not deleted yet.
    execute(f"DELETE {OF_REQUEST}", scope)
    execute(
        "INSERT INTO idempotency_response"
        " (key, method, path, user_key_id, fingerprint, status, headers, body, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*scope, fingerprint, response.status_code, dumps(headers).decode(), body, now()),
    )


def _fingerprint(request: Request) -> bytes:
    """A hash of the query and the body: of a form by its fields and files, not its envelope."""
    digest = hashlib.blake2b(request.query_string, digest_size=16)
    if request.mimetype == "multipart/form-data":
        for name in sorted(request.form):
            digest.update(repr((name, request.form.getlist(name))).encode())
        for name in sorted(request.files):
            for file in request.files.getlist(name):
                digest.update(repr((name, file.filename)).encode())
                file.stream.seek(0)  # the operation has read it
                while piece := file.stream.read(PIECE_BYTES):
                    digest.update(piece)
                file.stream.seek(0)
    else:
        digest.update(request.get_data())
    return digest.digest()


@sweeps.register
def delete_expired(max_rows: int) -> int:
    """Delete the answers that are older than ANSWER_SECONDS."""
    return execute(
        "DELETE FROM idempotency_response WHERE (key, method, path, user_key_id) IN"
        " (SELECT key, method, path, user_key_id FROM idempotency_response"
        " WHERE created_at < ? LIMIT ?)",
        (erasing_before(ANSWER_SECONDS), max_rows),
    ).rowcount


KEYS = ("key", "method", "path", "user_key_id")
erasure.register_deletion(
    "responses", "idempotency_response", "key", "body", keys=KEYS, time="created_at"
)
