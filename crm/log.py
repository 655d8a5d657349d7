"""The log of a served installation: one JSON object a line on stderr, without private data.

At a terminal the lines are plain text for a person.

Only `serve` calls `set_up()`: a site that embeds the application has a log of its own. Every
request becomes one line when its response has been sent, with the rule of its route instead of its
path, which may contain a token. Messages and tracebacks go through `mask_secrets()`, in addition to
the rule that no code logs a secret.

Lines of requests are collected and written by a thread within FLUSH_SECONDS. Lines of 5xx and all
other lines are written at once, after those that wait. A normal end of the process loses none.
"""

import contextlib
import json
import logging
import os
import re
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

REQUEST_ID, TENANT, ROUTE = "crm.request_id", "crm.tenant_label", "crm.route"  # in the environ
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FLUSH_SECONDS = 0.1  # for which lines of requests are collected
MAX_WAITING_LINES = 20_000  # more than FLUSH_SECONDS can bring: stderr is blocked
# A write of so many bytes to a pipe is not mixed with those of other processes.
WRITE_BYTES = select.PIPE_BUF
MAX_LINE_BYTES = 1024  # of a request's line

log = logging.getLogger("crm")
requests = logging.getLogger("crm.requests")

_SECRET_PATTERNS = (  # what looks like a secret, and its replacement; all match in linear time
    (re.compile(r"(\bhttps?://[^\s?\"'<>]{1,2048}\?)[^\s\"'<>]+"), r"\1…"),
    (re.compile(r"(\b[a-z]+://)[^\s/@\"']+@"), r"\1…@"),
    (re.compile(r"(\b(?:Bearer|Basic) )[^\s,;\"'}\]]+", re.I), r"\1…"),
    (re.compile(r"\b(crm|whsec)_[0-9A-Za-z+/]{12,}=*"), r"\1_…"),
    (re.compile(r"(?<![\w.!#$%&*+/=^`{|}~-])[\w.!#$%&*+/=^`{|}~-]+@[\w-]+(?:\.[\w-]+)+"), "…@…"),
    (re.compile(r"(?<![\w.])(?:\+[1-9]|380|0[3-9])(?:[ ()-]{0,2}[0-9]){8,14}(?!\w)"), "+…"),
    # 43 characters: the token of a cookie or a link.
    (re.compile(r"(?<![\w-])(?=[\w-]{0,42}[A-Z])(?=[\w-]{0,42}[a-z])[\w-]{43}(?![\w-])"), "…"),
    # 22 characters: an invitation. Only after its path, because names in code look like it.
    (re.compile(r"(/i(?:nvite)?/)[\w-]{22}(?![\w-])"), r"\1…"),
)


def set_up(shows_requests: bool, plain: bool = False) -> None:
    """Write the log of this process and its forks to stderr.

    `shows_requests`: with a line for each request. `plain`: as text instead of JSON.
    """
    handler = LogHandler(sys.stderr, plain)
    root = logging.getLogger()
    root.handlers[:] = requests.handlers[:] = [handler]
    requests.propagate = False
    log.setLevel(logging.INFO)
    requests.setLevel(logging.INFO if shows_requests else logging.CRITICAL)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_error


def stop_batching() -> None:
    """Write the lines of requests that wait, and from now on each line at once."""
    for handler in requests.handlers:
        if isinstance(handler, LogHandler):
            handler.stop_batching()


def mask_secrets(text: str) -> str:
    """Replace what looks like a key, a token, a phone, an e-mail address or a URL's query."""
    for pattern, replacement in _SECRET_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class JSONFormatter(logging.Formatter):
    """Formats records as JSON objects with time, level, logger and message.

    `extra={"about": {…}}` of a record adds fields to its object.
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

    def format_request(self, status: int, seconds: float | None, about: dict[str, Any]) -> bytes:
        """Return the line of a request."""
        level = "warning" if status >= 500 else "info"
        fields = {"time": _time(time.time()), "level": level, **about, "status": status}
        fields["ms"] = None if seconds is None else round(seconds * 1000, 1)
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


class PlainFormatter(logging.Formatter):
    """Formats records as text: the local time, the level, the message, a traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record))

    def format_request(self, status: int, seconds: float | None, about: dict[str, Any]) -> bytes:
        """Return the line of a request."""
        level = "WARNING" if status >= 500 else "INFO"
        ms = "" if seconds is None else f" {seconds * 1000:.1f} ms"
        route, tenant, id = (about[name] or "-" for name in ("route", "tenant", "request_id"))
        request = f"{about['method']} {route} {status}{ms} {tenant} {id}"
        return f"{time.strftime('%H:%M:%S')} {level:<7} {request}\n".encode()


class LogHandler(logging.StreamHandler):
    """Writes records at once, and lines of requests in batches.

    While stderr is blocked, lines of requests wait; beyond MAX_WAITING_LINES they are dropped and
    counted, so that requests are still served.
    """

    def __init__(self, stream: Any, plain: bool = False):
        super().__init__(stream)
        self.formatter = self._formatter = PlainFormatter() if plain else JSONFormatter()
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._batching = True
        self._pid = 0  # of the process that runs the thread
        self._has_lines = threading.Event()

    def add_request(
        self, status: int, seconds: float | None, about: dict[str, Any], at_once: bool
    ) -> None:
        """Write the line of a request within FLUSH_SECONDS, or at once."""
        if self._pid != os.getpid():
            self._start_in_process()
        if len(self._waiting) < MAX_WAITING_LINES:
            # Formatted here: a thread that formats all lines would compete with those that serve.
            self._waiting.append(self._formatter.format_request(status, seconds, about))
        else:
            self._dropped += 1
        if at_once or not self._batching:
            self.flush()
        elif not self._has_lines.is_set():
            self._has_lines.set()

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
        """Write what waits; logging calls this at the end of the process."""
        self.stop_batching()
        super().close()

    def _start_in_process(self) -> None:
        with self._locked():
            if self._pid == os.getpid():
                return
            self._waiting.clear()  # the parent writes its own lines
            self._has_lines = threading.Event()
            self._pid = os.getpid()
            try:
                threading.Thread(target=self._flush_repeatedly, name="log", daemon=True).start()
            except RuntimeError:  # no more threads can be started
                self._batching = False

    def _locked(self) -> threading.RLock:
        assert self.lock is not None, "logging makes it with the handler"
        return self.lock

    def _flush_repeatedly(self) -> None:
        while True:
            self._has_lines.wait()
            time.sleep(FLUSH_SECONDS)
            self._has_lines.clear()
            self.flush()

    def _write_waiting(self) -> None:
        if self._pid != os.getpid():
            return  # the waiting lines are the parent's
        succeeded = True
        while succeeded and self._waiting:
            with self._locked():  # for one write only, so that a record does not wait for all
                succeeded = self._write_batch()

    def _write_batch(self) -> bool:
        """Write some of the waiting lines; if that fails, count them as dropped, return False."""
        lines, size = [], 0
        while self._waiting and size < WRITE_BYTES - MAX_LINE_BYTES:
            line = self._waiting.popleft()
            lines.append(line)
            size += len(line)
        try:
            if dropped := self._dropped:
                text = "%d lines of requests are lost: stderr was blocked"
                record = logging.LogRecord(
                    log.name, logging.WARNING, __file__, 0, text, (dropped,), None
                )
                self.stream.write(self.format(record) + self.terminator)
                self._dropped -= dropped  # more may have been dropped meanwhile
            self.stream.write(b"".join(lines).decode())
            self.stream.flush()
        except Exception:  # whatever is wrong with stderr, requests must be served
            self._dropped += len(lines)
            return False
        return True


class LoggedRequest:
    """The body of a response that writes the request's line when it was sent."""

    __slots__ = ("_began", "_environ", "_parts", "_start_response", "_status")

    def __init__(self, environ: dict[str, Any], start_response: Callable[..., Any]):
        self._began = time.perf_counter()
        self._environ = environ
        self._start_response = start_response
        self._status = 500  # unless start_response is called
        self._parts: Iterable[bytes] = ()

    def start(self, status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        """WSGI's start_response, which notes the status."""
        self._status = int(status[:3])
        return self._start_response(status, headers, *exc_info)

    def wrap(self, parts: Iterable[bytes]) -> "LoggedRequest":
        """Return the body of the response, whose close() writes the line."""
        self._parts = parts
        return self

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._parts)

    def close(self) -> None:
        """Write the line; the server calls this after the response, or when the client left."""
        try:
            if close := getattr(self._parts, "close", None):
                close()
        finally:
            seconds = time.perf_counter() - self._began
            log_request(self._status, seconds, **describe_request(self._environ))


def describe_request(environ: dict[str, Any]) -> dict[str, Any]:
    """Return the request_id, tenant, route and method of a request's line, None where unknown."""
    method = environ.get("REQUEST_METHOD")
    return {
        "request_id": environ.get(REQUEST_ID),
        "tenant": environ.get(TENANT),
        "route": environ.get(ROUTE),
        "method": method if method in METHODS else "other",
    }


def log_request(
    status: int, seconds: float | None = None, at_once: bool = False, **about: str | None
) -> None:
    """Write a request's line, soon or `at_once`; a 5xx is a warning and written at once.

    `seconds` is how long the request took, `about` what describe_request() returns.
    """
    level = logging.WARNING if status >= 500 else logging.INFO
    if not requests.isEnabledFor(level):
        return
    handler = requests.handlers[0] if requests.handlers else None
    if isinstance(handler, LogHandler):
        handler.add_request(status, seconds, about, at_once or status >= 500)
    else:  # the record is made here, because logging would spend half of the time on the caller
        text = "%(method)s %(route)s of %(tenant)s: %(status)s in %(ms)s ms, request %(request_id)s"
        fields = {**about, "status": status, "ms": seconds and round(seconds * 1000, 1)}
        requests.handle(logging.LogRecord(requests.name, level, __file__, 0, text, (fields,), None))


def _time(seconds: float) -> str:
    return f"{_second(int(seconds))}.{int(seconds * 1000) % 1000:03}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _log_thread_error(error: threading.ExceptHookArgs) -> None:
    if error.exc_type is not SystemExit and error.exc_value is not None:
        name = error.thread.name if error.thread else "?"
        log.error("the thread %s ended", name, exc_info=error.exc_value)
