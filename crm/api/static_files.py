"""Responses that are the same for everyone: in memory, compressed once, with an ETag.

Flask's own static files are read and sent anew for each request, and flask-compress and whitenoise
need compiled packages or compressed files beside the installed ones, which may be read-only.
"""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePath

from flask import Response, request
from werkzeug.exceptions import NotFound

MIN_COMPRESSED_BYTES = 1024  # a smaller answer fits into one packet as it is
FOREVER = "public, max-age=31536000, immutable"
CHECK_EACH_TIME = "no-cache"
CONTENT_TYPES = {  # not from `mimetypes`, which depends on the machine
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",  # browsers download text/markdown
    ".png": "image/png",
    ".svg": "image/svg+xml; charset=utf-8",
}


@dataclass
class Content:
    """Bytes to send, and what they are."""

    data: bytes
    type: str

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.blake2b(self.data, digest_size=8).hexdigest()

    @cached_property
    def compressed(self) -> bytes | None:
        if len(self.data) <= MIN_COMPRESSED_BYTES:
            return None
        compressed = gzip.compress(self.data, mtime=0)
        return compressed if len(compressed) < len(self.data) else None

    def answer(self, cache_control: str) -> Response:
        """The answer to the request: in full, a range of it, or 304."""
        etag, data = self.fingerprint, self.data
        compressed = self.compressed if accepts_gzip() else None
        if compressed is not None:
            etag, data = f"{etag}.gz", compressed
        response = Response(data, content_type=self.type)
        response.set_etag(etag)  # a strong one, so each coding has its own
        response.headers["Cache-Control"] = cache_control
        if compressed is not None:
            response.content_encoding = "gzip"
        if self.compressed is not None:
            response.vary.add("Accept-Encoding")
        response.make_conditional(request, accept_ranges=True, complete_length=len(data))
        return response


class StaticFiles:
    """A fixed set of files below one path, by name.

    `path` is below the app's mount point. A file is a path, or a path and a function that makes
    what is sent from the bytes there. Each is read when it is first asked for and kept until the
    process ends, as templates are.
    """

    def __init__(
        self, path: str, files: Mapping[str, Path | tuple[Path, Callable[[bytes], bytes]]]
    ):
        self._path = path
        self._files = files
        self._content = cache(self._read_content)

    def url(self, name: str) -> str:
        """The URL of a file, which changes with its content."""
        return f"{request.root_path}{self._path}/{name}?v={self._content(name).fingerprint}"

    def answer(self, name: str) -> Response:
        """Respond with the file; raises NotFound for a name that is not in the set.

        Browsers may store it for ever only under the URL with its current fingerprint: during an
        upgrade the URL of another version may be requested, which must not get this content.
        """
        if name not in self._files:
            raise NotFound
        content = self._content(name)
        is_current = request.args.get("v") == content.fingerprint
        return content.answer(FOREVER if is_current else CHECK_EACH_TIME)

    def _read_content(self, name: str) -> Content:
        file = self._files[name]
        path, make = file if isinstance(file, tuple) else (file, bytes)  # as it is
        type = CONTENT_TYPES.get(PurePath(name).suffix, CONTENT_TYPES[".md"])
        return Content(make(path.read_bytes()), type)


def accepts_gzip() -> bool:
    """Whether the client of the request accepts gzip."""
    return request.accept_encodings.quality("gzip") > 0
