"""Files on the pages of records: their list, adding and deleting them; and the bytes of a file.

Nothing is decoded here: the browser makes the picture of a product small before it sends it.
"""

import os
from typing import Any, BinaryIO, cast

from flask import request
from werkzeug.wrappers import Response

from crm.api.bodies import MAX_ENVELOPE_BYTES
from crm.api.stored_files import StoredFile
from crm.cabinet.languages import gettext, ngettext
from crm.cabinet.rendering import Pages, see_other, with_undo
from crm.errors import Invalid, TooLarge
from crm.resources.files import record as files
from crm.resources.files.record import FILE

PATH = f"/<any({', '.join(files.NOUNS.values())}):plural>/<id>/files"
MAX_SHOWN = 20  # unless all are asked for
MAX_FILES = 30  # of one form, which without the script has all that were chosen
PICTURE_SIDE = 1200  # pixels of the longer side, to which the browser makes those of products small
CACHED = "private, max-age=86400"  # a product's pictures alone: others may be of persons

pages = Pages("record_files")


def files_of(noun: str, id: str) -> dict[str, Any]:
    """What `_files.html` needs: the newest files of a live record, or all that it has."""
    limit = files.MAX_FILES if request.args.get("files") == "all" else MAX_SHOWN
    condition, of_record = files.of_record(noun, id)
    found = FILE.every(f"{condition} ORDER BY id DESC LIMIT ?", *of_record, limit + 1)
    return {
        "files": found[:limit],
        "are_more": len(found) > limit,
        "pictures": files.PICTURES,
        "max_bytes": files.MAX_BYTES,
        "picture_side": PICTURE_SIDE if noun == "product" else "",
    }


@pages.get("/files/<id>", is_file=True)
def show_file(id: str) -> Response:
    file = files.find_live(id)
    is_shown = file.content_type in files.PICTURES
    stored = StoredFile(file.name, file.content_type, file.size, file.sha256, is_shown)
    response = stored.respond(request)
    response.headers["Cache-Control"] = CACHED if file.noun == "product" else "no-store"
    return response


@pages.post(PATH, max_files=MAX_FILES, max_body_bytes=files.MAX_BYTES + MAX_ENVELOPE_BYTES)
def add_files(plural: str, id: str) -> Response:
    """Add the files of a form; none of them if one is empty."""
    parts = [part for part in request.files.getlist("file") if part.filename]
    if not parts:
        raise Invalid.field("file", "no_file", "choose a file")
    sizes = [part.seek(0, os.SEEK_END) for part in parts]
    if max(sizes) > files.MAX_BYTES:
        raise TooLarge
    if not min(sizes):
        raise Invalid.field("file", "empty_file", "the file is empty")
    for part in parts:
        file = cast(BinaryIO, part.stream)
        files.add(plural.removesuffix("s"), id, file, part.filename, part.content_type or "")
    text = ngettext("File added", "%(num)d files added", len(parts))
    return see_other(f"/{plural}/{id}#files", text)


@pages.post(f"{PATH}/<file_id>/delete")
def delete_file(plural: str, id: str, file_id: str) -> Response:
    noun = plural.removesuffix("s")
    name = files.find(noun, id, file_id).name
    files.delete(noun, id, file_id)
    undo = with_undo(
        gettext("“%(name)s” deleted", name=name), f"/{plural}/{id}/files/{file_id}/restore"
    )
    return see_other(f"/{plural}/{id}#files", undo)


@pages.post(f"{PATH}/<file_id>/restore")
def restore_file(plural: str, id: str, file_id: str) -> Response:
    file = files.restore(plural.removesuffix("s"), id, file_id)
    return see_other(f"/{plural}/{id}#files", gettext("“%(name)s” restored", name=file.name))
