"""Responses with stored contents: the bytes of a file, all of them or a range, piece by piece.

What people have uploaded is only saved by a browser, never opened as a page of the workspace: it is
an attachment of the media type that was sent, which is not guessed at, in a sandbox of its own.
Pictures, which are known by their first bytes, and our own PDFs may be shown in a page.
"""

from os.path import splitext
from typing import NamedTuple
from urllib.parse import quote

from flask import Request, Response
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from crm.storage.session import current_session
from crm.values.transliteration import transliterate

HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class StoredFile(NamedTuple):
    """A content of the tenant's, to be saved as `name`; `is_shown`: or to be shown."""

    name: str
    content_type: str
    size: int
    sha256: str
    is_shown: bool = False

    def respond(self, request: Request) -> Response:
        """304 if the client has it, 206 with one range of bytes, else 200 with all.

        Raises NotFound if it is not stored, and RequestedRangeNotSatisfiable (416).
        """
        response = Response(headers=HEADERS, content_type=self.content_type)
        disposition = "inline" if self.is_shown else "attachment"
        response.headers.set("Content-Disposition", disposition, **_names(self.name))
        response.set_etag(self.sha256)
        if request.if_none_match.contains_weak(self.sha256):
            response.status_code = 304
            return response
        start, stop = 0, self.size
        tag = response.headers["ETag"]  # If-Range: a weak one, or a date, is no proof
        is_same = request.method == "GET" and request.headers.get("If-Range", tag) == tag
        asked = request.range if is_same else None
        if asked and asked.units == "bytes" and len(asked.ranges) == 1:  # of several: all
            if (found := asked.range_for_length(self.size)) is None:
                raise RequestedRangeNotSatisfiable(self.size)
            start, stop = found
            response.status_code = 206
            response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{self.size}"
        response.headers["Content-Length"] = str(stop - start)
        response.response = current_session().source.contents.read(self.sha256, start, stop)
        return response

    def read(self) -> bytes:
        """All of it. Raises NotFound if it is not stored."""
        return b"".join(current_session().source.contents.read(self.sha256))


def _names(name: str) -> dict[str, str]:
    """The parameters of Content-Disposition: of other than ASCII names as RFC 6266 has them."""
    if name.isascii():
        return {"filename": name}
    stem, suffix = splitext(name)
    simple = f"{transliterate(stem) or 'file'}{suffix if suffix.isascii() else ''}"
    return {"filename": simple, "filename*": f"UTF-8''{quote(name, safe='')}"}
