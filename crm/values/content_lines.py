"""The lines of iCalendar and of vCards (RFC 5545, 3.1; RFC 6350, 3.2)."""

import re
from collections.abc import Iterable

ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\r": None})
FOLDED = re.compile(rb".{1,74}(?![\x80-\xbf])", re.DOTALL)  # no character is cut
NOT_BASIC = str.maketrans("", "", "-:")


def escape_text(text: str) -> str:
    """A text as a value of these lines."""
    return text.translate(ESCAPES)


def basic_time(moment: str) -> str:
    """A stored time in the basic format, such as `20260302T090000Z`."""
    return moment.translate(NOT_BASIC)


def fold_lines(lines: Iterable[str]) -> bytes:
    """Lines as they are sent: of at most 75 bytes, the others go on after a space."""
    return b"".join(b"\r\n ".join(FOLDED.findall(line.encode())) + b"\r\n" for line in lines)
