"""Files that people have, as CSV: workbooks and vCards."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from quopri import decodestring
from subprocess import PIPE, TimeoutExpired, run
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile
from zlib import crc32

from crm.errors import Busy
from crm.records.columns import N_
from crm.spreadsheets import workbook
from crm.spreadsheets.csv_format import UnusableFile, decode, write
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
XML = N_("this is an XML file, perhaps of Excel 2003: open it in Excel and save it as .xlsx")
OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": N_("this is a file of Excel 97 to 2003: save it as .xlsx or CSV"),
    b"%PDF-": N_("this is a PDF: send the table that it was made from, as .xlsx or CSV"),
    b"<?XML": XML,
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

# vCards (.vcf 2.1, 3.0 and 4.0), as phones and mail programs write them.
CARD_PROPERTIES = ("FN", "TEL", "EMAIL", "ORG", "TITLE", "NOTE", "ADR", "URL")
CARD_HEADERS = ("name", "phone", "email", "company", "position", "comment", "address", "website")
PREFERRED = "PREF"  # before the name, of values that stand before the others
PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^:;"])*)*):(.*)', re.DOTALL)
FOLD, PART, ESCAPED = re.compile(r"\r?\n[ \t]"), re.compile(r"(?<!\\);"), re.compile(r"\\([\\,;:])")
LINE_BREAK, SCHEME = re.compile(r"(?<!\\)\\[nN]"), re.compile(r"(?:tel|mailto):", re.IGNORECASE)
CHARSET = re.compile(r"CHARSET=(windows-1251|koi8-[ur])\b", re.IGNORECASE)


class PlainFile(NamedTuple):
    """A file as CSV in the plain dialect, and the format that it had, if another.

    `counts`: `hidden_rows` of a workbook that were left out, and `formulas` in the others.
    """

    data: bytes
    format: str = ""
    counts: dict[str, Any] = {}


def plain_csv(data: bytes, sheet: str | None = None, include_hidden: bool = False) -> PlainFile:
    """A file as CSV.

    `sheet` is the name of a workbook's sheet, `include_hidden` takes its hidden rows. Raises
    UnusableFile: unreadable_workbook, and what decode() raises; Busy while others read workbooks
    for long.
    """
    match = IS_OTHER.match(data)
    if match is None:
        return PlainFile(data)
    head = match[1].upper()
    if head.startswith(b"PK"):
        return _read_workbook(data, sheet or "", include_hidden)
    if head == b"BEGIN:VCARD":
        return PlainFile(_cards_to_csv(decode(data)[1]), VCARD)
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
        return PlainFile(target.read(), kind, json.loads(child.stderr))


def _reader_command() -> list[str]:
    """The command of the process that reads workbooks, up to the name of the sheet."""
    if getattr(sys, "frozen", False):  # set by PyInstaller
        return [sys.executable, SUBCOMMAND]
    # A server such as uWSGI is not the interpreter.
    is_python = Path(sys.executable or "").name.startswith("python")
    python = sys.executable if is_python else str(Path(sys.exec_prefix, "bin", "python3"))
    return [python, "-I", "-S", workbook.__file__]


def _cards_to_csv(text: str) -> bytes:
    """Cards as CSV: a row for each, with the columns that any of them has.

    Several phones, and such, stand in one cell with commas between, the preferred one first.
    """
    rows = [
        [", ".join(card.get(PREFERRED + name, []) + card.get(name, [])) for name in CARD_PROPERTIES]
        for card in _cards(text)
    ]
    used = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(cells) or not place]
    return write([CARD_HEADERS[n] for n in used], ([row[n] for n in used] for row in rows))


def _cards(text: str) -> Iterator[dict[str, list[str]]]:
    """{property: its values} of each card."""
    card: dict[str, list[str]] = {}
    for name, parameters, value in _properties(text):
        lines = LINE_BREAK.sub("\n", value)
        parts = [ESCAPED.sub(r"\1", part).strip() for part in PART.split(lines)]
        if name == "BEGIN":
            card = {}
        elif name == "END" and card:
            if card.keys().isdisjoint(["FN", PREFERRED + "FN"]):
                card["FN"] = [" ".join(filter(None, card.get("N", ())))]
            yield card
            card = {}
        elif name == "N":
            card["N"] = [*parts[1:3], parts[0]]  # the last name stands first
        elif name in CARD_PROPERTIES and any(parts):
            joined = SCHEME.sub("", ", ".join(filter(None, parts)), count=1)
            name = PREFERRED + name if PREFERRED in parameters else name
            card.setdefault(name, []).append(joined)


def _properties(text: str) -> Iterator[tuple[str, str, str]]:
    """The name, the parameters in capitals, and the value of each property."""
    lines = iter(FOLD.sub("", text).splitlines())
    for line in lines:
        if match := PROPERTY.fullmatch(line):
            name, parameters, value = match.groups()
            if "QUOTED-PRINTABLE" in parameters.upper():
                parts = [value]
                while parts[-1].endswith("="):
                    parts.append(next(lines, ""))
                value = "".join(part.removesuffix("=") for part in parts)
                charset = (CHARSET.search(parameters) or ("", "utf-8"))[1]
                value = decodestring(value.encode()).decode(charset, "replace")
            yield name.upper(), parameters.upper(), value
