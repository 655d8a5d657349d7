"""The operator's paths, the same on every host: `/livez`, `/readyz`, `/tls-ask`, `/doctor`.

They come before any tenant is looked for, need no key and no session, and are not counted.
Strangers may read them, so a reason is one word, and the log says more.
"""

from typing import Any
from urllib.parse import parse_qs

from werkzeug.wrappers import Response

from crm.api.admission import request_id
from crm.copies import integrity
from crm.errors import TenantUnavailable
from crm.installation.readiness import Readiness, is_served_host
from crm.installation.tenants import Tenants
from crm.json import dumps
from crm.log import ROUTE
from crm.networks import parse_address

LIVE, READY, TLS_ASK, DOCTOR = PATHS = "/livez", "/readyz", "/tls-ask", "/doctor"
RETRY_AFTER = "5"  # seconds


def answer(environ: dict[str, Any], tenants: Tenants, readiness: Readiness) -> Response | None:
    """Respond to a GET or HEAD of one of PATHS; None to any other method.

    `/readyz`: 200, or 503 with a `reason`; 200 with the status `degraded` while files of
    tenants that were requested lately cannot be used, with their number.
    `/tls-ask?domain=`: 200 when the domain leads to a tenant or to the base host, else 404;
    other machines get None. `/doctor`: the caller's address and the host as they arrive here,
    only for a caller with a token of the data folder.
    """
    path = environ["PATH_INFO"]
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return None
    if path == READY:
        state = readiness.state(tenants)
        if state.problem:
            return _respond(environ, 503, "unavailable", reason=state.problem)
        if count := state.unavailable:
            reason = TenantUnavailable.code
            return _respond(environ, 200, "degraded", reason=reason, tenants=count)
    elif path == TLS_ASK:
        if not _is_from_this_machine(environ):
            return None
        query = parse_qs(environ.get("QUERY_STRING", ""))
        if not is_served_host(tenants, query.get("domain", [""])[0]):
            return _respond(environ, 404, "unknown")
    elif path == DOCTOR:
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme != "Bearer" or not integrity.is_doctor_token(tenants, token):
            return None
        # As the proxies pass them on; `forwarded`: their X-Forwarded-For.
        caller = {
            "address": environ.get("REMOTE_ADDR", ""),
            "scheme": environ.get("wsgi.url_scheme", ""),
            "host": environ.get("HTTP_HOST", ""),
            "forwarded": environ.get("HTTP_X_FORWARDED_FOR", ""),
        }
        return _respond(environ, 200, "ok", **caller)
    return _respond(environ, 200, "ok")


def _respond(environ: dict[str, Any], code: int, status: str, **more: str | int) -> Response:
    environ[ROUTE] = environ["PATH_INFO"]
    response = Response(dumps({"status": status, **more}), code, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"  # a stored one would hide an outage
    response.headers["X-Request-Id"] = request_id(environ)
    if code == 503:
        response.headers["Retry-After"] = RETRY_AFTER
    return response


def _is_from_this_machine(environ: dict[str, Any]) -> bool:
    """Whether the request comes from a proxy on this machine itself, not through it."""
    if "HTTP_X_FORWARDED_FOR" in environ:
        return False
    address = parse_address(environ.get("REMOTE_ADDR", ""))  # a Unix socket has none
    if address is None:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
