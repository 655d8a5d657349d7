"""Uploaded files: read in pieces, refused as those that are read at once, and closed in the end."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from flask import Request, Response

from crm.api import idempotency
from crm.api.bodies import MAX_ENVELOPE_BYTES, read_uploaded_file, uploaded_file
from crm.errors import Invalid, TooLarge, WrongType
from crm.storage.session import execute, row, transaction
from tests.memory import peak_bytes

MIB = 1 << 20
KIND = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a.pdf"\r\n%s\r\n%s\r\n'
TEXT = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
END = b"--x--\r\n"
TYPE = b"Content-Type: application/pdf\r\n"
FILE = bytes(range(256)) * 4096


def make_request(body: bytes, chunked: bool = False, kind: str = KIND, **more: Any) -> Request:
    """A request as a server passes it on: with the length of its body, or terminated by itself."""
    length = {"wsgi.input_terminated": True} if chunked else {"CONTENT_LENGTH": str(len(body))}
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/files", "CONTENT_TYPE": kind, **length}
    return Request(environ | {"QUERY_STRING": "", "wsgi.input": io.BytesIO(body)} | more)


@pytest.fixture(autouse=True)
def no_file_stays_open(acme: Any) -> Iterator[None]:
    acme.key_id = row("SELECT min(id) FROM api_key")[0]
    with transaction():  # which opens files of the tenant for good
        execute("DELETE FROM idempotency_response")
    before = unnamed_files(acme)
    yield
    assert unnamed_files(acme) <= before


def unnamed_files(session: Any) -> set[str]:
    """The temporary files in the data folder that this process has open."""
    names = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            names.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    folder = str(session.source.config.data)
    return {name for name in names if name.startswith(folder) and name.endswith("(deleted)")}


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_file_is_read_whole_with_its_texts(chunked: bool) -> None:
    body = TEXT % (b"note", "Нове".encode()) + PART % (b"file", TYPE, FILE) + END
    with closing(make_request(body, chunked)) as request:
        name, kind, file, texts = uploaded_file(request, "file", MIB, ("note",))
        assert (name, kind, texts) == ("a.pdf", "application/pdf", {"note": "Нове"})
        assert file.read() == FILE


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_no_more_than_a_piece_is_in_memory(chunked: bool) -> None:
    body = PART % (b"file", TYPE, FILE * 8) + END
    with closing(make_request(body, chunked)) as request:
        assert peak_bytes(uploaded_file, request, "file", 8 * MIB) < MIB
        request.environ["HTTP_IDEMPOTENCY_KEY"] = "once"
        assert peak_bytes(idempotency.once, request, lambda: Response(status=204)) < MIB


def test_a_key_of_a_request_is_one_for_its_file_and_leaves_it_to_be_read() -> None:
    def send(content: bytes) -> Response:
        body = PART % (b"file", TYPE, content) + END
        with closing(make_request(body, HTTP_IDEMPOTENCY_KEY="file")) as request:
            file = uploaded_file(request, "file", MIB).file
            return idempotency.once(request, lambda: Response(file.read(), 201))

    assert send(FILE).data == FILE
    assert send(FILE).headers["Idempotency-Replayed"] == "true"
    with pytest.raises(Invalid) as reused:
        send(FILE[::-1])
    assert reused.value.code == "idempotency_key_reused"


@pytest.mark.parametrize("read", [read_uploaded_file, uploaded_file])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("required", END),
        ("required", TEXT % (b"file", b"a text") + END),
        ("required", PART % (b"file", TYPE, FILE)),  # cut: its temporary file is closed, too
        ("repeated", PART % (b"file", TYPE, b"a") * 2 + END),
        ("unknown_field", PART % (b"file", TYPE, b"a") + PART % (b"other", TYPE, b"a") + END),
        ("too_large", PART % (b"file", TYPE, FILE + bytes(MAX_ENVELOPE_BYTES)) + END),
    ],
)
def test_other_bodies_are_refused(
    read: Callable[..., Any], chunked: bool, code: str, body: bytes
) -> None:
    with closing(make_request(body, chunked)) as request, pytest.raises((Invalid, TooLarge)) as no:
        read(request, "file", MIB)
    assert code in (no.value.code, *(fault.code for fault in getattr(no.value, "faults", ())))


def test_a_file_is_bounded_by_itself_and_so_are_the_parts() -> None:
    for body in (PART % (b"file", TYPE, FILE + b"a"), PART % (b"file", TYPE, b"a") * 30):
        with closing(make_request(body + END)) as request, pytest.raises(TooLarge):
            uploaded_file(request, "file", MIB)
    with closing(make_request(b"{}", kind="application/json")) as request, pytest.raises(WrongType):
        uploaded_file(request, "file", MIB)
