"""The body of a request: read once, within its limit, before any transaction (D4)."""

from io import BytesIO
from typing import Any

from flask import Request, request
from werkzeug.exceptions import RequestEntityTooLarge

from crm.errors import Malformed, TooLarge, WrongType
from crm.json import loads

MAX_JSON_BODY_BYTES = 1 << 20
JSON_TYPES = ("application/json", "application/merge-patch+json")


def json_body(asked: Request) -> Any:
    """The JSON sent; {} without a body. Raises TooLarge, WrongType or Malformed."""
    data = _whole_body(asked.environ) or raw_body(MAX_JSON_BODY_BYTES)
    if not data:
        return {}
    if asked.environ.get("CONTENT_TYPE") not in JSON_TYPES and asked.mimetype not in JSON_TYPES:
        raise WrongType
    try:
        return loads(data)
    except (ValueError, RecursionError):
        raise Malformed from None


def _whole_body(environ: dict[str, Any]) -> bytes:
    """A body that came with its length, read at once: werkzeug's stream takes 5 % of a create.
    Empty if it is for raw_body() to read, or to refuse."""
    length = environ.get("CONTENT_LENGTH", "")
    if not (length.isascii() and length.isdecimal() and 0 < int(length) <= MAX_JSON_BODY_BYTES):
        return b""
    data = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = BytesIO(data)  # for whoever reads it again; cut short, it is refused
    return data if len(data) == int(length) else b""


def raw_body(limit: int) -> bytes:
    """The bytes sent. A body without a length is read one byte beyond the limit, to know."""
    request.max_content_length = limit + 1
    try:
        data = request.get_data()
    except RequestEntityTooLarge:
        raise TooLarge from None
    if len(data) > limit:
        raise TooLarge(f"the body is larger than {limit} bytes")
    return data
