"""Requests to real servers on loopback, each on a connection of its own."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer, and how long it took."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int, method: str, path: str, body: Any = None, key: str = "", label: str = "acme",
    **headers: str,
) -> Answer:  # fmt: skip
    """Return the answer at the host of a tenant.

    A body is sent as JSON; bytes as they are, and an iterator of bytes in chunks. `headers` are
    named with underscores.
    """
    sent = {"Host": f"{label}.localhost"}
    if key:
        sent["Authorization"] = f"Bearer {key}"
    if body is not None and not isinstance(body, (bytes, Iterator)):
        body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as link:
        # A server may answer before it has received all chunks, and close the connection.
        with suppress(BrokenPipeError, ConnectionResetError):
            link.request(method, path, body, sent)
        answer = link.getresponse()
        content = answer.read()
    return Answer(answer.status, answer.headers, content, time.monotonic() - began)
