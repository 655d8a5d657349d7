"""The logo of the company: a picture for the menu, the login and printed pages.

A picture is taken as it is or refused: PNG, JPEG and WebP by their first bytes, never SVG, which
may have scripts.
"""

import hashlib
import re
import struct

from crm.errors import Invalid
from crm.storage.session import execute, row, transaction

MAX_BYTES = 200_000
SIDES = (32, 2048)  # pixels, from and to
# A JPEG has its size in a segment SOF0, SOF1 or SOF2, behind segments of other kinds.
JPEG_SIZE = re.compile(rb"\xff[\xc0-\xc2]..\x08(..)(..)", re.S)


def save(data: bytes) -> None:
    """Store a picture as the logo, in place of the former one. Raises Invalid."""
    content_type, width, height = read_head(data)
    if len(data) > MAX_BYTES:
        raise Invalid.field("logo", "too_large", f"at most {MAX_BYTES // 1000} kB")
    smallest, largest = SIDES
    if min(width, height) < smallest or max(width, height) > largest:
        detail = f"must be {smallest} to {largest} pixels wide and high"
        raise Invalid.field("logo", "wrong_size", detail)
    digest = hashlib.sha256(data).hexdigest()[:16]
    with transaction():
        execute("DELETE FROM logo")
        execute(
            "INSERT INTO logo (id, content_type, digest, data) VALUES (1, ?, ?, ?)",
            (content_type, digest, data),
        )


def delete() -> None:
    """Show initials again instead of the logo."""
    with transaction():
        execute("DELETE FROM logo")


def digest() -> str:
    """The digest of the logo, "" if there is none."""
    logo = row("SELECT digest FROM logo")
    return logo[0] if logo else ""


def read() -> tuple[str, bytes] | None:
    """The content type and the bytes of the logo."""
    logo = row("SELECT content_type, data FROM logo")
    return (logo[0], bytes(logo[1])) if logo else None


def read_head(data: bytes) -> tuple[str, int, int]:
    """The content type, width and height of a picture. Raises Invalid."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        return ("image/png", *struct.unpack(">II", data[16:24]))
    if data.startswith(b"\xff\xd8\xff") and (sides := JPEG_SIZE.search(data)):
        height, width = (struct.unpack(">H", size)[0] for size in sides.groups())
        return "image/jpeg", width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return ("image/webp", *_webp_size(data))
    raise Invalid.field("logo", "wrong_format", "must be a PNG, JPEG or WebP picture")


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack("<I", data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
