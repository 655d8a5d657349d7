"""Reading the body of a request, once, within its limit and before any transaction (D4).

A file comes as a part of a multipart/form-data body (spec: Products, import; D9).
"""

import io
from collections.abc import Collection
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple, cast

from flask import Request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from crm.activity import apart
from crm.errors import Fault, Invalid, TooLarge, WrongType
from crm.storage.session import settings

MAX_ENVELOPE_BYTES = 64 << 10  # what multipart may need around the file
MAX_MORE_PARTS = 8  # than those that are named: each may have a temporary file


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


class UploadedFile(NamedTuple):
    """A file of a request, at its beginning, and the texts of the other parts."""

    name: str | None
    content_type: str  # as it was sent; empty: none
    file: BinaryIO
    texts: dict[str, str]


def uploaded_file(
    request: Request, name: str, max_bytes: int, more: Collection[str] = ()
) -> UploadedFile:
    """The part `name` as a file, of which no more than a piece is in memory, and the texts of the
    parts of `more`.

    It is a temporary file in the data folder, open until `request.close()`, which the application
    calls at the end of each request. Call it before any transaction. Raises WrongType unless it is
    multipart, TooLarge for a longer file or many superfluous parts, OSError for a full disk, and
    Invalid: required, repeated, unknown_field.
    """
    if request.mimetype != "multipart/form-data":
        raise WrongType(f"send multipart/form-data with one file part named {name}")
    parse_form_in_files(request, max_bytes + MAX_ENVELOPE_BYTES, MAX_MORE_PARTS + len(more) + 1)
    parts = request.files.getlist(name)
    # The name is None of a part that has none, or one that cannot be read.
    if others := sorted({part or "" for part in (*request.form, *request.files)} - {name, *more}):
        raise Invalid(Fault(f"/{others[0]}", "unknown_field", f"there is only the part {name}"))
    texts = {key: request.form[key] for key in more if key in request.form}
    for key in more:  # a program may send a text as a file
        if key in request.files:
            texts[key] = request.files[key].read(MAX_ENVELOPE_BYTES).decode("utf-8", "replace")
    if len(parts) != 1 or name in request.form:
        code = "repeated" if parts else "required"
        raise Invalid.field(name, code, f"send one file part named {name}")
    (part,) = parts
    if part.seek(0, io.SEEK_END) > max_bytes:
        raise TooLarge(f"the file is larger than {max_bytes} bytes")
    part.seek(0)
    file = cast(BinaryIO, part.stream)
    return UploadedFile(part.filename or None, part.content_type or "", file, texts)


def parse_form_in_files(request: Request, max_bytes: int, max_parts: int) -> None:
    """Parse the form of a request, whose files become temporary ones in the data folder.

    They are open until `request.close()`. Raises TooLarge for a longer body or more parts, and
    OSError for a full disk.
    """
    request.max_content_length = max_bytes + 1
    request.max_form_parts = max_parts
    request.form_data_parser_class = InFiles
    try:
        with apart():
            _ = request.files
    except RequestEntityTooLarge:
        raise TooLarge from None


def read_uploaded_file(
    request: Request, name: str, max_bytes: int, more: Collection[str] = ()
) -> tuple[str | None, bytes, dict[str, str]]:
    """The file name and the bytes of the part `name`, and the texts of the parts of `more`.

    Raises what uploaded_file() does.
    """
    file_name, _, file, texts = uploaded_file(request, name, max_bytes, more)
    return file_name, file.read(), texts


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
