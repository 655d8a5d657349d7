"""Authentication of pages: sessions and cookies, required roles, and security headers.

A session is a row in the tenant's file, found by a random cookie of this host alone. Pages are not
cached, run no script but our one file, and send forms only to their own host.

Hidden tokens of forms are valid for one tenant and one session. Flask-WTF makes and checks them, by
a random text in the signed cookie of forms. The key of their signature is made for the tenant's
label and the session, so that a token from another tenant, from before a login or from after a
logout is refused even when its cookie came along with it: hosts of one domain can set each other's
cookies unless they are served by https.
"""

import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from flask import Flask, g, redirect, request, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFError, generate_csrf, same_origin, validate_csrf
from werkzeug.wrappers import Response

from crm.access import known_browsers, sessions
from crm.api.admission import API
from crm.api.bodies import InMemory, parse_form_in_files, read_body
from crm.cabinet.app import current_app
from crm.cabinet.compression import compress
from crm.cabinet.login import embedded_login
from crm.cabinet.rendering import BASE_HOST, RANK, TENANT
from crm.config import Config
from crm.errors import CRMError, Forbidden, NotFound
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.session import current_session, session_or_none

STATIC = "cabinet.static"
BY_IP_ADDRESS = "crm.by_ip_address"  # in the environ: the Host header is the machine's address
AT_IP_ADDRESS = ("/", "/open", "/language")  # paths of the base host served there, too
TOKEN_FIELD = "csrf_token"
BEFORE_PAGE_ID = "~"  # in the token's field, which is in every form
PAGE_ID_BYTES = 9
MORE_PARTS = 4  # of a form with files, besides these
COOKIE, FORM_COOKIE, KNOWN_COOKIE = "crm_session", "crm_form", "crm_known"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " manifest-src 'self'; connect-src 'self'; form-action 'self'{forms}; frame-ancestors 'none';"
    " base-uri 'none'"
)


def install(app: Flask, config: Config) -> None:
    """Check sessions, roles and form tokens before each page; the API has its own checks."""
    app.session_interface = _FormCookie()
    app.config.update(
        SESSION_COOKIE_SAMESITE="Lax", WTF_CSRF_FIELD_NAME=TOKEN_FIELD, WTF_CSRF_TIME_LIMIT=None
    )
    app.jinja_env.globals["csrf_token"] = _make_token
    # A form of the base host leads to a tenant's host, which browsers count as its target.
    forms = {TENANT: "", BASE_HOST: f" {config.url_of('*')}"}

    def check_request() -> Response | None:
        if request.endpoint == STATIC:
            return None
        visited = current_session()
        g.place = BASE_HOST if visited.label == BASE_HOST_FILE else TENANT
        g.session = None
        token = g.session_token = request.cookies.get(cookie_name(), "")
        view: Any = app.view_functions.get(request.endpoint or "")
        if view is None or not hasattr(view, "at"):
            # No such page: Flask answers 404, with the menu if there is a session. The site's
            # `current_user` is called only for pages that exist.
            if g.place == TENANT:
                with suppress(CRMError):
                    g.session = sessions.find(token)
            return None
        if g.place not in view.at:
            raise NotFound
        if BY_IP_ADDRESS in request.environ and request.path not in AT_IP_ADDRESS:
            # Codes and cookies belong to the base host, so a sign-up goes on there.
            return redirect(f"{config.base_url}{request.path}", 303)
        if g.place == TENANT:
            site = request.environ.get(embedded_login.SITE)
            g.session = embedded_login.find_session(site) if site else None
            if not g.session and token:
                g.session = sessions.find(token)
        if g.session:
            sessions.act_as(g.session.user_id, g.session.role)
        session_id = g.session.id if g.session else None
        # Counted before the login and the role are checked, so that refused pages are limited, too.
        moment = visited.source.steady_clock.uptime()
        address, is_file = request.remote_addr or "", view.is_file
        current_app.limiter.count_page(visited.label, session_id, address, moment, is_file)
        if not g.session and view.role:
            # Only a page that GET opens can be returned to after the login.
            back = request.full_path.rstrip("?") if request.method == "GET" else "/"
            return redirect(url_for("login_pages.login_page", next=back))
        if view.role and RANK[g.session.role] < RANK[view.role]:
            raise Forbidden("your role does not allow this", "missing_scope")
        if request.method == "POST":
            # Read only after the checks: a refused visitor cannot make the server hold a body.
            if view.max_files:
                parse_form_in_files(request, view.max_body_bytes, view.max_files + MORE_PARTS)
            else:
                read_body(request, view.max_body_bytes)
                request.form_data_parser_class = InMemory
            _check_token()
        return None

    def finish_response(response: Response) -> Response:
        headers = response.headers
        if request.path.startswith(API) or request.endpoint == STATIC:
            return response
        if "Content-Security-Policy" in headers:  # a file that somebody has uploaded
            return response
        place = g.get("place", TENANT)
        site = request.environ.get(embedded_login.SITE)
        site_origins = site.origins() if site else ""
        headers["Content-Security-Policy"] = POLICY.format(forms=forms[place] + site_origins)
        # The path of a one-time link must not reach any log as a referrer, not even our own.
        is_link = "token" in (request.view_args or ())
        headers.setdefault("Referrer-Policy", "strict-origin" if is_link else "same-origin")
        # Pages have personal data: neither a proxy nor the browser of a shared machine may store.
        headers["Cache-Control"] = "no-store"
        if response.status_code == 200:
            compress(response)
        return response

    app.before_request(check_request)
    app.after_request(finish_response)
    app.context_processor(lambda: {"me": g.get("session"), "place": g.get("place", TENANT)})


def _make_token() -> str:
    """The token of the page's forms, and behind it the id of the page (once.py)."""
    if "form_token" not in g:  # each form of a page has it
        page_id = secrets.token_urlsafe(PAGE_ID_BYTES)
        g.form_token = f"{generate_csrf(secret_key=_token_key())}{BEFORE_PAGE_ID}{page_id}"
    return g.form_token


def _check_token() -> None:
    """Raise CSRFError unless the form belongs to this tenant and this session."""
    token, _, g.sent_page_id = request.form.get(TOKEN_FIELD, "").partition(BEFORE_PAGE_ID)
    try:
        validate_csrf(token, secret_key=_token_key())
    except ValueError as error:  # a ValidationError of WTForms
        raise CSRFError(str(error)) from None
    if request.is_secure and not same_origin(request.referrer or "", request.host_url):
        raise CSRFError("The form stood at another site.")


def _token_key() -> bytes:
    """Return the key of signatures, made from the session's cookie: error pages have no session."""
    current, session = session_or_none(), g.get("session")
    by_site = session and session.from_site
    owner = f"user {session.user_id} of the site" if by_site else g.get("session_token", "")
    text = f"form of {current.label if current else ''}/{owner}"
    return hmac.digest(current_app.secret_key, text.encode("utf-8", "surrogatepass"), "sha256")


def cookie_name(name: str = COOKIE) -> str:
    """The name of a cookie of this host alone: under https no other host of the domain can set it.

    Below a URL prefix the cookie belongs to that path, where browsers refuse `__Host-`.
    """
    if not request.is_secure:
        return name
    return f"__Secure-{name}" if request.root_path else f"__Host-{name}"


def cookie_path() -> str:
    """The path of cookies: the URL prefix of the cabinet, or everything."""
    return quote(request.root_path) or "/"


def log_in(response: Response, user_id: int, before: Callable[[], None] = lambda: None) -> Response:
    """Begin a session of the user in this browser, unless `before` refuses it: sessions.open()."""
    token = sessions.open(user_id, request.headers.get("User-Agent", ""), before)
    set_cookie(response, COOKIE, token, sessions.MAX_LIFETIME_SECONDS)
    return remember_browser(response, token)


def remember_browser(response: Response, token: str) -> Response:
    """Set the cookie that marks this browser as known to the user of that session."""
    cookie = known_browsers.make_cookie(current_app.secret_key, token)
    set_cookie(response, KNOWN_COOKIE, cookie, known_browsers.KNOWN_BROWSER_SECONDS)
    return response


def known_browser(user_id: int | None) -> str | None:
    """The name that counts this browser's tries, if it has logged in as the user before."""
    cookie = request.cookies.get(cookie_name(KNOWN_COOKIE), "")
    return known_browsers.identify_browser(current_app.secret_key, cookie, user_id)


def log_out(response: Response) -> Response:
    """Log out: end the session of this browser and remove its cookie."""
    session, token = g.session, request.cookies.get(cookie_name())
    if session and session.from_site:
        session = sessions.find(token or "")  # the cabinet's own, if there is one, too
    if session:
        sessions.end(session.id, session.user_id)
    set_cookie(response, COOKIE, "", 0)
    return response


def set_cookie(response: Response, name: str, value: str, age: int) -> None:
    """Set a cookie of this host; `age` in seconds, 0 removes it."""
    options: dict[str, Any] = {"httponly": True, "samesite": "Lax", "secure": request.is_secure}
    response.set_cookie(cookie_name(name), value, max_age=age, path=cookie_path(), **options)


class _FormCookie(SecureCookieSessionInterface):
    """Flask's signed cookie for values between two pages, as strict as that of the session."""

    def get_cookie_name(self, app: Flask) -> str:
        return cookie_name(FORM_COOKIE)

    def get_cookie_path(self, app: Flask) -> str:
        return cookie_path()

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure
