"""Endpoints of files: those of each kind of record, and the bytes of a file."""

from functools import partial
from io import BytesIO
from typing import Any

from flask import Request

from crm.access import rights
from crm.api.blueprints import Blueprint, Endpoints
from crm.api.bodies import MAX_ENVELOPE_BYTES, uploaded_file
from crm.api.stored_files import StoredFile
from crm.records import queries
from crm.records.record import require_live
from crm.resources.files import record as files
from crm.resources.files.record import FILE, MAX_BYTES, NOUNS, File

READING = {noun: f"{plural}:read" for noun, plural in NOUNS.items()}
FILE_FILTER = queries.filter_of(File, queries.Filter, unsorted=("updated_at",))()

blueprint = Blueprint("files", "Files on leads, clients, deals, products and tasks.")


class FileStorer:
    """Stores the one file of a request, before any transaction: the operation's `upload`."""

    parts = ()

    def __init__(self, noun: str):
        self._noun = noun

    def __call__(self, request: Request, record_id: str) -> dict[str, Any]:
        """What files.attach() takes. Raises NotFound, and what uploaded_file() and store() do."""
        require_live(self._noun, record_id)
        upload = uploaded_file(request, "file", MAX_BYTES)
        return files.store(upload.file, upload.name, upload.content_type)

    def of_bytes(self, data: bytes, _: Any, name: str | None = None) -> dict[str, Any]:
        """The same of bytes, for a call from Python."""
        return files.store(BytesIO(data), name)


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
        partial(files.attach, noun),
        f"Add a file of up to {MAX_BYTES >> 20} MiB to a {noun}.",
        body=None,
        upload=FileStorer(noun),
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
