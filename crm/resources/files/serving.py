"""Sending the bytes of a file: all of them or a range, piece by piece.

What people have uploaded is only saved by a browser, never opened as a page of the workspace: it is
an attachment of the media type that was sent, which is not guessed at, in a sandbox of its own.
Pictures, which are known by their first bytes, may be shown in a page.
"""

from flask import Response, request
from werkzeug.exceptions import RequestedRangeNotSatisfiable

from crm.storage.session import current_session

HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


def respond(name: str, content_type: str, size: int, sha256: str, inline: bool = False) -> Response:
    """The response with a stored content, to be saved as `name`; `inline`: or to be shown.

    304 if the client has it, 206 for one range of bytes. Raises NotFound if it is not stored, and
    RequestedRangeNotSatisfiable (416).
    """
    response = Response(headers=HEADERS, content_type=content_type)
    response.headers.set("Content-Disposition", "inline" if inline else "attachment", filename=name)
    response.set_etag(sha256)
    if request.if_none_match.contains_weak(sha256):
        response.status_code = 304
        return response
    start, stop = 0, size
    if_range = request.if_range.etag
    asked = request.range if if_range in (None, sha256) else None
    if asked and asked.units == "bytes" and len(asked.ranges) == 1:  # several: all of it
        if (found := asked.range_for_length(size)) is None:
            raise RequestedRangeNotSatisfiable(size)
        start, stop = found
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    response.headers["Content-Length"] = str(stop - start)
    response.response = current_session().source.contents.read(sha256, start, stop)
    return response
