"""Reading the body of a request, once, within its limit and before any transaction (D4).

A file comes as a part of a multipart/form-data body (spec: Products, import; D9).
"""

import io
from collections.abc import Collection
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from flask import Request
from werkzeug.datastructures import FileStorage
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from crm.errors import Fault, Invalid, TooLarge, WrongType
from crm.storage.session import settings

MAX_ENVELOPE_BYTES = 64 << 10  # what multipart may need around the file
MAX_PARTS_IN_FILES = 8  # besides those that are named: each may have a temporary file


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
    _require_form(request, name)
    read_body(request, max_bytes + MAX_ENVELOPE_BYTES)
    request.form_data_parser_class = InMemory
    part, texts = _find_part(request, name, more)
    return part.filename or None, part.read(), texts


class UploadedFile(NamedTuple):
    """A file of a request, at its beginning, and the texts of the other parts."""

    name: str | None
    content_type: str  # as it was sent; empty: none
    file: IO[bytes]
    texts: dict[str, str]


def uploaded_file(
    request: Request, name: str, max_bytes: int, more: Collection[str] = ()
) -> UploadedFile:
    """The part `name` as a file, of which no more than a piece is in memory at a time.

    It is a temporary file in the data folder, open until `request.close()`, which the application
    calls at the end of each request. Raises what read_uploaded_file() does, also TooLarge for more
    than a few superfluous parts, and OSError for a full disk.
    """
    _require_form(request, name)
    request.max_content_length = max_bytes + MAX_ENVELOPE_BYTES + 1
    request.max_form_parts = MAX_PARTS_IN_FILES + len(more) + 1
    request.form_data_parser_class = InFiles
    try:
        part, texts = _find_part(request, name, more)
    except RequestEntityTooLarge:
        raise TooLarge from None
    if part.stream.seek(0, io.SEEK_END) > max_bytes:
        raise TooLarge(f"the file is larger than {max_bytes} bytes")
    part.stream.seek(0)
    return UploadedFile(part.filename or None, part.content_type or "", part.stream, texts)


def _require_form(request: Request, name: str) -> None:
    if request.mimetype != "multipart/form-data":
        raise WrongType(f"send multipart/form-data with one file part named {name}")


def _find_part(
    request: Request, name: str, more: Collection[str]
) -> tuple[FileStorage, dict[str, str]]:
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
    return parts[0], texts


class InMemory(FormDataParser):
    """Keeps parts in memory, as the body is; a cut body would leave a temporary file behind."""

    def __init__(self, _: Any = None, **options: Any):
        options["stream_factory"] = lambda *_, **__: io.BytesIO()
        super().__init__(**options)


class InFiles(FormDataParser):
    """Keeps parts that are files in temporary files; closes them if the body is cut or refused."""

    def parse(self, *arguments: Any, **options: Any) -> Any:
        with ExitStack() as files:
            self.stream_factory = lambda *_, **__: files.enter_context(
                TemporaryFile(dir=str(settings().data))
            )
            result = super().parse(*arguments, **options)
            if result[2]:  # else a cut body, whose files are nobody's
                files.pop_all()
            return result
