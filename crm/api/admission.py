"""Before and after every operation: the tenant, the key, the limit, and the headers that tell.

Order (D12, D13): unknown host 404 before anything else, preflight uncounted, key 401, limit 429.
The headers that every answer carries are noted in a list of the environ and added as the answer
starts: through werkzeug's Headers they would take a tenth of a request's time.
"""

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
    """Put admission in front of all pages of the app, and give it for the operations of its API."""

    def admit(asked: Request) -> Response | None:
        environ = asked.environ
        told = environ.get(EXTRA_HEADERS, [])
        environ[ROUTE] = asked.url_rule.rule if asked.url_rule else None
        told.append(("X-Request-Id", request_id(environ)))
        here = session_or_none()
        if here is None:
            view = app.view_functions.get(asked.endpoint or "")
            if getattr(view, "at_any_host", False):  # what the page of that error is made of
                return None
            raise environ.get(REFUSED) or UnknownTenant()
        problems.require_readable_body(environ)
        _check_query(environ.get("QUERY_STRING", ""))
        if not asked.path.startswith(API):
            return None
        if asked.url_rule and getattr(app.view_functions[asked.url_rule.endpoint], "public", False):
            return None
        origin = environ.get("HTTP_ORIGIN")
        if asked.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            return _preflight(origin)
        moment = here.source.steady_clock.uptime()
        try:
            caller = g.caller = api_keys.authenticate(_bearer(environ))
        except Unauthorized:
            if limiter.count_failed_key(asked.remote_addr or "", moment):
                raise TooMany(
                    "too many requests with a bad key from this address",
                    retry_after=WINDOW_SECONDS - int(moment) % WINDOW_SECONDS,
                ) from None
            raise
        form = caller.is_form
        if form and origin in caller.origins:
            told += (
                ("Access-Control-Allow-Origin", origin),
                ("Access-Control-Expose-Headers", EXPOSED),
                ("Vary", "Origin"),
            )
        # A key that names no origin is a server's own, which sends for all of its visitors.
        refused = bool(
            form
            and caller.origins
            and limiter.count_form_request(here.label, asked.remote_addr or "", moment)
        )
        if limit := config.plans[caller.plan]:
            turn = limiter.count_request(here.label, limit, moment, form, refused)
            told += _limit_headers(turn, moment, here.clock())
            refused = not turn.allowed
        if refused:
            raise TooMany(retry_after=WINDOW_SECONDS - int(moment) % WINDOW_SECONDS)
        if form and caller.origins and origin not in caller.origins:
            raise Forbidden("this key is for forms of other sites", "origin_not_allowed")
        return None

    app.before_request(lambda: admit(request._get_current_object()))  # type: ignore[attr-defined]
    return admit


def _check_query(sent: str) -> None:
    if not sent.isascii():
        try:
            sent.encode("latin-1").decode()
        except UnicodeError:
            raise Malformed("the query is not UTF-8", "malformed_query") from None


def _bearer(environ: dict[str, Any]) -> str:
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _preflight(origin: str | None) -> Response:
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


def _limit_headers(turn: RateLimit, moment: float, wall: float) -> tuple[tuple[str, str], ...]:
    return (
        ("X-RateLimit-Limit", str(turn.limit)),
        ("X-RateLimit-Remaining", str(turn.remaining)),
        ("X-RateLimit-Reset", str(turn.reset + round(wall - moment))),
        ("RateLimit-Policy", f'"minute";q={turn.limit};w={WINDOW_SECONDS}'),
        ("RateLimit", f'"minute";r={turn.remaining};t={max(0, turn.reset - int(moment))}'),
    )
