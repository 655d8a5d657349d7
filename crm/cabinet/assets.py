"""The files of the pages: Bootstrap's stylesheet, our own, and the icons as one small sprite.

Bootstrap and its icons come from their installed package; only the icons named here are sent.
"""

import re
from functools import lru_cache
from pathlib import Path

import flask_bootstrap
from markupsafe import Markup

from crm.api.static_files import StaticFiles

STATIC_FOLDER = Path(__file__).parent / "static"
BOOTSTRAP = Path(flask_bootstrap.__file__).parent / "static" / "bootstrap5"
ICONS = {
    *("alarm", "arrow-clockwise", "arrow-counterclockwise", "arrow-down", "arrow-left"),
    *("arrow-repeat", "arrow-right", "arrow-right-circle", "arrow-up", "bar-chart", "bell"),
    *("box-arrow-in-down", "box-arrow-right", "box-seam", "broadcast", "building"),
    *("calendar-check", "camera", "chat-left-text"),
    *("check-circle-fill", "check2", "check2-square", "chevron-left", "circle", "clock-history"),
    *("download", "envelope", "file-earmark-spreadsheet", "filetype-csv", "filter", "gear"),
    *("file-earmark-text", "printer", "share"),
    *("inbox", "input-cursor-text", "kanban", "key", "list", "list-ul", "pencil", "people"),
    *("paperclip", "person-circle", "pin-angle"),
    *("person-plus", "plus-lg", "question-circle", "search", "send", "speedometer"),
    *("telephone-fill", "three-dots", "trash", "ui-checks", "upload", "x-lg"),
}
SYMBOL_ID = re.compile(rb'\bid="([^"]+)"')


def sprite(all_icons: bytes) -> bytes:
    """The sprite of ICONS, cut out of the package's own, which has 2,000 icons and 1.1 MB."""
    symbols = {}
    for symbol in all_icons.split(b"<symbol ")[1:]:
        if match := SYMBOL_ID.search(symbol):
            symbols[match[1].decode()] = b"<symbol " + symbol.partition(b"</symbol>")[0]
    chosen = b"".join(symbols[name] + b"</symbol>\n" for name in sorted(ICONS))
    return b'<svg xmlns="http://www.w3.org/2000/svg">\n%s</svg>\n' % chosen


FILES = StaticFiles(
    "/cabinet",
    {
        **{path.name: path for path in STATIC_FOLDER.iterdir()},
        "bootstrap.min.css": BOOTSTRAP / "css" / "bootstrap.min.css",
        "icons.svg": (BOOTSTRAP / "icons" / "bootstrap-icons.svg", sprite),
    },
)


def svg_icon(name: str, color: str = "") -> Markup:
    """An icon in the size of the text around it, and in its colour unless a class gives another."""
    return _svg(name, color, FILES.url("icons.svg"))


@lru_cache(maxsize=1000)
def _svg(name: str, color: str, url: str) -> Markup:
    svg = Markup('<svg class="bi {}" aria-hidden="true"><use href="{}#{}"/></svg>')
    return svg.format(color, url, name)
