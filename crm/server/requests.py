"""Reading HTTP/1.1 requests from the bytes of a connection.

The head is parsed by llhttp (package httptools), which refuses what is ambiguous: bare line feeds,
folded headers, a Content-Length beside a Transfer-Encoding. `RequestBody` splits the body off,
because the next request may follow it directly.
"""

import errno
import io
import re
from contextlib import suppress
from functools import lru_cache
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

# The largest request of the product is an import of 50 MiB.
MAX_BODY_BYTES = 51 * 1024 * 1024
MAX_MEMORY_BYTES = 1024 * 1024  # of a body; a longer one is in a temporary file
MAX_CHUNK_LINE_BYTES = 8192
# What chunks may need besides their data: so much, and OVERHEAD_PART of the data.
MAX_OVERHEAD_BYTES, OVERHEAD_PART = 16 * 1024, 0.5
# A body of more chunks is continued after other connections had their turn.
MAX_CHUNKS_PER_TURN = 128
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
TRAILERS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*")
MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_FIELDS = 100
MAX_TARGET_BYTES = 4094
UPGRADE = re.compile(rb"\r\nUpgrade:[^\r\n]*", re.I)
NOT_ASCII = re.compile(rb"[\x80-\xff]")
SINGLE_FIELDS = frozenset({"HTTP_HOST", "HTTP_AUTHORIZATION", "CONTENT_TYPE"})
END_OF_HEAD = b"\r\n\r\n"  # and of trailers


class RequestRefused(Exception):
    """The request is answered with `status` and never reaches the application."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class RequestBody:
    """The body of one request, as far as it has arrived."""

    def __init__(self, length: int | None, folder: str | None = None):
        """`length` is that of the head; None: the body comes in chunks.

        `folder`: for the temporary file; None: the system's folder for such files.
        """
        self.file: IO[bytes] = io.BytesIO()  # what the application reads
        self.size = 0  # bytes of it that are held
        self.is_cut = False  # the application gets no more of it
        self.has_more = False  # received bytes are left for the next turn
        self._length, self._folder = length, folder
        self._limit = MAX_BODY_BYTES
        self._left = self._overhead = 0  # bytes: of the current chunk, of all lines of chunks
        self._is_chunk_complete = self._in_trailers = False

    @property
    def spooled_bytes(self) -> int:
        """Bytes of it that are in a temporary file, not in memory: none or all."""
        return 0 if isinstance(self.file, io.BytesIO) else self.size

    def limit(self, max_bytes: int) -> bool:
        """Cut the body behind `max_bytes`; return whether the application may get it so now.

        One that is announced to be longer is not read at all.
        """
        self._limit = max_bytes
        size = self.size if self._length is None else self._length
        self.is_cut = size > max_bytes or not max_bytes
        return self.is_cut

    def take(self, buffer: bytearray) -> bool:
        """Move what belongs to the body out of `buffer`; return whether it is complete, or cut.

        Raises RequestRefused.
        """
        self.has_more = False
        if self._length is None:
            return self._take_chunks(buffer)
        if self._length:
            self._move(buffer, self._length - self.size)
        return self.size == self._length

    def drop(self) -> None:
        """Free the memory or the disk, whoever still has a reference to the file."""
        if self.size:
            self.size = 0
            with suppress(BufferError, OSError):  # a view of it is in use; the disk is full
                self.file.close()

    def _move(self, buffer: bytearray, max_bytes: int) -> int:
        part = buffer[:max_bytes]
        del buffer[:max_bytes]
        self.size += len(part)
        try:
            if self.size > MAX_MEMORY_BYTES and isinstance(self.file, io.BytesIO):
                in_memory, self.file = self.file, TemporaryFile(dir=self._folder)  # noqa: SIM115
                self.file.write(in_memory.getvalue())
            self.file.write(part)
            self.file.flush()  # a full disk is noticed now
        except OSError as error:
            has_files = error.errno not in (errno.EMFILE, errno.ENFILE)
            raise RequestRefused(507 if has_files else 503) from None
        return len(part)

    def _take_chunks(self, buffer: bytearray) -> bool:
        if self._in_trailers:
            return self._take_trailers(buffer)
        for _ in range(MAX_CHUNKS_PER_TURN):
            if self._left:
                self._left -= self._move(buffer, self._left)
                if self.size > self._limit:
                    self.is_cut = True
                    return True
                if self._left:
                    return False
                self._is_chunk_complete = True
            if self._is_chunk_complete:
                if not b"\r\n".startswith(buffer[:2]):
                    raise RequestRefused(400)
                if len(buffer) < 2:
                    return False
                del buffer[:2]
                self._is_chunk_complete = False
            end = buffer.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
            if end < 0:
                if len(buffer) >= MAX_CHUNK_LINE_BYTES:
                    raise RequestRefused(400)
                return False
            match = CHUNK_LINE.fullmatch(buffer, 0, end)
            self._overhead += end + 4
            if not match or self._overhead > MAX_OVERHEAD_BYTES + self.size * OVERHEAD_PART:
                raise RequestRefused(400)
            self._left = int(match[1], 16)
            if self.size + self._left > MAX_BODY_BYTES:
                raise RequestRefused(413)
            if not self._left:
                del buffer[:end]
                self._in_trailers = True
                return self._take_trailers(buffer)
            del buffer[: end + 2]
        self.has_more = True
        return False

    def _take_trailers(self, buffer: bytearray) -> bool:
        """Drop the trailers behind the last chunk's size: nothing reads them."""
        end = buffer.find(END_OF_HEAD, 0, MAX_CHUNK_LINE_BYTES)
        if end < 0:
            if len(buffer) >= MAX_CHUNK_LINE_BYTES:
                raise RequestRefused(400)
            return False
        if not TRAILERS.fullmatch(buffer, 2, end + 2):
            raise RequestRefused(400)
        del buffer[: end + 4]
        return True


class Request:
    """One request: its head as a WSGI environ, and what is still missing of its body."""

    def __init__(self, head: bytes, environ: dict[str, Any], spool_folder: str | None = None):
        """Parse a complete head, up to and with its empty line, into `environ`.

        `spool_folder`: for a large body. Raises RequestRefused.
        """
        self.environ = environ
        self.target = b""
        self.has_repeated_field = False
        if head.count(b"\r\n") > MAX_HEAD_FIELDS + 2:
            raise RequestRefused(431)
        parser = HttpRequestParser(self)
        try:
            parser.feed_data(_normalize_for_llhttp(head))
        except HttpParserUpgrade:  # only CONNECT is left
            raise RequestRefused(501) from None
        except HttpParserError as error:
            raise RequestRefused(
                501 if "has invalid `Transfer-Encoding`" in str(error) else 400
            ) from None
        version = parser.get_http_version()
        if self.has_repeated_field or version not in ("1.1", "1.0"):
            raise RequestRefused(400)
        if "," in environ.get("HTTP_HOST", ""):  # proxies make lists of several hosts so
            raise RequestRefused(400)
        self.is_http_1_1 = version == "1.1"
        # Not by the parser, which forgets the field at the end of a request without a body.
        options = environ.get("HTTP_CONNECTION", "").lower()
        self.keep_alive = "close" not in options if self.is_http_1_1 else "keep-alive" in options
        environ["REQUEST_METHOD"] = parser.get_method().decode()
        environ["SERVER_PROTOCOL"] = f"HTTP/{version}"
        self._read_target()
        self.body = RequestBody(self._body_length(), spool_folder)
        expected = environ.get("HTTP_EXPECT", "").lower()
        if expected not in ("", "100-continue"):
            raise RequestRefused(417)
        self.expects_continue = bool(expected) and self.is_http_1_1

    def on_url(self, part: bytes) -> None:
        """Called by the parser, for each part of the target that it saw."""
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each field of the head."""
        key = environ_key(name)
        if key is None:
            return
        environ, text = self.environ, value.decode("latin-1").strip(" \t")
        if key not in environ:
            environ[key] = text
        elif key in SINGLE_FIELDS:
            self.has_repeated_field = True
        else:
            environ[key] += f"{'; ' if key == 'HTTP_COOKIE' else ','}{text}"

    def _read_target(self) -> None:
        target = self.target
        if not target.startswith(b"/") and target != b"*":
            try:
                url = parse_url(target)  # the absolute form, as clients send it to proxies
            except HttpParserError:
                raise RequestRefused(400) from None
            target = (url.path or b"/") + (b"?" + url.query if url.query else b"")
        path, _, query = target.partition(b"#")[0].partition(b"?")
        if b"%" in path:
            path = unquote_to_bytes(path)
        self.environ["PATH_INFO"] = path.decode("latin-1")
        self.environ["QUERY_STRING"] = query.decode("latin-1")
        if len(self.target) > MAX_TARGET_BYTES:  # now, because the answer names the path
            raise RequestRefused(414)

    def _body_length(self) -> int | None:
        """The length of the body in bytes; None: it comes in chunks."""
        coding = self.environ.get("HTTP_TRANSFER_ENCODING")
        if coding is None:
            length = int(self.environ.get("CONTENT_LENGTH", 0))
            if length > MAX_BODY_BYTES:
                raise RequestRefused(413)
            return length
        if not self.is_http_1_1:
            raise RequestRefused(400)
        if coding.lower() != "chunked":
            raise RequestRefused(501)
        return None


@lru_cache(maxsize=1024)
def environ_key(name: bytes) -> str | None:
    """The WSGI key of a header's name; None for one with an underscore.

    `X_Forwarded_For` would have the key of `X-Forwarded-For`, which a proxy sets, so it is dropped.
    """
    text = name.decode("latin-1").upper()
    if "_" in text:
        return None
    key = text.replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def _normalize_for_llhttp(head: bytes) -> bytes:
    """The head without what llhttp refuses though it is harmless.

    Clients such as curl send what is typed, so a target may hold UTF-8: it is percent-encoded.
    llhttp takes an Upgrade as the end of HTTP; here it is an offer, which is not taken up.
    """
    if not head.isascii():
        line, separator, fields = head.partition(b"\r\n")
        head = NOT_ASCII.sub(lambda byte: b"%%%02X" % ord(byte[0]), line) + separator + fields
    if b"pgrade:" in head or b"PGRADE:" in head:
        head = UPGRADE.sub(b"", head)
    return head
