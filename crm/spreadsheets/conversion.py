"""Files that people have, as CSV: workbooks, and vCards by `vcards.py`."""

import json
import re
from contextlib import suppress
from io import BytesIO
from subprocess import PIPE, TimeoutExpired, run
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import crc32

from crm import child_process
from crm.errors import Busy
from crm.records.columns import N_
from crm.spreadsheets import workbook
from crm.spreadsheets.csv_format import UnusableFile, decode
from crm.spreadsheets.resource import ImportableResource
from crm.spreadsheets.vcards import cards_to_csv
from crm.storage.commit_groups import WriterLock
from crm.storage.session import current_session

MAX_UNPACKED_BYTES = 300_000_000
TURN_SECONDS = 20.0  # that a workbook waits for others to be read
TIMEOUT = 60.0  # seconds; the child itself bounds its CPU time and memory
MAX_SHEET_CHARACTERS = 100  # of the name that the child is given; Excel's have up to 31
SUBCOMMAND = "read-workbook"  # of the single file that needs no Python (`.ci/build`)

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the name of a part of an OLE file
UNREADABLE = N_("this is no workbook, or a damaged or too large one: save it anew, as .xlsx or CSV")
HAS_PASSWORD = N_("the workbook has a password: save it without one")
BINARY = N_("this is a binary workbook (.xlsb): save it as .xlsx or CSV")
NUMBERS = N_("this is a file of Numbers: save a copy of it as .xlsx or CSV")
WEB_PAGE = N_("this is a web page, whatever its name is: open it in Excel and save it as .xlsx")
OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": N_("this is a file of Excel 97 to 2003: save it as .xlsx or CSV"),
    b"%PDF-": N_("this is a PDF: send the table that it was made from, as .xlsx or CSV"),
    b"<?XML": N_("this is an XML file, perhaps of Excel 2003: open it and save it as .xlsx or CSV"),
}
# What an archive of each kind has; the first two are read.
PARTS = {"xl/workbook.xml": "", "content.xml": "", "xl/workbook.bin": BINARY}
PARTS |= dict.fromkeys(("Index/Document.iwa", "Index.zip"), NUMBERS)
IS_OTHER = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,100}(PK\x03\x04|BEGIN:VCARD|\xd0\xcf\x11\xe0|%PDF-"
    rb"|<(?:HTML|!DOCTYPE|TABLE|HEAD|META|\?XML)|MIME-VERSION:)",
    re.IGNORECASE,
)

WORKBOOKS = EXCEL, OPEN_DOCUMENT = ("xlsx", "ods")
VCARD = "vcard"


class PlainFile(NamedTuple):
    """A file as CSV in the plain dialect, and the format that it had, if another.

    `counts`: `hidden_rows` of a workbook that were left out, and `formulas` in the others.
    """

    data: bytes
    format: str = ""
    counts: dict[str, Any] = {}


def plain_csv(
    data: bytes,
    sheet: str | None = None,
    include_hidden: bool = False,
    resource: ImportableResource | None = None,
) -> PlainFile:
    """A file as CSV.

    `sheet` is the name of a workbook's sheet, `include_hidden` takes its hidden rows. `resource` is
    what cards become a file of: they need it. Raises UnusableFile: unreadable_workbook, and what
    decode() raises; Busy while others read workbooks for long.
    """
    match = IS_OTHER.match(data)
    if match is None:
        return PlainFile(data)
    head = match[1].upper()
    if head.startswith(b"PK"):
        return _read_workbook(data, sheet or "", include_hidden)
    if head == b"BEGIN:VCARD":
        assert resource is not None
        return PlainFile(cards_to_csv(decode(data)[1], resource), VCARD)
    reason = OTHER_FORMATS.get(head, WEB_PAGE)
    raise UnusableFile("unreadable_workbook", HAS_PASSWORD if ENCRYPTED in data else reason)


def _read_workbook(data: bytes, sheet: str, include_hidden: bool) -> PlainFile:
    """The cells of a sheet, read in a process of its own (`workbook.py`).

    As many as MAX_READERS run at a time for all processes of the installation: there is a lock for
    each. A tenant has the one of its label, so that slow workbooks delay few others. The reader
    inherits it: if this process is killed, the reader counts until it ends.
    """
    sizes = dict[str, int]()
    with suppress(BadZipFile, ValueError, NotImplementedError), ZipFile(BytesIO(data)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    part = next((part for part in PARTS if part in sizes), "")
    if (reason := PARTS.get(part, UNREADABLE)) or sum(sizes.values()) > MAX_UNPACKED_BYTES:
        raise UnusableFile("unreadable_workbook", reason or UNREADABLE)
    name = sheet.replace("\0", "\ufffd")[:MAX_SHEET_CHARACTERS]
    command = [*_reader_command(), name, "hidden" * include_hidden]
    tenant = current_session().source
    number = crc32(tenant.label.encode()) % workbook.MAX_READERS
    lock = WriterLock(tenant.config.data / f"workbooks-{number}.lock")
    with TemporaryFile() as source, TemporaryFile() as target:
        source.write(data)
        source.seek(0)
        files: Any = {"stdin": source, "stdout": target, "stderr": PIPE}
        try:
            with lock(TURN_SECONDS):
                child = run(command, **files, pass_fds=[lock.descriptor], timeout=TIMEOUT)
        except Busy:
            raise Busy("other workbooks are being read: try again in a moment") from None
        except TimeoutExpired:
            raise UnusableFile("unreadable_workbook", UNREADABLE) from None
        if child.returncode:
            is_explained = child.returncode == workbook.REFUSED
            detail = child.stderr.decode() if is_explained else UNREADABLE
            raise UnusableFile("unreadable_workbook", detail)
        target.seek(0)
        kind = EXCEL if part.startswith("xl/") else OPEN_DOCUMENT
        return PlainFile(target.read(), kind, json.loads(child.stderr.splitlines()[-1]))


def _reader_command() -> list[str]:
    """The command of the process that reads workbooks, up to the name of the sheet."""
    return child_process.command(SUBCOMMAND, workbook.__file__)
