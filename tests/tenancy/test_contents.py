"""Contents of files and papers: stored once, by their SHA-256, in chunks; on either engine."""

import hashlib
import io
import os

import pytest

from crm.errors import NotFound
from crm.storage.contents import CHUNK_BYTES
from crm.storage.session import current_session


def add(data: bytes) -> str:
    sha256, size = current_session().source.contents.add(io.BytesIO(data))
    assert (sha256, size) == (hashlib.sha256(data).hexdigest(), len(data))
    return sha256


def read(sha256: str, *span: int) -> bytes:
    return b"".join(current_session().source.contents.read(sha256, *span))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES - 1])
def test_what_was_stored_is_read_in_whole_and_in_ranges(acme, size):
    data = os.urandom(size)
    sha256 = add(data)
    assert read(sha256) == data
    for start, stop in (0, 1), (size // 3, size // 2), (CHUNK_BYTES - 1, CHUNK_BYTES + 1), (9, 5):
        assert read(sha256, start, stop) == data[start:stop]
    assert read(sha256, size // 2) == data[size // 2 :]
    with pytest.raises(NotFound):
        read("0" * 64)
