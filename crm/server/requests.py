"""Reading HTTP/1.1 requests from the bytes of a connection.

The head is parsed by llhttp (package httptools), which refuses what is ambiguous: bare line feeds,
folded headers, a Content-Length beside a Transfer-Encoding. The body is split off here, because the
next request may follow it directly.
"""

import io
import re
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_FIELDS = 100
MAX_TARGET_BYTES = 4094
# The largest request of the product is an import of 10 MiB.
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_CHUNK_LINE_BYTES = 8192
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
UPGRADE = re.compile(rb"\r\nUpgrade:[^\r\n]*", re.I)
NOT_ASCII = re.compile(rb"[\x80-\xff]")
SINGLE_FIELDS = frozenset({"HTTP_HOST", "HTTP_AUTHORIZATION", "CONTENT_TYPE"})
END_OF_HEAD = b"\r\n\r\n"


class RequestRefused(Exception):
    """The request is answered with `status` and never reaches the application."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Request:
    """One request: its head as a WSGI environ, and what is still missing of its body."""

    __slots__ = (
        "body",
        "environ",
        "expects_continue",
        "has_repeated_field",
        "is_http_1_1",
        "keep_alive",
        "length",
        "target",
    )

    def __init__(self, head: bytes, environ: dict[str, Any]):
        """Parse a complete head, up to and with its empty line, into `environ`.

        Raises Refused.
        """
        self.environ = environ
        self.target = b""
        self.body = bytearray()
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
        self.is_http_1_1 = version == "1.1"
        # Not by the parser, which forgets the field at the end of a request without a body.
        options = environ.get("HTTP_CONNECTION", "").lower()
        self.keep_alive = "close" not in options if self.is_http_1_1 else "keep-alive" in options
        environ["REQUEST_METHOD"] = parser.get_method().decode()
        environ["SERVER_PROTOCOL"] = f"HTTP/{version}"
        self._read_target()
        self.length = self._body_length()
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
        environ, text = self.environ, value.decode("latin-1")
        if key not in environ:
            environ[key] = text
        elif key in SINGLE_FIELDS:
            self.has_repeated_field = True
        else:
            environ[key] += f"{'; ' if key == 'HTTP_COOKIE' else ','}{text}"

    def _read_target(self) -> None:
        target = self.target
        if len(target) > MAX_TARGET_BYTES:
            raise RequestRefused(414)
        if not target.startswith(b"/") and target != b"*":
            url = parse_url(target)  # the absolute form, as clients send it to proxies
            target = (url.path or b"/") + (b"?" + url.query if url.query else b"")
        path, _, query = target.partition(b"#")[0].partition(b"?")
        if b"%" in path:
            path = unquote_to_bytes(path)
        self.environ["PATH_INFO"] = path.decode("latin-1")
        self.environ["QUERY_STRING"] = query.decode("latin-1")

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

    def take_body(self, buffer: bytearray) -> bool:
        """Move what belongs to the body out of `buffer`; whether the body is complete.

        Raises Refused.
        """
        if self.length is None:
            return self._take_chunks(buffer)
        missing = self.length - len(self.body)
        self.body += buffer[:missing]
        del buffer[:missing]
        return len(self.body) == self.length

    def _take_chunks(self, buffer: bytearray) -> bool:
        while True:
            line = buffer.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
            if line < 0:
                if len(buffer) >= MAX_CHUNK_LINE_BYTES:
                    raise RequestRefused(400)
                return False
            match = CHUNK_LINE.fullmatch(buffer, 0, line)
            if not match:
                raise RequestRefused(400)
            size = int(match[1], 16)
            if len(self.body) + size > MAX_BODY_BYTES:
                raise RequestRefused(413)
            if size == 0:
                return self._take_trailers(buffer, line)
            start = line + 2
            if len(buffer) < start + size + 2:
                return False
            if buffer[start + size : start + size + 2] != b"\r\n":
                raise RequestRefused(400)
            self.body += buffer[start : start + size]
            del buffer[: start + size + 2]

    def _take_trailers(self, buffer: bytearray, line: int) -> bool:
        """Drop the trailers behind the last chunk: nothing reads them."""
        end = buffer.find(END_OF_HEAD, line, MAX_CHUNK_LINE_BYTES)
        trailers = buffer[line : end if end >= 0 else MAX_CHUNK_LINE_BYTES]
        if trailers.count(b"\n") != trailers.count(b"\r\n"):
            raise RequestRefused(400)
        if end < 0:
            if len(buffer) >= MAX_CHUNK_LINE_BYTES:
                raise RequestRefused(400)
            return False
        del buffer[: end + 4]
        return True

    def finish(self) -> dict[str, Any]:
        """The environ of the complete request, with its body as `wsgi.input`."""
        self.environ["wsgi.input"] = io.BytesIO(self.body)
        self.body = bytearray()
        return self.environ


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
