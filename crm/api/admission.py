"""Before every operation: the tenant, the key, the rate limit, and their response headers.

Order (D12, D13): unknown host 404 before anything else, preflight uncounted, key 401, limit 429.
The headers of every response are put into a list of the environ and added as the response starts:
through werkzeug's Headers they would take a tenth of a request's time.
"""

import math
from collections.abc import Callable
from typing import Any

from flask import Flask, Request, Response, g, request

from crm.access import api_keys
from crm.access.limits import WINDOW_SECONDS, Limiter, RateLimit
from crm.api import problems
from crm.api.problems import request_id
from crm.config import Config
from crm.errors import Forbidden, Malformed, TooMany, Unauthorized
from crm.log import ROUTE
from crm.tenancy.database import session_or_none
from crm.tenancy.files import UnknownTenant

API = "/api/"
Admit = Callable[[Request], Response | None]
# Keys of the environ: headers to add to the response, and why no session could be opened.
EXTRA_HEADERS, REFUSED = "crm.extra_headers", "crm.refused"
EXPOSED = "Location, Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"


def install(app: Flask, config: Config, limiter: Limiter) -> Admit:
    """Put admission before all pages of the app, and return it for the operations of its API.

    It returns None, or the response that ends the request. It raises UnknownTenant, or why else no
    session could be opened, Malformed, Unauthorized, TooMany and Forbidden.
    """

    def admit(request: Request) -> Response | None:
        environ = request.environ
        headers = environ.get(EXTRA_HEADERS, [])
        environ[ROUTE] = request.url_rule.rule if request.url_rule else None
        headers.append(("X-Request-Id", request_id(environ)))
        session = session_or_none()
        if session is None:
            view = app.view_functions.get(request.endpoint or "")
            if getattr(view, "at_any_host", False):  # the stylesheet of the error page
                return None
            raise environ.get(REFUSED) or UnknownTenant()
        problems.require_readable_body(environ)
        _check_query(environ.get("QUERY_STRING", ""))
        if not request.path.startswith(API):
            return None
        if request.url_rule and getattr(
            app.view_functions[request.url_rule.endpoint], "public", False
        ):
            return None
        origin = environ.get("HTTP_ORIGIN")
        # A browser sends a preflight without the key: it can be neither refused nor counted by it.
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            return _answer_preflight(origin)
        moment = session.source.steady_clock.uptime()
        try:
            caller = g.caller = api_keys.authenticate(_read_bearer(environ))
        except Unauthorized:
            if wait := limiter.count_failed_key(request.remote_addr or "", moment):
                raise TooMany(
                    "too many requests with a bad key from this address",
                    retry_after=math.ceil(wait),
                ) from None
            raise
        is_form = caller.is_form
        if is_form and origin in caller.origins:
            headers += (
                ("Access-Control-Allow-Origin", origin),
                ("Access-Control-Expose-Headers", EXPOSED),
                ("Vary", "Origin"),
            )
        # A key that names no origin is a server's own, which sends for all of its visitors.
        wait = 0.0
        if is_form and caller.origins:
            wait = limiter.count_form_request(session.label, request.remote_addr or "", moment)
        if limit := config.plans[caller.plan]:
            rate = limiter.count_request(session.label, limit, moment, is_form, wait > 0)
            headers += _build_limit_headers(rate, session.clock())
            wait = 0.0 if rate.allowed else rate.seconds_left
        if wait:
            raise TooMany(retry_after=math.ceil(wait))
        if is_form and caller.origins and origin not in caller.origins:
            raise Forbidden("this key is for forms of other sites", "origin_not_allowed")
        return None

    app.before_request(lambda: admit(request))
    return admit


def _check_query(query_string: str) -> None:
    """Refuse bytes that are not UTF-8, which werkzeug would replace; raises Malformed."""
    if not query_string.isascii():
        try:
            query_string.encode("latin-1").decode()
        except UnicodeError:
            raise Malformed("the query is not UTF-8", "malformed_query") from None


def _read_bearer(environ: dict[str, Any]) -> str:
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _answer_preflight(origin: str | None) -> Response:
    """Allow the origin if a key for forms of this tenant names it (D12)."""
    response = Response(status=204)
    response.headers["Vary"] = "Origin"
    if origin and origin in api_keys.list_form_origins():
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = (
            "Authorization, Content-Type, Idempotency-Key, X-Request-Id"
        )
        response.headers["Access-Control-Max-Age"] = "600"
    return response


def _build_limit_headers(rate: RateLimit, now: float) -> tuple[tuple[str, str], ...]:
    """The headers of D13; `now` in epoch seconds."""
    return (
        ("X-RateLimit-Limit", str(rate.limit)),
        ("X-RateLimit-Remaining", str(rate.remaining)),
        ("X-RateLimit-Reset", str(round(now + rate.seconds_left))),
        ("RateLimit-Policy", f'"minute";q={rate.limit};w={WINDOW_SECONDS}'),
        ("RateLimit", f'"minute";r={rate.remaining};t={max(0, math.ceil(rate.seconds_left))}'),
    )
