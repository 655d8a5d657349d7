"""Reading the body of a request, once, within its limit and before any transaction (D4).

A file comes as a part of a multipart/form-data body (spec: Products, import; D9).
"""

import io
from collections.abc import Collection
from typing import Any

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from crm.errors import Fault, Invalid, TooLarge, WrongType

MAX_ENVELOPE_BYTES = 64 << 10  # what multipart may need around the file


def read_body(request: Request, max_bytes: int) -> bytes:
    """The bytes of a request's body; raises TooLarge.

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


def read_uploaded_file(
    request: Request, name: str, max_bytes: int, more: Collection[str] = ()
) -> tuple[str | None, bytes, dict[str, str]]:
    """The file name and the bytes of the part `name`, and the texts of the parts of `more`.

    Call it before any transaction. Raises WrongType unless it is multipart, TooLarge beyond
    `max_bytes` and an envelope, and Invalid: required, repeated, unknown_field.
    """
    if request.mimetype != "multipart/form-data":
        raise WrongType(f"send multipart/form-data with one file part named {name}")
    read_body(request, max_bytes + MAX_ENVELOPE_BYTES)
    request.form_data_parser_class = InMemory
    parts = request.files.getlist(name)
    # The name is None of a part that has none, or one that cannot be read.
    if others := sorted({part or "" for part in (*request.form, *request.files)} - {name, *more}):
        raise Invalid(Fault(f"/{others[0]}", "unknown_field", f"there is only the part {name}"))
    texts = {part: request.form[part] for part in more if part in request.form}
    for part in more:  # a program may send a text as a file
        if part in request.files:
            texts[part] = request.files[part].read(MAX_ENVELOPE_BYTES).decode("utf-8", "replace")
    if len(parts) != 1 or name in request.form:
        code = "repeated" if parts else "required"
        raise Invalid.field(name, code, f"send one file part named {name}")
    return parts[0].filename or None, parts[0].read(), texts


class InMemory(FormDataParser):
    """Keeps parts in memory, as the body is; a cut body would leave a temporary file behind."""

    def __init__(self, _: Any = None, **options: Any):
        options["stream_factory"] = lambda *_, **__: io.BytesIO()
        super().__init__(**options)
