"""Files on leads, clients, deals, products and tasks; their bytes are in crm/storage/contents.py.

A file is no part of its record: it makes no event and no version. It follows the record into the
trash and back. A deleted one can be restored for 30 days. The name and the media type are as they
were sent, and nothing is done by them: a picture is known by its first bytes.
"""

import os
import re
from typing import IO, Any

from peewee import IntegerField, TextField

from crm.errors import Invalid, NotFound
from crm.records import columns, erasure
from crm.records.record import Record, require_live
from crm.records.retention import KEPT_SECONDS, delete_after
from crm.records.views import declare_views
from crm.resources import logo
from crm.resources.products.record import Product
from crm.storage import contents, own_rows
from crm.storage.quota import require_room
from crm.storage.session import (
    current_session,
    execute,
    now,
    one_row,
    rows,
    time_before,
    transaction,
)
from crm.values import InvalidValue, one_line
from crm.values.folding import fold

NOUNS = {"lead": "leads", "client": "clients", "deal": "deals", "product": "products"}
NOUNS |= {"task": "tasks"}
MAX_BYTES = 20 << 20
MAX_NAME = 255  # characters; of a longer one the end is kept
MAX_FILES = 1000  # of a record
MAX_PICTURE_BYTES = 2 << 20
MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,128}\Z")
UNKNOWN_TYPE = "application/octet-stream"
PICTURES = ("image/png", "image/jpeg", "image/webp")
HEAD_BYTES = 1 << 16  # in which a picture tells its size
LIVE = "noun = ? AND record_id = ? AND deleted_at IS NULL"
MAX_SEARCHED = 20_000  # of the newest files: their names are compared one by one


class File(Record):
    """One file, of the record that `noun` and `record_id` name."""

    noun = TextField()
    record_id = IntegerField()
    name = columns.Text(255, dump_only=True, example="Ескіз.pdf")
    content_type = columns.Text(255, dump_only=True, example="application/pdf")
    size = columns.Integer(0, MAX_BYTES, dump_only=True, about="In bytes.")
    sha256 = columns.Text(64, dump_only=True, about="Of its bytes, in hexadecimal digits.")
    user_id = columns.Id(dump_only=True, allow_none=True, about="Who added it.")
    search_text = TextField()
    deleted_at = TextField(null=True)


own_rows.declare_parts_of_any("file")
contents.declare_users("file")
delete_after("file", "deleted_at")


def add(
    noun: str, record_id: int | str, file: IO[bytes], name: str | None, content_type: str = ""
) -> int:
    """Store a file, as it was sent, on a live record and return its id.

    Raises NotFound, and what store() and attach() do; nothing is stored then.
    """
    require_live(noun, record_id)
    return attach(noun, record_id, store(file, name, content_type))


def store(file: IO[bytes], name: str | None, content_type: str = "") -> dict[str, Any]:
    """Store the bytes of a file that is about to be attached to a record; outside transactions.

    Raises Invalid `empty_file`, StorageQuota and StorageFull; nothing is stored then.
    """
    size = file.seek(0, os.SEEK_END)
    if not size:
        raise Invalid.field("file", "empty_file", "the file is empty")
    require_room(size)
    file.seek(0)
    picture_type = _picture_type(file.read(HEAD_BYTES), size)
    file.seek(0)
    name = clean(name or "")
    sha256, _ = current_session().source.contents.add(file)
    media_type = picture_type or _media_type(content_type)
    return {"name": name, "size": size, "sha256": sha256, "content_type": media_type}


def attach(
    noun: str, record_id: int | str, stored: dict[str, Any], max_files: int = MAX_FILES
) -> int:
    """Add what store() has stored to a live record of up to `max_files`, and return its id.

    The first picture of a product is the one that is shown of it. Raises NotFound and Invalid
    `too_many_files`.
    """
    with transaction():
        values = {
            "noun": noun,
            "record_id": require_live(noun, record_id),
            "user_id": current_session().user_id,
            "search_text": fold(stored["name"]),
        }
        if one_row(f"SELECT count(*) FROM file WHERE {LIVE}", (noun, record_id))[0] >= max_files:
            raise Invalid.field("file", "too_many_files", f"a record has at most {max_files} files")
        added = File.add(values | stored)
        _show_first_picture(added)
        return added.id


def attach_once(
    noun: str, record_id: int, stored: dict[str, Any], max_files: int = MAX_FILES
) -> None:
    """attach() unless the record has had this file: it is sent again when an answer was lost."""
    same = "noun = ? AND record_id = ? AND sha256 = ? AND name = ?"
    if File.first(same, noun, record_id, stored["sha256"], stored["name"]) is None:
        attach(noun, record_id, stored, max_files)


def _show_first_picture(file: File) -> None:
    """Let a picture be the one of its product, if that has none."""
    if file.noun == "product" and file.content_type in PICTURES:
        product = Product.find(file.record_id)
        if product.picture_id is None:
            product.update_fields({"picture_id": file.id})


def clean(name: str) -> str:
    """The name of a file without folders; raises Invalid."""
    try:
        return one_line(re.split(r"[/\\]", name)[-1][-MAX_NAME:], MAX_NAME) or "file"
    except InvalidValue as error:
        raise Invalid.field("file", error.code, error.detail) from None


def _media_type(sent: str) -> str:
    """The media type that was sent, without parameters."""
    sent = sent.partition(";")[0].strip().lower()
    return sent if MEDIA_TYPE.match(sent) and sent not in PICTURES else UNKNOWN_TYPE


def _picture_type(head: bytes, size: int) -> str:
    """The media type of a picture that may be shown; else empty."""
    try:
        return logo.read_head(head)[0] if size <= MAX_PICTURE_BYTES else ""
    except Invalid:
        return ""


def of_record(noun: str, record_id: int | str) -> tuple[str, tuple[str, int]]:
    """The condition of the files of a live record; raises NotFound."""
    return LIVE, (noun, require_live(noun, record_id))


def find(noun: str, record_id: int | str, id: int | str, expected_version: Any = None) -> File:
    """The file of that id on that live record, deleted or not; raises NotFound and Stale."""
    file = File.find(id, expected_version)
    if (file.noun, file.record_id) != (noun, require_live(noun, record_id)):
        raise NotFound
    return file


def find_live(id: int | str) -> File:
    """The file of that id whose record is live too; raises NotFound."""
    file = File.find(id)
    require_live(file.noun, file.record_id)
    if file.deleted_at is not None:
        raise NotFound
    return file


def delete(
    noun: str, record_id: int | str, id: int | str, expected_version: int | None = None
) -> None:
    """Delete a file, which can be restored for 30 days. Raises NotFound and Stale."""
    with transaction():
        file = find(noun, record_id, id, expected_version)
        if file.deleted_at is not None:
            raise NotFound
        file.save_changes({"deleted_at": now()})
        if noun == "product" and (product := Product.find(record_id)).picture_id == file.id:
            product.update_fields({"picture_id": None})


def restore(noun: str, record_id: int | str, id: int | str) -> File:
    """Undo delete(). Raises NotFound."""
    with transaction():
        file = find(noun, record_id, id)
        if (file.deleted_at or "9") < time_before(KEPT_SECONDS):
            raise NotFound
        file.save_changes({"deleted_at": None})
        _show_first_picture(file)
        return file


def search(q: str, limit: int) -> list[dict[str, Any]]:
    """The newest files in whose names all words of `q` are: as shown, with `noun`, `record_id`."""
    words = fold(q).split()
    has_words = " AND ".join(["instr(search_text, ?) > 0"] * len(words)) or "FALSE"
    found = rows(
        f"SELECT id, noun, record_id, name FROM file WHERE deleted_at IS NULL AND {has_words}"
        f" AND id > (SELECT max(id) FROM file) - {MAX_SEARCHED} ORDER BY id DESC LIMIT ?",
        (*words, limit),
    )
    names = ("id", "noun", "record_id", "name")
    return [
        one
        for one in (dict(zip(names, values, strict=True)) for values in found)
        if rows(
            f"SELECT 1 FROM {one['noun']} WHERE id = ? AND deleted_at IS NULL", (one["record_id"],)
        )
    ]


def require_picture(product_id: int, id: int) -> None:
    """Raise Invalid unless the file may be shown as the picture of a product."""
    file = File.first("id = ? AND noun = 'product' AND record_id = ?", id, product_id)
    if file is None or file.deleted_at is not None or file.content_type not in PICTURES:
        detail = f"must be one of the product's files that is a picture: {', '.join(PICTURES)}"
        raise Invalid.field("picture_id", "unknown_id", detail)


def _erase_person(person: erasure.Person) -> int:
    """Delete the files of a person's records, with their bytes."""
    counts = [
        execute(f"DELETE FROM file WHERE {erasure.OF_RECORDS}", of_noun).rowcount
        for of_noun in person.parameters
    ]
    return sum(counts)


erasure.register("files", _erase_person, "file")

FILE, *_ = declare_views(File, noun="file")
