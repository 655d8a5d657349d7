"""Before and after every operation: the tenant, the key, the limit, and the headers that tell.

Order (D12, D13): unknown host 404 before anything else, preflight uncounted, key 401, limit 429.
"""

from flask import Flask, Response, g, request
from werkzeug.datastructures import Headers

from crm.access import api_keys
from crm.access.limits import Limiter, Turn
from crm.config import Config
from crm.errors import Forbidden, TooMany, Unauthorized
from crm.rest.problems import request_id
from crm.tenancy.database import visiting
from crm.tenancy.tenants import UnknownTenant

API = "/api/"
EXPOSED = "Location, Retry-After, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"


def install(app: Flask, config: Config, limiter: Limiter) -> None:
    """Put admission in front of all operations of the app."""

    def admit() -> Response | None:
        here = visiting()
        if here is None:
            raise UnknownTenant
        if not request.path.startswith(API):
            return None
        view = app.view_functions.get(request.endpoint or "")
        if getattr(view, "public", False):
            return None
        origin = request.headers.get("Origin")
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return _preflight(origin)
        moment = here.clock()
        try:
            caller = g.caller = api_keys.authenticate(_bearer())
        except Unauthorized:
            if limiter.failed(request.remote_addr or "", moment):
                raise TooMany(
                    "too many requests with a bad key from this address", retry_after=60
                ) from None
            raise
        form = caller.is_form
        limit = config.plans[caller.plan]
        if limit:
            turn = g.turn = limiter.take(here.label, limit, moment, form)
            if not turn.allowed:
                raise TooMany(retry_after=max(1, turn.reset - int(moment)))
        if form and caller.origins:
            if origin not in caller.origins:
                raise Forbidden("this key is for forms of other sites", "origin_not_allowed")
            g.origin = origin
        return None

    def sign_off(response: Response) -> Response:
        headers = response.headers
        headers["X-Request-Id"] = request_id()
        turn = g.get("turn")
        if turn is not None:
            _tell_limit(headers, turn, int(visiting().clock()))
        origin = g.get("origin")
        if origin is not None:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = EXPOSED
            headers.add("Vary", "Origin")
        return response

    app.before_request(admit)
    app.after_request(sign_off)


def _bearer() -> str:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _preflight(origin: str | None) -> Response:
    response = Response(status=204)
    response.headers["Vary"] = "Origin"
    if origin and origin in api_keys.form_origins():
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = (
            "Authorization, Content-Type, Idempotency-Key, X-Request-Id"
        )
        response.headers["Access-Control-Max-Age"] = "600"
    return response


def _tell_limit(headers: Headers, turn: Turn, moment: int) -> None:
    left = max(0, turn.reset - moment)
    headers["X-RateLimit-Limit"] = str(turn.limit)
    headers["X-RateLimit-Remaining"] = str(turn.remaining)
    headers["X-RateLimit-Reset"] = str(turn.reset)
    headers["RateLimit-Policy"] = f'"minute";q={turn.limit};w=60'
    headers["RateLimit"] = f'"minute";r={turn.remaining};t={left}'

