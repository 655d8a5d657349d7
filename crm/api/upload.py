"""A file sent as the one part of a multipart/form-data body (spec: Products, import; D9)."""

import io
from typing import Any

from flask import Request
from werkzeug.formparser import FormDataParser

from crm.api.bodies import read_body
from crm.errors import Fault, Invalid, WrongType

MAX_ENVELOPE_BYTES = 64 << 10  # what multipart may need around the file


def read_uploaded_file(request: Request, name: str, max_bytes: int) -> tuple[str | None, bytes]:
    """The file name and the bytes of the part `name`; call it before any transaction.

    Raises WrongType unless it is multipart, TooLarge beyond `max_bytes` and an envelope, and
    Invalid: required, repeated, unknown_field.
    """
    if request.mimetype != "multipart/form-data":
        raise WrongType(f"send multipart/form-data with one file part named {name}")
    read_body(max_bytes + MAX_ENVELOPE_BYTES)
    request.form_data_parser_class = InMemory
    parts = request.files.getlist(name)
    # The name is None of a part that has none, or one that cannot be read.
    if others := sorted({part or "" for part in (*request.form, *request.files)} - {name}):
        raise Invalid(Fault(f"/{others[0]}", "unknown_field", f"there is only the part {name}"))
    if len(parts) != 1 or name in request.form:
        code = "repeated" if parts else "required"
        raise Invalid.field(name, code, f"send one file part named {name}")
    return parts[0].filename or None, parts[0].read()


class InMemory(FormDataParser):
    """Keeps parts in memory, as the body is; a cut body would leave a temporary file behind."""

    def __init__(self, _: Any = None, **options: Any):
        options["stream_factory"] = lambda *_, **__: io.BytesIO()
        super().__init__(**options)
