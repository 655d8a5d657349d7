"""One HTTP request to a service that takes messages."""

from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from crm.messages.deadline_connection import open_connection


def send_request(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None = None,
    max_answer_bytes: int = 0,
    seconds: float | None = None,
) -> tuple[int, bytes]:
    """Send one request; return the status and the first `max_answer_bytes` of the response's body.

    By the standard library, because urllib3 logs URLs, which may contain phone and text. Redirects
    are not followed. `seconds`: as of open_connection(). Raises Undelivered.
    """
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    all_headers = {"Host": parts.netloc, "User-Agent": "crm", "Connection": "close", **headers}
    with (
        open_connection(host, port, tls, seconds) as connected,
        closing(HTTPConnection(host, port)) as connection,
    ):
        connection.sock = connected
        connection.request(method, target, body, all_headers)
        with connection.getresponse() as response:
            content = response.read(max_answer_bytes) if max_answer_bytes else b""
            return response.status, content
