"""Requests as a WSGI server hands them over: any Host, any bytes, nothing tidied by a client."""

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import Headers


@dataclass
class Answer:
    """What the app said."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def speak(
    app: Callable,
    method: str = "GET",
    path: str = "/api/v1/leads",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    host: str | None = "acme.localhost",
    query: str = "",
    chunked: bool = False,
    **more: Any,
) -> Answer:
    """One request. `path` is the bytes of the decoded path as latin-1, as PEP 3333 wants it."""
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if host is not None:
        environ["HTTP_HOST"] = host
    if chunked:
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        environ["wsgi.input_terminated"] = True
    elif body:
        environ["CONTENT_LENGTH"] = str(len(body))
    for name, value in (headers or {}).items():
        name = name.upper().replace("-", "_")
        known = name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        environ[name if known else f"HTTP_{name}"] = value
    environ |= more
    said: list[Any] = []

    def start_response(status: str, headers: list, exc_info: Any = None) -> None:
        said[:] = [int(status.split()[0]), Headers(headers)]

    parts: Iterable[bytes] = app(environ, start_response)
    try:
        text = b"".join(parts)
    finally:
        if hasattr(parts, "close"):
            parts.close()
    return Answer(said[0], said[1], text)


def speaker(app: Callable, key: str) -> Callable[..., Answer]:
    """`speak` with a key and a JSON content type."""

    def call(
        method: str = "GET",
        path: str = "/leads",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        **more: Any,
    ) -> Answer:
        sent = {"Authorization": f"Bearer {key}"}
        if body:
            sent["Content-Type"] = "application/json"
        return speak(app, method, f"/api/v1{path}", sent | (headers or {}), body, **more)

    return call
