"""The whole service as a WSGI app: create_app() connects its parts."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

from flask import Request, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import Rule
from werkzeug.wrappers import Response as BaseResponse

from crm import cabinet, log, resources
from crm.alerts.kinds import EMAIL, TELEGRAM
from crm.alerts.sender import AlertSender
from crm.alerts.telegram_chats import TelegramReceiver
from crm.api import admission, docs, health, mcp, oauth, problems
from crm.api.openapi import Api
from crm.api.operations import MAX_JSON_BODY_BYTES, Routes
from crm.api.request_limits import Limiter
from crm.cabinet import alerts
from crm.cabinet import errors as pages_of_errors
from crm.cabinet.app import CabinetApp
from crm.cabinet.login.authentication import BY_IP_ADDRESS
from crm.config import LABEL, Config
from crm.errors import Busy, Outdated, TenantUnavailable, UnknownTenant
from crm.installation.hosts import is_host, is_ip_address
from crm.installation.readiness import Readiness
from crm.installation.secret_key import KEY_BYTES
from crm.installation.tenants import Tenants, TenantSessionContext
from crm.messages import mail, sms
from crm.messages.queue import MessageQueue
from crm.messages.telegram import Telegram
from crm.outbox.sender import Sender
from crm.resources.inbound import endpoints as inbound_hooks
from crm.storage.engine import BASE_HOST_FILE
from crm.storage.session import current_session, session_or_none

TENANT = "crm.tenant"  # a key of the environ, which no client can set
# A path that the app is mounted at: without characters to escape, and not to another host.
MOUNT_POINT = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+\Z")
NOT_PAGES = (admission.API, f"{inbound_hooks.PATH}/")
NO_SNIFFING_HEADER = ("X-Content-Type-Options", "nosniff")
# For this host only: others below the domain may have no TLS, or not belong to the CRM.
HTTPS_ONLY_HEADER = ("Strict-Transport-Security", f"max-age={365 * 86_400}")


class CRMRequest(Request):
    """A request that lets go of its body when it is answered."""

    def close(self) -> None:
        """Free the body, called by Flask: rendered pages, and errors of unknown paths, are in
        cycles with their request.
        """
        super().close()
        environ = self.environ
        vars(self).clear()  # its form, its files, and whatever else was made of the body
        self.environ = environ
        environ.pop("wsgi.input", None)


class LazyRule(Rule):
    """A rule whose builder of URLs is compiled when it is used.

    Werkzeug compiles those of all rules at once, a fifth of the start (0.15 s), and nearly none is
    used. This hook is private: without it the start is slower again.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compile_builder, builder = super()._compile_builder, None

        def build(_: Rule, **values: Any) -> tuple[str, str]:
            nonlocal builder
            builder = builder or compile_builder(append_unknown)
            return builder(self, **values)

        return build


class CRMApp(CabinetApp):
    """The Flask app; each request to a tenant's host runs in a session of that tenant."""

    request_class = CRMRequest
    url_rule_class = LazyRule
    readiness: Readiness
    api: Api
    admit: Callable[[Request], Response | None]
    sender: Sender | None  # None if this app does not deliver webhooks
    # Puts what trusted proxies say of a request into its environ, and returns that.
    read_proxy_headers: Callable[..., Any] = staticmethod(lambda environ: environ)

    @property
    def secret_key(self) -> bytes:  # type: ignore[override]
        """The key that signs forms; read when the first one is shown.

        Pages must be shown even while the disk is full and the key cannot be stored, or its
        database is away: then it is a key of this process, and forms signed with it must be
        reloaded later.
        """
        try:
            return self._stored_key
        except (OSError, Busy, TenantUnavailable):
            return self._temporary_key

    @cached_property
    def _stored_key(self) -> bytes:
        return self.tenants.secret_key()

    @cached_property
    def _temporary_key(self) -> bytes:
        return secrets.token_bytes(KEY_BYTES)

    def wsgi_app(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        if environ.get("SCRIPT_NAME"):
            self._check_mount(environ)
        if not log.requests.isEnabledFor(logging.INFO):
            return self._respond(environ, start_response)
        logged = log.LoggedRequest(environ, start_response)
        try:
            return logged.wrap(self._respond(environ, logged.start))
        except BaseException:
            logged.close()
            raise

    def _respond(
        self, environ: dict[str, Any], start_response: Callable, can_begin_again: bool = True
    ) -> Iterable[bytes]:
        extra_headers = [NO_SNIFFING_HEADER]
        if environ["wsgi.url_scheme"] == "https" and not environ.get("SCRIPT_NAME"):
            extra_headers.append(HTTPS_ONLY_HEADER)  # below a mount point the host is a site's, too

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, headers + extra_headers, *exc_info)

        if environ.get("PATH_INFO") in health.PATHS:
            response = health.answer(environ, self.tenants, self.readiness)
            if response is not None:
                return response(environ, start)
        environ[admission.EXTRA_HEADERS] = extra_headers
        self.start()
        # A session that an embedding site has opened goes on after the request.
        can_begin_again &= environ["REQUEST_METHOD"] == "GET" and session_or_none() is None
        session = self._open_session(environ)
        if session is not None:
            environ[log.TENANT] = session.label
        try:
            if environ["PATH_INFO"].startswith(NOT_PAGES):
                route = self.routes.find(environ["REQUEST_METHOD"], environ["PATH_INFO"])
                if route is not None:
                    if session is not None:
                        current_session().reader.can_begin_again = can_begin_again
                    return self._answer_operation(*route, environ, start)
            return super().wsgi_app(environ, start)
        except Outdated:
            pass
        finally:
            if session is not None:
                session.end()
        return self._respond(environ, start_response, can_begin_again=False)

    def max_body_bytes(self, environ: dict[str, Any]) -> int:
        """Return how much of a request's body its page or operation reads at most, by the head.

        One byte more than allowed, which shows that a body is too long; 0 where nothing reads it,
        as for unknown hosts. Asked by the server while the body is on its way: waits for nothing.
        """
        environ = self.read_proxy_headers(environ.copy())
        label = self._find_label(environ)
        if label is None or not self.tenants.may_exist(label):
            return 0
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if route := self.routes.find(method, path):
            view = route[1]
        else:
            try:
                endpoint, _ = self.url_map.bind("").match(path, method)
            except HTTPException:
                return 0
            view = self.view_functions[endpoint]
        return getattr(view, "max_body_bytes", MAX_JSON_BODY_BYTES) + 1

    def changes_record(self, environ: dict[str, Any]) -> bool:
        """Return whether a request changes one record, which the storage may commit with others."""
        route = self.routes.find(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        operation = getattr(route[1], "operation", None) if route else None
        return operation is not None and operation.changes_record

    def _answer_operation(
        self, rule: Rule, view: Any, ids: list[str], environ: dict[str, Any], start: Callable
    ) -> Iterable[bytes]:
        """Answer a request of an operation, or of an inbound hook, without Flask's contexts."""
        api_request = self.request_class(environ)
        api_request.url_rule = rule
        try:
            try:
                try:
                    response = self.admit(api_request) or view.serve(api_request, ids)
                finally:
                    if session_or_none() is not None:
                        current_session().reader.check_remembered()
            except Exception as error:
                response = problems.answer(error, api_request)
            return response(environ, start)
        finally:
            api_request.close()

    @cached_property
    def routes(self) -> Routes:
        """The rules of the operations and of inbound hooks."""
        views = ((rule, self.view_functions[rule.endpoint]) for rule in self.url_map.iter_rules())
        return Routes((rule, view) for rule, view in views if hasattr(view, "serve"))

    def start(self) -> "CRMApp":
        """Start the sender of webhooks, if there is one: a server that forks has done so by now."""
        if self.sender is not None and not self.sender.started:
            self.sender.start()
        return self

    def log_exception(self, exc_info: Any) -> None:
        """The error handler itself failed; log it without the path, which Flask's line names."""
        problems.log_unexpected(exc_info[1], request)

    def stop_background_work(self) -> None:
        """Prepare for the end of the process: claim no more deliveries, write all log lines."""
        log.stop_batching()
        if self.sender is not None:
            self.sender.stop()

    def _check_mount(self, environ: dict[str, Any]) -> None:
        """Remove a mount point from the environ that is not a plain path or comes from a client.

        It may come from X-Forwarded-Prefix of a trusted proxy, and under gunicorn also from a
        header SCRIPT_NAME, for which gunicorn has taken it off the path.
        """
        root = environ["SCRIPT_NAME"]
        header = environ.get("HTTP_SCRIPT_NAME", "").split(",")  # joined, if there are several
        if root in header and not self.tenants.config.trusted_proxies:
            environ["PATH_INFO"] = root + environ.get("PATH_INFO", "")
            environ["SCRIPT_NAME"] = ""
        else:
            environ["SCRIPT_NAME"] = read_mount_point(environ)

    def _open_session(self, environ: dict[str, Any]) -> TenantSessionContext | None:
        """Open the session of the tenant that the Host header, or the embedding site, names.

        If that fails, store the error in the environ for the response, and return None.
        """
        try:
            label = self._find_label(environ)
            if label is None:
                raise UnknownTenant
            session = self.tenants.session(label)
            # Servers that do not read chunks, such as uWSGI, do not send them either.
            session.__enter__().streams_responses = (
                environ.get("SERVER_PROTOCOL") == "HTTP/1.1" and "wsgi.input_terminated" in environ
            )
        except Exception as error:
            environ[admission.REFUSED] = error
            session = None
        host = environ.get("HTTP_HOST", "")
        accepts_any_host = self.tenants.config.tenant or TENANT in environ
        if session is None or (accepts_any_host and not is_host(host)):
            # Links are built from the host, which may be anything here.
            environ["HTTP_HOST"] = self.tenants.config.base_domain
        return session

    def _find_label(self, environ: dict[str, Any]) -> str | None:
        """Return the label of the tenant, or of the base host, that a request names, or None.

        An embedding site puts the label into the environ, or a function that returns it.
        """
        if TENANT in environ:
            value = environ[TENANT]
            label = value() if callable(value) else value
            return label if isinstance(label, str) and LABEL.match(label) else None
        host = environ.get("HTTP_HOST", "")
        label = self.tenants.label_of(host)
        if label is None and is_ip_address(host):
            # The machine's own address shows the base host's page, and never a tenant.
            label, environ[BY_IP_ADDRESS] = BASE_HOST_FILE, True
        if label == BASE_HOST_FILE and environ["PATH_INFO"].startswith(NOT_PAGES):
            return None  # it has pages and no API
        return label


class TrustedProxies(ProxyFix):
    """Takes the client's address and the host from the headers of proxies.

    A Host with a comma, which a proxy has passed on, is no list of hosts: it stays an unknown one.
    """

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if "," in environ.get("HTTP_HOST", ""):
            environ.pop("HTTP_X_FORWARDED_HOST", None)
        return super().__call__(environ, start_response)


def read_mount_point(environ: dict[str, Any]) -> str:
    """Return the path that the app is mounted at, without a slash at the end.

    Empty unless the server or a proxy names a plain path.
    """
    root = environ.get("SCRIPT_NAME", "").removesuffix("/")
    return root if MOUNT_POINT.match(root) else ""


def _answer_error(error: Exception) -> BaseResponse:
    """Answer an error by the path: problem details for the API, pages for people."""
    if request.path.startswith(admission.API):
        return problems.answer(error, request)
    return pages_of_errors.answer(error)


def create_app(
    config: Config | None = None,
    clock: Callable[[], float] = time.time,
    sends: bool = True,
    shows_codes: bool = False,
) -> CRMApp:
    """Return the whole service as a WSGI app. Without `config`, settings come from the environment.

    `clock` returns epoch seconds. If `sends`, webhooks are delivered from the first request on, or
    from `app.sender.start()`. `shows_codes`, for a demo only: pages show the codes sent by SMS.
    No file is touched before a request. Raises ConfigError for a setting that cannot work.
    """
    config = config or Config.load()
    app = CRMApp("crm", static_folder=None)
    app.config.update(TRAP_HTTP_EXCEPTIONS=False, PROPAGATE_EXCEPTIONS=False)
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # never a redirect
    app.tenants = Tenants(config, clock)
    app.limiter = Limiter(app.tenants.counters)
    app.readiness = Readiness()
    mail_sender = mail.create_mail_sender(config)
    app.telegram = Telegram(config.telegram_token, config.telegram_api)
    channels: dict[str, Any] = {EMAIL: mail_sender.send} if config.mail else {}
    receiving: Any = nullcontext
    if config.telegram_token:
        channels[TELEGRAM] = app.telegram.send
        answer = partial(alerts.answer_in_telegram, app)
        receiving = TelegramReceiver(app.tenants, app.telegram, answer).receiving
    write_message = partial(alerts.write_message, app)
    alert_sender = AlertSender(app.tenants, channels, write_message, receiving)
    app.sender = Sender(app.tenants, alerts=alert_sender) if sends else None

    app.admit = admission.install(app, config, app.limiter)
    api = app.api = Api(app)
    resources.register(api)
    docs.install(app, api, config)
    mcp.install(app)
    oauth.install(app)
    inbound_hooks.install(app, app.limiter)
    senders = sms.create_sms_sender(config), mail_sender
    cabinet.install(app, config, MessageQueue(*senders, keeps_texts=shows_codes))
    for kind in (HTTPException, Exception):  # of the first flask-smorest has registered its own
        app.register_error_handler(kind, _answer_error)

    if config.trusted_proxies:
        hops = config.trusted_proxies
        trust = partial(TrustedProxies, x_for=hops, x_proto=hops, x_host=hops, x_prefix=hops)
        app.wsgi_app = trust(app.wsgi_app)  # type: ignore[method-assign]
        return_environ: Any = lambda environ, _: environ  # noqa: E731
        app.read_proxy_headers = partial(trust(return_environ), start_response=None)
    return app
