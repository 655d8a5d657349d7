"""Before every operation and page: its route, the tenant, the key, the limits of requests, and
response headers.

Order (D12, D13): unknown host 404 before anything else, preflight uncounted, key 401, limit 429.
The headers of every response are put into a list of the environ and added as the response starts:
through werkzeug's Headers they would take a tenth of a request's time.

Requests are counted for all processes of an installation together: those of a tenant in a minute
(spec: Limits, D13), those with invalid keys, and those of website forms, inbound hooks, export
links and pages. `moment` is the machine's uptime in seconds, and windows are fixed parts of it, so
a step of the wall clock starts no new window. Of several machines each counts for itself: the proxy
sends all requests of a host to the same one.
"""

import math
from base64 import b64decode
from collections.abc import Callable, Iterable
from random import getrandbits
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from flask import Flask, Request, Response, request
from werkzeug.exceptions import BadRequest, LengthRequired
from werkzeug.routing import Rule

from crm.access import api_keys, rights
from crm.config import Config
from crm.errors import Forbidden, Malformed, TooMany, Unauthorized, UnknownTenant
from crm.limits import windows
from crm.limits.counters import Counters
from crm.limits.windows import Limit
from crm.log import REQUEST_ID, ROUTE, mask_secrets
from crm.networks import networks_of
from crm.storage.session import TenantSession, session_or_none

API = "/api/"
Admit = Callable[[Request], Response | None]
# Keys of the environ: headers to add to the response, and why no session could be opened.
EXTRA_HEADERS, REFUSED = "crm.extra_headers", "crm.refused"
PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, X-Request-Id",
    "Access-Control-Max-Age": "600",
}
EXPOSED = "Location, Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"

WINDOW_SECONDS = windows.REQUESTS.seconds
# Invalid keys a minute, after which keys are refused unread: from one address or IPv6 /64, and
# from an IPv6 /48, all of which one customer may have.
MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48 = 30, 300
MAX_FORM_REQUESTS = 10  # a minute, of a website's visitors at one address
MAX_INBOUND_CALLS = 60  # a minute, of one inbound hook
MAX_LINK_EXPORTS = 60  # a minute, by one export link
MAX_SESSION_PAGES = 240  # a minute, of one session, and of strangers in one network
MAX_TENANT_PAGES = 2400  # a minute, of all sessions of a tenant


class Routes:
    """The rules of an app whose views are operations: a dictionary for each segment of a path.

    Werkzeug's matcher and Flask's two contexts take a third of the time of a GET, and operations
    use neither. What is not found here, Flask answers: other paths and methods, and OPTIONS.
    """

    def __init__(self, rules: Iterable[tuple[Rule, Any]]):
        """`rules`: with the view of each."""
        self._root = _Segment()
        for rule, view in rules:
            segment = self._root
            for text in rule.rule.split("/"):
                if text.startswith("<"):
                    segment.variable = segment = segment.variable or _Segment()
                else:
                    segment = segment.fixed.setdefault(text, _Segment())
            for method in (rule.methods or set()) - {"OPTIONS"}:  # Flask tells the methods
                segment.views[method] = rule, view

    def find(self, method: str, path: str) -> tuple[Rule, Any, list[str]] | None:
        """Return the rule, its view and the ids in the path; None if there is none."""
        segment, ids = self._root, []
        for text in path.split("/"):
            if (known := segment.fixed.get(text)) is not None:
                segment = known
            elif segment.variable is not None and text and text.isascii():
                segment = segment.variable
                ids.append(text)
            else:
                return None
        rule_and_view = segment.views.get(method)
        return None if rule_and_view is None else (*rule_and_view, ids)


class _Segment:
    """What may follow a beginning of a path: known texts, an id, or nothing."""

    __slots__ = ("fixed", "variable", "views")

    def __init__(self) -> None:
        self.fixed: dict[str, _Segment] = {}
        self.variable: _Segment | None = None
        self.views: dict[str, tuple[Rule, Any]] = {}


class RateLimit(NamedTuple):
    """Whether a request is allowed, and what is left of the limit in this window."""

    allowed: bool
    limit: int
    remaining: int
    seconds_left: float  # until the window ends

    def build_headers(self, now: float) -> tuple[tuple[str, str], ...]:
        """The headers of D13; `now` in epoch seconds."""
        return (
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(self.remaining)),
            ("X-RateLimit-Reset", str(round(now + self.seconds_left))),
            ("RateLimit-Policy", f'"minute";q={self.limit};w={WINDOW_SECONDS}'),
            ("RateLimit", f'"minute";r={self.remaining};t={max(0, math.ceil(self.seconds_left))}'),
        )


class Limiter:
    """Counts requests exactly: a count is read and written by one atomic operation."""

    def __init__(self, counters: Counters) -> None:
        self.use(counters)

    def use(self, counters: Counters) -> None:
        """Count in this store from now on: tests share an app, and begin with no counts."""
        self._counters = counters

    def count_request(
        self, label: str, limit: int, moment: float, group: str = "", refused: bool = False
    ) -> RateLimit:
        """Count one request of a tenant if the limit allows it (D13).

        `group`: the callers that it comes from, which together have half of the limit: website
        forms, or assistants (D12), so that they cannot lock the integrations out. `refused`: it is
        refused for another reason, so it is not counted, and the result only shows what is left.
        """
        limits = [Limit(windows.REQUESTS, label, limit, not refused)]
        if group:
            limits.append(
                Limit(windows.REQUESTS, f"{label} {group}", max(1, limit // 2), not refused)
            )
        allowed, counts, seconds_left = self._counters.take(limits, moment)
        remaining = limit - counts[0]
        if group:
            remaining = min(remaining, limits[1].most - counts[1])
        return RateLimit(allowed and not refused, limit, max(0, remaining), seconds_left)

    def get_count(self, label: str, moment: float) -> int:
        """Return how many requests of a tenant were counted in this minute."""
        return self._counters.read([Limit(windows.REQUESTS, label, 0)], moment)[0]

    def count_form_request(self, label: str, address: str, moment: float) -> float:
        """Count one request of a website form from an address.

        Returns 0, or the seconds to wait if there are too many. Without it, one robot could use up
        the forms' half of the tenant's limit.
        """
        visitor = f"{label}/{networks_of(address)[0]}"
        return self._wait([Limit(windows.FORM_VISITORS, visitor, MAX_FORM_REQUESTS)], moment)

    def count_inbound_call(self, label: str, hook_id: int, moment: float) -> None:
        """Count one call of an inbound hook. Raises TooMany."""
        limit = Limit(windows.INBOUND_CALLS, f"{label}/{hook_id}", MAX_INBOUND_CALLS)
        self._require([limit], moment, "too many calls of this hook in a minute")

    def count_page(self, label: str, session_id: int | None, address: str, moment: float) -> None:
        """Count one page request of a session, or of a stranger if `session_id` is None.

        Strangers are counted per network only, because together they must not lock out the
        tenant's own users. Raises TooMany.
        """
        visitor = f"session {session_id}" if session_id else f"network {networks_of(address)[0]}"
        limits = [Limit(windows.PAGES, f"{label}/{visitor}", MAX_SESSION_PAGES)]
        if session_id:
            limits.append(Limit(windows.PAGES, label, MAX_TENANT_PAGES))
        self._require(limits, moment, "too many pages in this minute")

    def count_failed_key(self, address: str, moment: float) -> float:
        """Count an invalid key; return 0, or the seconds to wait if its networks sent too many."""
        numbers = (MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48)
        limits = [
            Limit(windows.FAILED_KEYS, network, most)
            for network, most in zip(networks_of(address), numbers, strict=False)
        ]
        return self._wait(limits, moment)

    def count_export(self, label: str, link_id: int, moment: float) -> None:
        """Count one use of an export link. Raises TooMany."""
        limit = Limit(windows.REQUESTS, f"{label} export {link_id}", MAX_LINK_EXPORTS)
        self._require([limit], moment, "too many exports by this link")

    def _require(self, limits: list[Limit], moment: float, detail: str) -> None:
        if wait := self._wait(limits, moment):
            raise TooMany(detail, "", math.ceil(wait))

    def _wait(self, limits: list[Limit], moment: float) -> float:
        taken = self._counters.take(limits, moment)
        return 0 if taken.allowed else taken.seconds_left


def install(app: Flask, config: Config, limiter: Limiter) -> Admit:
    """Put admission before all pages of the app, and return it for the operations of its API.

    It returns None, or the response that ends the request. It raises UnknownTenant, or why else no
    session could be opened, Malformed, Unauthorized, TooMany and Forbidden.
    """

    def admit(request: Request) -> Response | None:
        environ, rule = request.environ, request.url_rule
        headers = environ.get(EXTRA_HEADERS, [])
        environ[ROUTE] = rule.rule if rule else None
        headers.append(("X-Request-Id", request_id(environ)))
        view = app.view_functions[rule.endpoint] if rule else None
        session = session_or_none()
        if session is None:
            # No variable keeps the error: its frames have that and the environ, so that the body
            # would outlive the request.
            if getattr(view, "at_any_host", False):  # the stylesheet of the error page
                environ.pop(REFUSED, None)
                return None
            raise environ.pop(REFUSED, None) or UnknownTenant()
        _require_readable_body(environ)
        _check_query(environ.get("QUERY_STRING", ""))
        if not request.path.startswith(API) or getattr(view, "public", False):
            return None
        # A browser sends a preflight without the key: it can be neither refused nor counted by it.
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            return _answer_preflight(environ.get("HTTP_ORIGIN"))
        _admit_key(request, session, headers)
        return None

    def _admit_key(request: Request, session: TenantSession, headers: list) -> None:
        """Find the caller of the key, count the request, and check a website form's origin."""
        environ, address = request.environ, request.remote_addr or ""
        # Read together, so that all answers of a window tell the same end.
        moment, now = session.source.steady_clock.uptime(), session.clock()
        try:
            caller = rights.authenticate(_read_key(environ))
        except Unauthorized:
            if wait := limiter.count_failed_key(address, moment):
                detail = "too many requests with a bad key from this address"
                raise TooMany(detail, retry_after=math.ceil(wait)) from None
            raise
        wait, is_at_home = 0.0, True
        # A form's key that names no origin is a server's own, which sends for all of its visitors.
        if caller.is_form and caller.origins:
            is_at_home = (origin := environ.get("HTTP_ORIGIN")) in caller.origins
            if is_at_home:
                headers += _let_read(origin)
            wait = limiter.count_form_request(session.label, address, moment)
        if limit := config.plans[caller.plan]:
            rate = limiter.count_request(session.label, limit, moment, caller.group, wait > 0)
            headers += rate.build_headers(now)
            wait = 0.0 if rate.allowed else rate.seconds_left
        if wait:
            raise TooMany(retry_after=math.ceil(wait))
        if not is_at_home:
            raise Forbidden("this key is for forms of other sites", "origin_not_allowed")

    app.before_request(lambda: admit(request))
    return admit


def request_id(environ: dict[str, Any]) -> str:
    """The id of a request, from X-Request-Id or made here; stored in its environ."""
    id = environ.get(REQUEST_ID)
    if id is None:
        sent = environ.get("HTTP_X_REQUEST_ID", "")
        fits = 0 < len(sent) <= 128 and sent.isascii() and sent.replace("-", "").isalnum()
        fits = fits and mask_secrets(sent) == sent  # a key sent by mistake must not be logged
        id = environ[REQUEST_ID] = sent if fits else f"{getrandbits(96):024x}"
    return id


def _require_readable_body(environ: dict[str, Any]) -> None:
    """Refuse a body that would be read as empty, so that a change would lose its data.

    A chunked one whose end the server does not mark, with 411 (RFC 9110, 15.5.12): PEP 3333 has no
    chunked bodies. Servers that decode them say so by `wsgi.input_terminated`; uWSGI and hypercorn
    do not. And one with several lengths, with 400: uWSGI joins Content-Length and Content_Length.
    """
    coding = environ.get("HTTP_TRANSFER_ENCODING")
    if coding and "chunked" in coding.lower() and not environ.get("wsgi.input_terminated"):
        raise LengthRequired("this server takes no chunked bodies: send Content-Length")
    length = environ.get("CONTENT_LENGTH")
    if length and not (length.isascii() and length.isdecimal()):
        raise BadRequest("the Content-Length is not a number")


def _check_query(query_string: str) -> None:
    """Refuse bytes that are not UTF-8, which werkzeug would replace; raises Malformed.

    Escaped as `%FF` it would leave them as they are: a filter would look for the text "%FF".
    """
    if "%" in query_string or not query_string.isascii():
        try:
            unquote_to_bytes(query_string.encode("latin-1")).decode()
        except UnicodeError:
            raise Malformed("the query is not UTF-8", "malformed_query") from None


def _read_key(environ: dict[str, Any]) -> str:
    """Return the key of a request, or an empty text.

    Programs that know HTTP Basic alone send it as the user name, with an empty password.
    """
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user, colon, password = b64decode(secret, validate=True).decode().partition(":")
        except ValueError:
            return ""
        return user if colon and not password else ""
    return secret.strip() if scheme.lower() == "bearer" else ""


def _let_read(origin: str | None) -> tuple[tuple[str, str], ...]:
    """The headers by which a browser lets the site of a form read the response (D12)."""
    return (
        ("Access-Control-Allow-Origin", origin or ""),
        ("Access-Control-Expose-Headers", EXPOSED),
        ("Vary", "Origin"),
    )


def _answer_preflight(origin: str | None) -> Response:
    """Allow the origin if a key for forms of this tenant names it (D12)."""
    headers = {"Vary": "Origin"}
    if origin and origin in api_keys.list_form_origins():
        headers |= {"Access-Control-Allow-Origin": origin, **PREFLIGHT_HEADERS}
    return Response(status=204, headers=headers)
