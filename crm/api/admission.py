"""Before every operation and page: the tenant, the key, the rate limit, and response headers.

Order (D12, D13): unknown host 404 before anything else, preflight uncounted, key 401, limit 429.
The headers of every response are put into a list of the environ and added as the response starts:
through werkzeug's Headers they would take a tenth of a request's time.
"""

import math
from base64 import b64decode
from collections.abc import Callable
from random import getrandbits
from typing import Any
from urllib.parse import unquote_to_bytes

from flask import Flask, Request, Response, request
from werkzeug.exceptions import BadRequest, LengthRequired

from crm.access import api_keys, rights
from crm.api.request_limits import Limiter
from crm.config import Config
from crm.errors import Forbidden, Malformed, TooMany, Unauthorized, UnknownTenant
from crm.log import REQUEST_ID, ROUTE, mask_secrets
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
            caller = rights.authenticate(read_key(environ))
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


def read_key(environ: dict[str, Any]) -> str:
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
