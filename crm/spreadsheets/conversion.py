"""Files that people have, as CSV in UTF-8: workbooks, vCards, and older encodings of Cyrillic."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from quopri import decodestring
from subprocess import PIPE, TimeoutExpired, run
from tempfile import TemporaryFile
from typing import Any
from zipfile import BadZipFile, ZipFile
from zlib import crc32

from crm.errors import Busy
from crm.records.columns import N_
from crm.spreadsheets import workbook
from crm.spreadsheets.csv_format import UnusableFile, is_mostly_utf8, write
from crm.storage.commit_groups import WriterLock
from crm.storage.session import current_session

MAX_UNPACKED_BYTES = 300_000_000
TURN_SECONDS = 20.0  # that a workbook waits for others to be read
TIMEOUT = 60.0  # seconds; the child itself bounds its CPU time and memory
MAX_SHEET_CHARACTERS = 100  # of the name that the child is given; Excel's have up to 31
SUBCOMMAND = "read-workbook"  # of the single file that needs no Python (`.ci/build`)

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # the name of a part of an OLE file
NO_EXTRA = N_("workbooks need the extra “xlsx”, which is not installed: save the sheet as CSV")
UNREADABLE = N_("this is no workbook, or a damaged or too large one: save it anew, as .xlsx or CSV")
HAS_PASSWORD = N_("the workbook has a password: save it without one")
OTHER_FORMATS = {  # by the first bytes, of letters the capital ones
    (b"\xd0\xcf\x11\xe0",): N_("this is a file of Excel 97 to 2003: save it as .xlsx or CSV"),
    (b"%PDF-",): N_("this is a PDF: send the table that it was made from, as .xlsx or CSV"),
    (b"<HTML", b"<!DOCTYPE", b"<TABLE", b"<HEAD", b"<META", b"<?XML", b"MIME-VERSION:"): N_(
        "this is a web page, whatever its name is: open it in Excel and save it as .xlsx"
    ),
}

SAMPLE_BYTES = 20_000
PLAIN_FORMATS = WORKBOOK, VCARD = ("xlsx", "vcard")  # their cells are in the plain dialect of CSV
WINDOWS_1251 = "windows-1251"
ENCODINGS = (WINDOWS_1251, "koi8-u", "cp1125", "cp866", "mac-cyrillic")
# How many bits a letter takes: the more, the rarer it is in Ukrainian and Russian.
LETTERS = ("оаиінетврслк", "удмпязьг", "бчйхыжшю", "«»№–—‘’“”„…•·°±§©®™€µ\u00a0", "цщєїфэёъ", "ґ")
BITS = dict[str, float]()
for _letters, _bits_of_each in zip(LETTERS, (4.4, 5.3, 6.6, 7.0, 8.0, 11.0), strict=True):
    BITS |= dict.fromkeys(_letters + _letters.upper(), _bits_of_each)
BITS_OF_OTHERS, BITS_OF_CAPITAL_INSIDE = 13.0, 8.0
MIN_GAIN_BITS, MIN_GAIN_BITS_PER_LETTER = 7.0, 0.5  # over Windows-1251
CAPITAL_INSIDE = re.compile("[а-яіїєґё][А-ЯІЇЄҐЁ]")
# Words of Cyrillic and Latin letters, apart from those that look alike: a Western encoding.
WORD = re.compile(r"[^\W\d_]*[А-ЯІЇЄҐЁа-яіїєґё][^\W\d_]*")
LATIN = re.compile("[bdfgjlmnqrstuvwzDFGJLNQRSUVWZ]")

# vCards (.vcf 2.1, 3.0 and 4.0), as phones and mail programs write them.
CARD_PROPERTIES = ("FN", "TEL", "EMAIL", "ORG", "TITLE", "NOTE", "ADR", "URL")
CARD_HEADERS = ("name", "phone", "email", "company", "position", "comment", "address", "website")
PREFERRED = "PREF"  # before the name, of values that stand before the others
PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:"[^"]*"|[^:;"])*)*):(.*)', re.DOTALL)
FOLD, PART, ESCAPED = re.compile(r"\r?\n[ \t]"), re.compile(r"(?<!\\);"), re.compile(r"\\([\\,;:])")
LINE_BREAK, SCHEME = re.compile(r"(?<!\\)\\[nN]"), re.compile(r"(?:tel|mailto):", re.IGNORECASE)
CHARSET = re.compile(r"CHARSET=(windows-1251|koi8-[ur])\b", re.IGNORECASE)


def plain_csv(data: bytes, sheet: str | None = None) -> tuple[bytes, str]:
    """A file as CSV, with its format or encoding; as it is, with "", where D9 says how it is read.

    `sheet` is the name of a workbook's sheet. Raises UnusableFile: unreadable_workbook,
    bad_encoding; Busy while others read workbooks for long.
    """
    head = data[:100].removeprefix(b"\xef\xbb\xbf").lstrip().upper()
    if head.startswith(b"PK\x03\x04"):
        return _read_workbook(data, sheet or ""), WORKBOOK
    for starts, reason in OTHER_FORMATS.items():
        if head.startswith(starts):
            raise UnusableFile("unreadable_workbook", HAS_PASSWORD if ENCRYPTED in data else reason)
    encoding = "" if b"\0" in data or is_mostly_utf8(data) else _recognize_encoding(data)
    if head.startswith(b"BEGIN:VCARD"):
        return _cards_to_csv(data.decode(encoding or "utf-8-sig", "replace")), VCARD
    if encoding in ("", WINDOWS_1251):
        return data, ""
    return data.decode(encoding, "replace").encode(), encoding


def _recognize_encoding(data: bytes) -> str:
    """The encoding of a Cyrillic text; in doubt Windows-1251, which D9 names."""
    lines = (line for line in data.split(b"\n") if not line.isascii())
    sample = b"\n".join(lines)[:SAMPLE_BYTES]
    letters = sum(byte > 127 for byte in sample)
    bits = {encoding: _bits(sample.decode(encoding, "replace")) for encoding in ENCODINGS}
    best = min(ENCODINGS, key=bits.__getitem__)
    gain = bits[WINDOWS_1251] - bits[best]
    if gain < max(MIN_GAIN_BITS, MIN_GAIN_BITS_PER_LETTER * letters):
        best = WINDOWS_1251
    words = WORD.findall(sample.decode(best, "replace"))
    mixed = sum(bool(LATIN.search(word)) for word in words)
    if mixed > 1 and mixed > len(words) / 2:
        raise UnusableFile("bad_encoding", "the encoding is not known; save the file as utf-8")
    return best


def _bits(text: str) -> float:
    letters = Counter(letter for letter in text if letter > "\x7f")
    bits = sum(BITS.get(letter, BITS_OF_OTHERS) * count for letter, count in letters.items())
    return bits + BITS_OF_CAPITAL_INSIDE * len(CAPITAL_INSIDE.findall(text))


def _read_workbook(data: bytes, sheet: str) -> bytes:
    """The cells of a sheet, read in a process of its own (`workbook.py`).

    As many as MAX_READERS run at a time for all processes of the installation: there is a lock for
    each. A tenant has the one of its label, so that slow workbooks delay few others. The reader
    inherits it: if this process is killed, the reader counts until it ends.
    """
    sizes = dict[str, int]()
    with suppress(BadZipFile, ValueError, NotImplementedError), ZipFile(BytesIO(data)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    if "xl/workbook.xml" not in sizes or sum(sizes.values()) > MAX_UNPACKED_BYTES:
        raise UnusableFile("unreadable_workbook", UNREADABLE)
    command = [*_reader_command(), sheet.replace("\0", "\ufffd")[:MAX_SHEET_CHARACTERS]]
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
        return target.read()


def _reader_command() -> list[str]:
    """The command of the process that reads workbooks, up to the name of the sheet."""
    package = find_spec("python_calamine")
    if package is None or package.origin is None:
        raise UnusableFile("unreadable_workbook", NO_EXTRA)
    if getattr(sys, "frozen", False):  # set by PyInstaller
        return [sys.executable, SUBCOMMAND, ""]
    # A server such as uWSGI is not the interpreter.
    is_python = Path(sys.executable or "").name.startswith("python")
    python = sys.executable if is_python else str(Path(sys.exec_prefix, "bin", "python3"))
    return [python, "-I", "-S", workbook.__file__, str(Path(package.origin).parents[1])]


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
