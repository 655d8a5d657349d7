"""Read the body of a request, once, within its limit and before any transaction (D4)."""

from io import BytesIO
from typing import Any

from flask import Request, request
from werkzeug.exceptions import RequestEntityTooLarge

from crm.errors import Malformed, TooLarge, WrongType
from crm.json import loads

MAX_JSON_BODY_BYTES = 1 << 20
JSON_TYPES = ("application/json", "application/merge-patch+json")


def read_json_body(request: Request) -> Any:
    """The parsed JSON of the body; {} without a body.

    Raises TooLarge, WrongType for another Content-Type, and Malformed.
    """
    data = _read_whole_body(request.environ) or read_body(MAX_JSON_BODY_BYTES)
    if not data:
        return {}
    # The mimetype is parsed only of a header that has parameters too.
    if request.environ.get("CONTENT_TYPE") not in JSON_TYPES and request.mimetype not in JSON_TYPES:
        raise WrongType
    try:
        return loads(data)
    except (ValueError, RecursionError):
        raise Malformed from None


def _read_whole_body(environ: dict[str, Any]) -> bytes:
    """A body with a Content-Length, read at once: werkzeug's stream takes 5 % of a create.

    Empty if read_body() is to read or to refuse it.
    """
    length = environ.get("CONTENT_LENGTH", "")
    if not (length.isascii() and length.isdecimal() and 0 < int(length) <= MAX_JSON_BODY_BYTES):
        return b""
    data = environ["wsgi.input"].read(int(length))
    # The hash of an Idempotency-Key reads it again; read_body() refuses one that is cut short.
    environ["wsgi.input"] = BytesIO(data)
    return data if len(data) == int(length) else b""


def read_body(max_bytes: int) -> bytes:
    """The bytes of the current request's body; raises TooLarge.

    A body without a length is read one byte beyond the limit, to know whether it is larger.
    """
    request.max_content_length = max_bytes + 1
    try:
        data = request.get_data()
    except RequestEntityTooLarge:
        raise TooLarge from None
    if len(data) > max_bytes:
        raise TooLarge(f"the body is larger than {max_bytes} bytes")
    return data
