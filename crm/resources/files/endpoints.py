"""Endpoints of files: those of each kind of record, and the bytes of a file."""

from functools import partial
from io import BytesIO
from typing import Any

from flask import Request

from crm.access import rights
from crm.api.blueprints import Blueprint, Endpoints
from crm.api.bodies import MAX_ENVELOPE_BYTES, UploadedFile, uploaded_file
from crm.api.stored_files import StoredFile
from crm.records import queries
from crm.resources.files import record as files
from crm.resources.files.record import FILE, MAX_BYTES, NOUNS, File

READING = {noun: f"{plural}:read" for noun, plural in NOUNS.items()}
FILE_FILTER = queries.filter_of(File, queries.Filter)()

blueprint = Blueprint("files", "Files on leads, clients, deals, products and tasks.")


class FileReader:
    """Reads the one file of a request: the operation's `upload`."""

    parts = ()

    def __call__(self, request: Request) -> UploadedFile:
        """Raises what uploaded_file() does."""
        return uploaded_file(request, "file", MAX_BYTES)

    def of_bytes(self, data: bytes, chosen: dict[str, Any], name: str | None = None) -> Any:
        """The same of bytes, for a call from Python."""
        return UploadedFile(name, "", BytesIO(data), {})


def add_file(noun: str, record_id: str, upload: UploadedFile) -> int:
    with upload.file as file:
        return files.add(noun, record_id, file, upload.name, upload.content_type)


def show(noun: str, record_id: str, id: str) -> dict[str, Any]:
    """What is known of a file; raises NotFound."""
    return FILE.one(files.find(noun, record_id, id).id)


for noun, plural in NOUNS.items():
    of_record = Endpoints(blueprint, f"/{plural}/<id>/files", FILE, f"{noun}_file", id="fileId")
    reading, writing = (f"{plural}:read",), (f"{plural}:write",)
    of_record.list(
        FILE_FILTER,
        f"List the files of a {noun}, the newest first.",
        where=partial(files.of_record, noun),
        needs=reading,
    )
    of_record.create(
        partial(add_file, noun),
        f"Add a file of up to {MAX_BYTES >> 20} MiB to a {noun}.",
        body=None,
        upload=FileReader(),
        max_body_bytes=MAX_BYTES + MAX_ENVELOPE_BYTES,
        needs=writing,
    )
    of_record.delete(
        partial(files.delete, noun),
        f"Delete a file of a {noun}; it can be restored for 30 days.",
        needs=writing,
    )
    blueprint.add(
        "POST",
        f"/{plural}/<id>/files/<fileId>/restore",
        name=f"restore_{noun}_file",
        about=f"Restore a deleted file of a {noun}.",
        function=lambda record_id, id, noun=noun: FILE.one(files.restore(noun, record_id, id).id),
        response_view=FILE,
        needs=writing,
    )


@blueprint.operation("GET", "/files/<id>", needs=(), kind="raw", media_type="*/*")
def get_file(id: str) -> StoredFile:
    """Get the bytes of a file, or a range of them.

    Needs the right to read the file's record, such as `deals:read`.
    """
    rights.require_any(READING, "this key reads no records that have files")
    file = files.find_live(id)
    rights.require([f"{NOUNS[file.noun]}:read"])
    return StoredFile(file.name, file.content_type, file.size, file.sha256)
