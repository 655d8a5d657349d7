"""The log of a served installation: one JSON object a line on stderr, nothing private in it.

`begin()` sets it up, and only `serve` calls that: who embeds the application has a log of his own.
Every request is one line once its answer has been sent, with the rule of its route in place of its
path, which may carry a token. What such lines hold is chosen; texts of others (messages, traces)
go through `masked()` first, a second net behind the rule that nobody logs a secret.

Lines of requests are written together by a thread, within a second; a 5xx and all that are not of
requests at once, after the lines that wait. A normal end of the process loses none.
"""

import contextlib
import json
import logging
import os
import re
import select
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

REQUEST_ID, TENANT, ROUTE = "crm.request_id", "crm.visited", "crm.route"  # in the environ
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FLUSH_SECONDS = 0.1  # how long lines of requests wait for others
MAX_WAITING_LINES = 20_000  # more than come in FLUSH_SECONDS: stderr takes none
# Writes of so many bytes to a pipe are not mixed with those of other processes; to a file, any are.
WRITE_BYTES = select.PIPE_BUF
FILE_WRITE_BYTES = 64 * 1024
MAX_LINE_BYTES = 1024  # of a request

log = logging.getLogger("crm")
requests = logging.getLogger("crm.requests")

_SECRET_PATTERNS = (  # what looks like a secret, and what stands in its place; all in linear time
    (re.compile(r"(\bhttps?://[^\s?\"'<>]{1,2048}\?)[^\s\"'<>]+"), r"\1…"),
    (re.compile(r"(\b[a-z]+://)[^\s/@\"']+@"), r"\1…@"),
    (re.compile(r"(\b(?:Bearer|Basic) )[^\s,;\"'}\]]+", re.I), r"\1…"),
    (re.compile(r"\b(crm|whsec)_[0-9A-Za-z+/]{12,}=*"), r"\1_…"),
    (
        re.compile(r"(?<![\w.!#$%&*+/=^`{|}~-])[\w.!#$%&*+/=^`{|}~-]+@[\w-]+(?:\.[\w-]+)+"),
        "…@…",
    ),
    (re.compile(r"(?<![\w.])(?:\+[1-9]|380|0[3-9])(?:[ ()-]{0,2}[0-9]){8,14}(?!\w)"), "+…"),
    # 43 characters: the token of a cookie or a link.
    (re.compile(r"(?<![\w-])(?=[\w-]{0,42}[A-Z])(?=[\w-]{0,42}[a-z])[\w-]{43}(?![\w-])"), "…"),
    # 22 characters: of an invitation. Without the path before it, names of code look like it.
    (re.compile(r"(/i(?:nvite)?/)[\w-]{22}(?![\w-])"), r"\1…"),
)


def set_up(shows_requests: bool) -> None:
    """Write the log of this process, and of those that it forks, to stderr."""
    handler = LogHandler(sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = requests.handlers[:] = [handler]
    requests.propagate = False
    log.setLevel(logging.INFO)
    requests.setLevel(logging.INFO if shows_requests else logging.CRITICAL)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_error


def stop_batching() -> None:
    """Write the lines of requests that wait, and each one to come at once."""
    for handler in requests.handlers:
        if isinstance(handler, LogHandler):
            handler.stop_batching()


def mask_secrets(text: str) -> str:
    """The text without what looks like a key, a token, a phone, an e-mail or a URL's query."""
    for pattern, instead in _SECRET_PATTERNS:
        text = pattern.sub(instead, text)
    return text


class JSONFormatter(logging.Formatter):
    """Records as JSON: time, level, who says what.

    `extra={"about": {…}}` of a record goes into its object.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            **getattr(record, "about", {}),
            "logger": record.name,
            "message": mask_secrets(record.getMessage()),
        }
        if record.exc_info:
            fields["trace"] = mask_secrets(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


class RequestLine(NamedTuple):
    """What the line of a request is made of."""

    moment: float
    status: int
    seconds: float | None
    request_id: str | None
    tenant: str | None
    route: str | None
    method: str

    def about(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "tenant": self.tenant,
            "route": self.route,
            "method": self.method,
            "status": self.status,
            "ms": None if self.seconds is None else round(self.seconds * 1000, 1),
        }

    def format(self) -> bytes:
        level = "warning" if self.status >= 500 else "info"
        fields = {"time": _time(self.moment), "level": level, **self.about()}
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


class LogHandler(logging.StreamHandler):
    """Writes records at once, and lines of requests together.

    While nobody reads stderr, lines of requests wait, then are lost and counted: requests go on.
    """

    def __init__(self, stream: Any):
        super().__init__(stream)
        self.setFormatter(JSONFormatter())
        self._waiting: deque[bytes] = deque()
        self._write_bytes = FILE_WRITE_BYTES if _is_file(stream) else WRITE_BYTES
        self._lost = 0
        self._counting = threading.Lock()
        self._batching = True
        self._process = 0  # the one that has the thread
        self._begun = threading.Event()  # a line waits

    def add(self, line: RequestLine, at_once: bool = False) -> None:
        """Write the line of a request within FLUSH_SECONDS, or at once."""
        if self._process != os.getpid():
            self._begin_process()
        if len(self._waiting) < MAX_WAITING_LINES:
            # Made here: a thread that made them all would take turns with the one that serves.
            self._waiting.append(line.format())
        else:
            with self._counting:
                self._lost += 1
        if at_once or not self._batching:
            self.flush()
        elif not self._begun.is_set():
            self._begun.set()

    def emit(self, record: logging.LogRecord) -> None:
        self._write_waiting()
        super().emit(record)

    def flush(self) -> None:
        self._write_waiting()
        with contextlib.suppress(OSError, ValueError):
            super().flush()

    def stop_batching(self) -> None:
        self._batching = False
        self.flush()

    def close(self) -> None:
        """Called at the end of the process."""
        self.stop_batching()
        super().close()

    def _begin_process(self) -> None:
        with self.lock:
            if self._process == os.getpid():
                return
            self._waiting.clear()  # lines of the parent
            self._begun = threading.Event()
            self._process = os.getpid()
            try:
                threading.Thread(target=self._flush_again, name="log", daemon=True).start()
            except RuntimeError:  # no thread can be had
                self._batching = False

    def _flush_again(self) -> None:
        while True:
            self._begun.wait()
            time.sleep(FLUSH_SECONDS)
            self._begun.clear()
            self.flush()

    def _write_waiting(self) -> None:
        if self._process != os.getpid():
            return  # what waits is the parent's
        written = True
        while written and self._waiting:
            with self.lock:  # for one write at a time, so that a record need not wait for all
                written = self._write_some()

    def _write_some(self) -> bool:
        """Write some of the lines that wait; False when it failed, and they are lost."""
        lines, size = [], 0
        while self._waiting and size < self._write_bytes - MAX_LINE_BYTES:
            line = self._waiting.popleft()
            lines.append(line)
            size += len(line)
        try:
            if lost := self._lost:
                text = "%d lines of requests are lost: the log took none"
                record = logging.LogRecord(
                    log.name, logging.WARNING, __file__, 0, text, (lost,), None
                )
                self.stream.write(self.format(record) + self.terminator)
                with self._counting:
                    self._lost -= lost
            self.stream.write(b"".join(lines).decode())
            self.stream.flush()
        except Exception:  # whatever is wrong with stderr, requests go on
            with self._counting:
                self._lost += len(lines)
            return False
        return True


def _is_file(stream: Any) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # closed, or only looks like a stream
        return False


class LoggedRequest:
    """A request that becomes a line of the log when its answer has been sent."""

    __slots__ = ("_answer", "_began", "_environ", "_parts", "_status")

    def __init__(self, environ: dict[str, Any], start_response: Callable[..., Any]):
        self._began = time.perf_counter()
        self._environ = environ
        self._answer = start_response
        self._status = 500  # unless it is told
        self._parts: Iterable[bytes] = ()

    def start(self, status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        """WSGI's start_response."""
        self._status = int(status[:3])
        return self._answer(status, headers, *more)

    def sending(self, parts: Iterable[bytes]) -> "LoggedRequest":
        """The answer's body, which tells of its end."""
        self._parts = parts
        return self

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._parts)

    def close(self) -> None:
        """The server is done with the answer, or its client left."""
        try:
            if close := getattr(self._parts, "close", None):
                close()
        finally:
            seconds = time.perf_counter() - self._began
            log_request(self._status, seconds, **describe_request(self._environ))


def describe_request(environ: dict[str, Any]) -> dict[str, Any]:
    """What a line says of its request: request_id, tenant, route, method. None: there is none."""
    method = environ.get("REQUEST_METHOD")
    return {
        "request_id": environ.get(REQUEST_ID),
        "tenant": environ.get(TENANT),
        "route": environ.get(ROUTE),
        "method": method if method in METHODS else "other",
    }


def log_request(
    status: int,
    seconds: float | None = None,
    *,
    request_id: str | None,
    tenant: str | None,
    route: str | None,
    method: str,
    at_once: bool = False,
) -> None:
    """Write a request's line, soon or `at_once`; a 5xx is a warning and always written at once."""
    level = logging.WARNING if status >= 500 else logging.INFO
    if not requests.isEnabledFor(level):
        return
    line = RequestLine(time.time(), status, seconds, request_id, tenant, route, method)
    handler = requests.handlers[0] if requests.handlers else None
    if isinstance(handler, LogHandler):
        handler.add(line, at_once or status >= 500)
    else:  # made here: to find the caller would take half of the time
        text = "%(method)s %(route)s of %(tenant)s: %(status)s in %(ms)s ms, request %(request_id)s"
        args = (line.about(),)
        requests.handle(logging.LogRecord(requests.name, level, __file__, 0, text, args, None))


def _time(seconds: float) -> str:
    return f"{_second(int(seconds))}.{int(seconds * 1000) % 1000:03}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _log_thread_error(error: threading.ExceptHookArgs) -> None:
    if error.exc_type is not SystemExit and error.exc_value is not None:
        name = error.thread.name if error.thread else "?"
        log.error("the thread %s ended", name, exc_info=error.exc_value)
