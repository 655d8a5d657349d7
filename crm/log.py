"""The log of a served installation: one JSON object a line on stderr, nothing private in it.

`begin()` sets it up, and only `serve` calls that: who embeds the application has a log of his own.
Every request is one line once its answer has been sent, with the rule of its route in place of its
path, which may carry a token. What such lines hold is chosen; texts of others (messages, traces)
go through `masked()` first, a second net behind the rule that nobody logs a secret.
"""

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

REQUEST_ID, TENANT, ROUTE = "crm.request_id", "crm.visited", "crm.route"  # in the environ
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = logging.getLogger("crm")
requests = logging.getLogger("crm.requests")

_SECRETS = (  # what looks like a secret, and what stands in its place; all in linear time
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
    (
        re.compile(
            r"(?<![\w-])(?=[\w-]{0,42}[0-9])(?=[\w-]{0,42}[A-Z])(?=[\w-]{0,42}[a-z])"
            r"[\w-]{43}(?![\w-])"
        ),
        "…",
    ),
)


def begin(shows_requests: bool) -> None:
    """Write the log of this process, and of those that it forks, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    requests.setLevel(logging.INFO if shows_requests else logging.CRITICAL)
    logging.captureWarnings(True)
    threading.excepthook = _thread_ended


def masked(text: str) -> str:
    """The text without what looks like a key, a token, a phone, an e-mail or a URL's query."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class Lines(logging.Formatter):
    """Records as JSON: time, level, then what a request was or who says what.

    `extra={"about": {…}}` of a record goes into its object.
    """

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {"time": _time(record.created), "level": record.levelname.lower()}
        if record.name == requests.name and isinstance(record.args, dict):
            return orjson.dumps(told | record.args).decode()  # a tenth of json's time
        told |= getattr(record, "about", {})
        told |= {"logger": record.name, "message": masked(record.getMessage())}
        if record.exc_info:
            told["trace"] = masked(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False)


class Measured:
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

    def sending(self, parts: Iterable[bytes]) -> "Measured":
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
            tell(self._status, time.perf_counter() - self._began, **of(self._environ))


def of(environ: dict[str, Any]) -> dict[str, Any]:
    """What a line says of its request: request_id, tenant, route, method. None: there is none."""
    method = environ.get("REQUEST_METHOD")
    return {
        "request_id": environ.get(REQUEST_ID),
        "tenant": environ.get(TENANT),
        "route": environ.get(ROUTE),
        "method": method if method in METHODS else "other",
    }


def tell(status: int, seconds: float | None = None, **about: Any) -> None:
    """Write a request's line; 5xx is a warning."""
    level = logging.WARNING if status >= 500 else logging.INFO
    ms = None if seconds is None else round(seconds * 1000, 1)
    text = "%(method)s %(route)s of %(tenant)s: %(status)s in %(ms)s ms, request %(request_id)s"
    args = ({**about, "status": status, "ms": ms},)
    if requests.isEnabledFor(level):  # made here: to find the caller would take half of the time
        requests.handle(logging.LogRecord(requests.name, level, __file__, 0, text, args, None))


def _time(seconds: float) -> str:
    return f"{_second(int(seconds))}.{int(seconds * 1000) % 1000:03}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _thread_ended(told: threading.ExceptHookArgs) -> None:
    if told.exc_type is not SystemExit and told.exc_value is not None:
        name = told.thread.name if told.thread else "?"
        log.error("the thread %s ended", name, exc_info=told.exc_value)
