"""The operator's paths, the same on every host: `/livez`, `/readyz`, `/tls-ask`, `/doctor`.

They come before any tenant is looked for, need no key and no session, and are not counted.
Strangers may read them, so a reason is one word, and the log says more.
"""

from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from werkzeug.wrappers import Response

from crm.api.problems import request_id
from crm.errors import TenantUnavailable
from crm.json import dumps
from crm.log import ROUTE
from crm.tenancy import integrity
from crm.tenancy.readiness import Readiness, is_served_host
from crm.tenancy.tenants import Tenants

LIVE, READY, TLS_ASK, DOCTOR = PATHS = "/livez", "/readyz", "/tls-ask", "/doctor"
RETRY_AFTER = "5"  # seconds


class Health:
    """Answers the operator's paths."""

    def __init__(self) -> None:
        self._readiness = Readiness()

    def answer(self, environ: dict[str, Any], tenants: Tenants) -> Response | None:
        """The answer to a GET or HEAD of one of PATHS; None: it is a request like any other.

        `/readyz`: 200, or 503 with a `reason`; 200 with the status `degraded` while files of
        tenants that were asked for lately cannot be used, and how many those are.
        `/tls-ask?domain=`: 200 when the domain leads to a tenant or to the base host, else 404;
        strangers who ask find nothing there. `/doctor`: as whom and where the caller is seen; only
        who shows a pass of the data folder finds it.
        """
        path = environ.get("PATH_INFO", "")
        if path not in PATHS or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return None
        if path == READY:
            reason = self._readiness.problem(tenants)
            if reason:
                return _said(environ, 503, "unavailable", reason=reason)
            if count := self._readiness.unavailable:
                reason = TenantUnavailable.code
                return _said(environ, 200, "degraded", reason=reason, tenants=count)
        elif path == TLS_ASK:
            if not _is_of_this_machine(environ):
                return None
            query = parse_qs(environ.get("QUERY_STRING", ""))
            if not is_served_host(tenants, query.get("domain", [""])[0]):
                return _said(environ, 404, "unknown")
        elif path == DOCTOR:
            scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            if scheme != "Bearer" or not integrity.is_doctor_token(tenants, token):
                return None
            return _said(environ, 200, "ok", **_seen(environ))
        return _said(environ, 200, "ok")


def _said(environ: dict[str, Any], code: int, status: str, **more: str | int) -> Response:
    environ[ROUTE] = environ["PATH_INFO"]
    answer = Response(dumps({"status": status, **more}), code, mimetype="application/json")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Request-Id"] = request_id(environ)
    if code == 503:
        answer.headers["Retry-After"] = RETRY_AFTER
    return answer


def _seen(environ: dict[str, Any]) -> dict[str, str]:
    """What the proxies in front made of a request; `forwarded`: what they say themselves."""
    return {
        "address": environ.get("REMOTE_ADDR", ""),
        "scheme": environ.get("wsgi.url_scheme", ""),
        "host": environ.get("HTTP_HOST", ""),
        "forwarded": environ.get("HTTP_X_FORWARDED_FOR", ""),
    }


def _is_of_this_machine(environ: dict[str, Any]) -> bool:
    """Does the proxy itself ask, and not somebody through it?"""
    if "HTTP_X_FORWARDED_FOR" in environ:
        return False
    try:
        found = ip_address(environ.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
