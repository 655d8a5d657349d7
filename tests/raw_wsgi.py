"""Call a WSGI app directly, with any Host and any bytes, as no HTTP client would send them."""

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import Headers


@dataclass
class WsgiResponse:
    """The response of the app."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send_request(
    app: Callable,
    method: str = "GET",
    path: str = "/api/v1/leads",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    host: str | None = "acme.localhost",
    query: str = "",
    chunked: bool = False,
    **extra_environ: Any,
) -> WsgiResponse:
    """Send one request to the app and return its whole response.

    `path` is the decoded path with its bytes as latin-1 characters, as PEP 3333 requires.
    `host` None sends no Host header; `chunked` sends a body without Content-Length.
    """
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
        has_no_prefix = name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        environ[name if has_no_prefix else f"HTTP_{name}"] = value
    environ |= extra_environ
    status_and_headers: list[Any] = []

    def start_response(status: str, headers: list, exc_info: Any = None) -> None:
        status_and_headers[:] = [int(status.split()[0]), Headers(headers)]

    parts: Iterable[bytes] = app(environ, start_response)
    try:
        content = b"".join(parts)
    finally:
        if hasattr(parts, "close"):
            parts.close()
    return WsgiResponse(*status_and_headers, content)


def make_api_caller(app: Callable, key: str) -> Callable[..., WsgiResponse]:
    """Return `send_request` for paths of the API, with the API key and a JSON content type."""

    def call_api(
        method: str = "GET",
        path: str = "/leads",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        **options: Any,
    ) -> WsgiResponse:
        all_headers = {"Authorization": f"Bearer {key}"}
        if body:
            all_headers["Content-Type"] = "application/json"
        all_headers |= headers or {}
        return send_request(app, method, f"/api/v1{path}", all_headers, body, **options)

    return call_api
