"""A file sent as the one part of a multipart/form-data body (spec: Products, import; D9)."""

import io
from typing import Any

from flask import Request
from werkzeug.formparser import FormDataParser

from crm.api.bodies import read_body
from crm.errors import Fault, Invalid, WrongType

ENVELOPE = 64 << 10  # bytes that multipart may need around the file


def one_file(sent: Request, name: str, most: int) -> tuple[str | None, bytes]:
    """(file name, bytes) of the part `name`. Read before any transaction.

    Raises WrongType unless it is multipart, TooLarge beyond `most` bytes and an envelope, and
    Invalid: required, repeated, unknown_field.
    """
    if sent.mimetype != "multipart/form-data":
        raise WrongType(f"send multipart/form-data with one file part named {name}")
    read_body(most + ENVELOPE)
    sent.form_data_parser_class = InMemory
    found = sent.files.getlist(name)
    # The name is None of a part that has none, or one that cannot be read.
    if others := sorted({part or "" for part in (*sent.form, *sent.files)} - {name}):
        raise Invalid(Fault(f"/{others[0]}", "unknown_field", f"there is only the part {name}"))
    if len(found) != 1 or name in sent.form:
        code = "repeated" if found else "required"
        raise Invalid.field(name, code, f"send one file part named {name}")
    return found[0].filename or None, found[0].read()


class InMemory(FormDataParser):
    """Keeps parts where the body is already; a cut body would leave a temporary file behind."""

    def __init__(self, _: Any = None, **options: Any):
        options["stream_factory"] = lambda *_, **__: io.BytesIO()
        super().__init__(**options)
