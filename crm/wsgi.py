"""The whole service as a WSGI app: the wiring, in reading order."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from flask import (
    Flask,
    Request,
    Response,
    appcontext_tearing_down,
    request,
    request_tearing_down,
)
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import MapAdapter

from crm import cabinet, log, resources
from crm.access.limits import Limiter
from crm.api import admission, docs, problems
from crm.api.health import Health
from crm.api.openapi import Api
from crm.cabinet import errors as pages_of_errors
from crm.cabinet.authentication import BY_IP_ADDRESS
from crm.config import LABEL, Config
from crm.messages import mail, sms
from crm.messages.queue import MessageQueue
from crm.outbox.sender import Sender
from crm.tenancy.files import UnknownTenant
from crm.tenancy.tenants import (
    FRONT,
    KEY_BYTES,
    Tenants,
    TenantSessionContext,
    is_host,
    is_ip_address,
)

TENANT = "crm.tenant"  # in the environ, where no client can put anything
# Where the app is mounted: nothing that would have to be escaped, or lead to another host.
MOUNT_POINT = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+\Z")
NO_SNIFFING_HEADER = ("X-Content-Type-Options", "nosniff")
# Of this host alone: others below the domain need not be the CRM's, nor have TLS.
HTTPS_ONLY_HEADER = ("Strict-Transport-Security", f"max-age={365 * 86_400}")


class CRMRequest(Request):
    """A request whose reader says how long its body may be. Flask 3.0 has no setter for that."""

    max_content_length: int | None = None


class CRMApp(Flask):
    """The Flask app; every request to a tenant's host is a visit to that tenant's file."""

    request_class = CRMRequest
    tenants: Tenants
    health: Health
    message_queue: MessageQueue
    admit: Callable[[Request], Response | None]
    sender: Sender | None  # None when this app doesn't deliver webhooks

    @property
    def secret_key(self) -> bytes:
        """What signs forms; read when one is shown, not when the app is made.

        Pages must also be shown while the disk has no room for it: then it is one of this process,
        and the forms signed with it are to be reloaded later.
        """
        try:
            return self._lasting_key
        except OSError:
            return self._passing_key

    @cached_property
    def _lasting_key(self) -> bytes:
        return self.tenants.secret_key()

    @cached_property
    def _passing_key(self) -> bytes:
        return secrets.token_bytes(KEY_BYTES)

    def wsgi_app(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        if environ.get("SCRIPT_NAME"):
            self._check_mount(environ)
        if not log.requests.isEnabledFor(logging.INFO):
            return self._respond(environ, start_response)
        measured = log.LoggedRequest(environ, start_response)
        try:
            return measured.sending(self._respond(environ, measured.start))
        except BaseException:
            measured.close()
            raise

    def _respond(self, environ: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        told = [NO_SNIFFING_HEADER]
        if environ["wsgi.url_scheme"] == "https" and not environ.get("SCRIPT_NAME"):
            told.append(HTTPS_ONLY_HEADER)  # below a mount point the host is somebody else's too

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, headers + told, *more)

        answer = self.health.answer(environ, self.tenants)
        if answer is not None:
            return answer(environ, start)
        environ[admission.TOLD] = told
        self.begin()
        stay = self._arrive(environ)
        if stay is not None:
            environ[log.TENANT] = stay.label
        try:
            return super().wsgi_app(environ, start)
        finally:
            if stay is not None:
                stay.end()

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Route requests of the API by their path alone: it builds no addresses of hosts."""
        if (
            request is None
            or not request.path.startswith(admission.API)
            or "HTTP_UPGRADE" in request.environ  # a WebSocket is another route
        ):
            return super().create_url_adapter(request)
        root, path, method = request.root_path, request.path, request.method
        return MapAdapter(self.url_map, "", root, "", request.scheme, path, method)

    def full_dispatch_request(self) -> Any:
        """Admit and answer a request of the API; a page goes Flask's whole way.

        The API has no session and no hooks, and a signal for every request would cost 8 %.
        """
        asked = request._get_current_object()
        if not asked.path.startswith(admission.API):
            return super().full_dispatch_request()
        try:
            if (refused := self.admit(asked)) is not None:
                return refused
            if asked.url_rule is None or asked.method == "OPTIONS":
                return self.dispatch_request()
            return self.view_functions[asked.url_rule.endpoint](**asked.view_args)
        except Exception as error:
            return self.handle_user_exception(error)

    def do_teardown_request(self, exc: BaseException | None = None) -> None:
        """Tear down if anybody asked for it; to go through Flask's lists takes 5 % of a GET."""
        if self.teardown_request_funcs or request_tearing_down.receivers:
            super().do_teardown_request(exc)

    def do_teardown_appcontext(self, exc: BaseException | None = None) -> None:
        """As do_teardown_request()."""
        if self.teardown_appcontext_funcs or appcontext_tearing_down.receivers:
            super().do_teardown_appcontext(exc)

    def begin(self) -> None:
        """Deliver webhooks from now on, if it does: a server that forks has done so by now."""
        if self.sender is not None and not self.sender.started:
            self.sender.start()

    def log_exception(self, exc_info: Any) -> None:
        """An error in the telling of another; Flask's own line would name the path."""
        problems.tell_operator(exc_info[1])

    def leave(self) -> None:
        """The process is about to end: begin no delivery any more, and keep no line of the log."""
        log.stop_batching()
        if self.sender is not None:
            self.sender.stop()

    def _check_mount(self, environ: dict[str, Any]) -> None:
        """Forget a mount point that is no plain path, or is the word of a client.

        It may come from X-Forwarded-Prefix, of a trusted proxy, and under gunicorn also from a
        header SCRIPT_NAME, for which gunicorn has taken it off the path.
        """
        root = environ["SCRIPT_NAME"]
        said = environ.get("HTTP_SCRIPT_NAME", "").split(",")  # joined, if there are several
        if root in said and not self.tenants.config.trusted_proxies:
            environ["PATH_INFO"] = root + environ.get("PATH_INFO", "")
            root = ""
        else:
            root = read_mount_point(environ)
        environ["SCRIPT_NAME"] = root

    def _arrive(self, environ: dict[str, Any]) -> TenantSessionContext | None:
        """Begin the visit to the tenant of the Host header, or of whom embeds the app; or note why
        there is none."""
        host = environ.get("HTTP_HOST", "")
        stay = None
        try:
            label = (
                _read_label(environ[TENANT]) if TENANT in environ else self.tenants.label_of(host)
            )
            if label is None and TENANT not in environ and is_ip_address(host):
                # The machine's own address has the base host's page, and never a tenant.
                label, environ[BY_IP_ADDRESS] = FRONT, True
            at_front = label == FRONT  # which has pages and no API
            if label is None or (at_front and environ["PATH_INFO"].startswith(admission.API)):
                raise UnknownTenant
            stay = self.tenants.session(label)
            stay.__enter__()
        except Exception as refused:
            environ[admission.REFUSED] = refused
            stay = None
        any_host = self.tenants.config.tenant or TENANT in environ
        if stay is None or (any_host and not is_host(host)):
            environ["HTTP_HOST"] = self.tenants.config.base_domain  # whatever it was, not read
        return stay


def read_mount_point(environ: dict[str, Any]) -> str:
    """Where the server or a proxy says that the app is mounted, without a slash at the end; empty
    unless it is a plain path."""
    root = environ.get("SCRIPT_NAME", "").removesuffix("/")
    return root if MOUNT_POINT.match(root) else ""


def _read_label(told: Any) -> str | None:
    """The label that whoever embeds the app has put into the environ, or a function that gives it.
    None unless it could be a tenant's."""
    label = told() if callable(told) else told
    return label if isinstance(label, str) and LABEL.match(label) else None


def _answer_error(error: Exception) -> Response:
    """The one handler of errors decides by the path: problems for the API, pages for people."""
    by = problems if request.path.startswith(admission.API) else pages_of_errors
    return by.answer(error)


def create_app(
    config: Config | None = None,
    clock: Callable[[], float] = time.time,
    sends: bool = True,
    shows_codes: bool = False,
) -> CRMApp:
    """The whole service as a WSGI app. Settings come from the environment unless given.

    It delivers webhooks from its first request on, or from `app.sender.start()`, if `sends`.
    `shows_codes`, for a demo only: the pages show what was sent by SMS.
    Raises ConfigError for a setting that can't work. No file is touched before a request.
    """
    config = config or Config.load()
    app = CRMApp("crm", static_folder=None)
    app.config.update(TRAP_HTTP_EXCEPTIONS=False, PROPAGATE_EXCEPTIONS=False)
    app.url_map.strict_slashes = app.url_map.merge_slashes = False  # never a redirect
    app.tenants = Tenants(config, clock)
    app.limiter = Limiter(app.tenants.counters)
    app.health = Health()
    app.sender = Sender(app.tenants) if sends else None

    app.admit = admission.install(app, config, app.limiter)
    api = app.api = Api(app)
    resources.register(api)
    docs.install(app, api)
    cabinet.install(
        app,
        config,
        MessageQueue(
            sms.create_sms_sender(config), mail.create_mail_sender(config), keeps_texts=shows_codes
        ),
    )
    app.register_error_handler(Exception, _answer_error)

    if config.trusted_proxies:
        hops = config.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=hops, x_proto=hops, x_host=hops, x_prefix=hops)
    return app
