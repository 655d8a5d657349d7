"""No body outlives its request: not in an error's traceback, the environ or a cycle of them."""

import gc
import tracemalloc
from typing import Any

import pytest

from tests.raw_wsgi import send_request

SIZE = 300_000
TIMES = 5
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
PART = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n%s\r\n--x--\r\n'
TEXT = b'"' + b"a" * SIZE + b'"'
IMPORT = "/api/v1/leads/import"

# What is refused: the status, and options of send_request().
REFUSED: list[tuple[int, dict[str, Any]]] = [
    (404, {"host": "nobody.localhost"}),
    (404, {"host": "nobody.localhost", "path": "/login"}),
    (404, {"host": "localhost"}),
    (404, {"host": "evil.example", "path": "/"}),
    (404, {"path": "/api/v1/nothing"}),
    (404, {"path": "/nothing"}),
    (404, {"path": "/api/v1/leads/999/convert", "headers": JSON, "body": b"{}" + b" " * SIZE}),
    (405, {"method": "PUT"}),
    (405, {"path": "/login", "method": "PUT"}),
    (400, {"path": "/login", "headers": FORM}),
    (302, {"path": "/leads/import", "headers": MULTIPART, "body": PART % (b"file", TEXT)}),
    (401, {"headers": {"Authorization": "Bearer nothing"}}),
    (415, {}),
    (413, {"headers": JSON, "body": TEXT * 4}),
    (400, {"headers": JSON, "body": TEXT[:-1]}),
    (422, {"headers": JSON}),
    (422, {"path": IMPORT, "headers": MULTIPART, "body": PART % (b"other", TEXT)}),
    (422, {"path": IMPORT, "headers": MULTIPART, "body": PART % (b"file", TEXT)}),
]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_refused_body_is_freed_with_its_response(crm, api, chunked: bool) -> None:
    keeps = []
    gc.disable()  # it would end cycles, but not before many bodies have come
    try:
        for status, options in REFUSED:
            asked = {"method": "POST", "body": TEXT, "path": "/api/v1/leads"} | options
            asked["headers"] = {"Authorization": f"Bearer {api.key}"} | options.get("headers", {})

            def ask(asked: dict[str, Any] = asked, status: int = status) -> None:
                body = asked["body"] + b" "  # a copy of its own
                answer = send_request(crm, **asked | {"body": body}, chunked=chunked)
                assert answer.status == status, (asked["path"], answer.body)

            ask()
            tracemalloc.start()
            for _ in range(TIMES):
                ask()
            held_bytes, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            if held_bytes > SIZE:
                keeps.append((status, asked["path"], asked.get("host"), held_bytes))
    finally:
        gc.enable()
    assert not keeps
