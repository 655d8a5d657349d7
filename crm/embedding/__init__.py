"""Embedding: the CRM inside a Flask site, and its resources in Python.

The CRM is a Flask app of its own behind the site's `wsgi_app`: error pages, sessions, hooks and
settings of one do not touch the other. The path or the host of a request decides which app gets it.
"""

import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import click
from flask import Flask, Request, Response
from flask import session as site_session
from flask_wtf.csrf import generate_csrf
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.utils import append_slash_redirect

from crm.cabinet.login.embedded_login import SITE, Site, SiteError
from crm.config import LABEL, Config, ConfigError
from crm.embedding.attributes import ResourceAttributes
from crm.errors import NotFound, UnknownTenant, describe_origin
from crm.outbox.callbacks import EXIT_TIMEOUT_SECONDS, Callback, Callbacks
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.storage.session import transaction
from crm.wsgi import MOUNT_POINT, NO_SNIFFING_HEADER, TENANT, CRMApp, create_app, read_mount_point

INSTALLATION_COMMANDS = ("serve", "demo", "config", "systemd", "proxy", "openapi")
FLASK_PORT = 5000  # where `flask run` listens
SITE_USER_FIELDS = ("id", "name", "role", "email", "phone")


class CRM(ResourceAttributes):
    """A CRM in a Flask site: `CRM(app, url_prefix="/crm", tenant="acme")`, or first `CRM(…)` and
    later `init_app(app)`. Without a site: `CRM(data="crm-data")`.

    Its resources are attributes, as `crm.leads`: see crm/embedding/resources.py.

    url_prefix: the path of the CRM, on every host of the site.
    domain: the CRM answers at this host and at one `<label>.<domain>` for each tenant. Give
        url_prefix, domain or both.
    tenant: the tenant below url_prefix: its label, or a function that takes the request and gives a
        label, or None for a 404. Without it the Host header decides, as in an installation.
    current_user: a function that gives the user who is logged in at the site; see `_site_user`.
    login_url: the site's login page, instead of the CRM's own; with domain an absolute URL.
    logout_url: the page after logging out; by default the start page of the site.
    data: the folder of the tenants' files, by default `crm` in the site's instance folder, which
        also is the base of a relative path.
    config: all settings at once. Otherwise give single ones by their names in `Config`:
        `public_url=…`, `mail=…`; the environment's count where none is given.
    sends: deliver webhooks from this process, from its first request on.

    Nothing is written before the first tenant is created or a request arrives.
    Raises ConfigError.
    """

    transaction = staticmethod(transaction)

    def __init__(
        self,
        host_app: Flask | None = None,
        *,
        url_prefix: str | None = None,
        domain: str | None = None,
        tenant: str | Callable[[Request], str | None] | None = None,
        current_user: Callable[[], Any] | None = None,
        login_url: str | None = None,
        logout_url: str | None = None,
        data: str | Path | None = None,
        config: Config | None = None,
        sends: bool = True,
        **settings: Any,
    ):
        self.url_prefix, self.domain = _prefix(url_prefix), None
        self.host_app: Flask | None = None
        self.login_url, self.logout_url = login_url, logout_url
        self._current_user, self._sends = current_user, sends
        self._data, self._config = data, config
        self._settings = Config.read(**settings)
        if domain is not None:
            self.domain = Config.read(base_domain=domain)["base_domain"]
            self._settings["base_domain"] = self.domain
        self._tenant = Config.read(tenant=tenant)["tenant"]  # a function comes back as it is
        if isinstance(self._tenant, str) and not self.domain:
            self._settings["tenant"] = self._tenant
        if config is not None and (data is not None or settings):
            raise ConfigError("config: it has all settings, so give none beside it")
        self.callbacks = Callbacks(
            lambda label: self.app.tenants.session(label),
            # The application context of the site, if there is a site.
            lambda: nullcontext() if self.host_app is None else self.host_app.app_context(),
        )
        if host_app is not None:
            self.init_app(host_app)

    def init_app(self, host_app: Flask) -> None:
        """Put the CRM into the site, once.

        A ProxyFix is to be added after it, so that it serves both. Raises ConfigError, and
        RuntimeError when this CRM is in use already.
        """
        if self.host_app is not None or "app" in vars(self):
            raise RuntimeError("this CRM is in use already: make another one")
        if not self.url_prefix and not self.domain:
            raise ConfigError("url_prefix, domain: say where in the site the CRM is")
        if callable(self._tenant) and not self.url_prefix:
            raise ConfigError("tenant: a function is asked below a url_prefix alone")
        if self.domain and self.login_url and not urlsplit(self.login_url).netloc:
            raise ConfigError("login_url: with a domain it names the site's host, as https://…")
        self.host_app = host_app
        self._add_commands(host_app, self.app.tenants.config)
        host_app.extensions.setdefault("crm", self)
        # Flask's documented place for middleware.
        host_app.wsgi_app = partial(self._serve, host_app.wsgi_app)  # type: ignore[method-assign]

    @cached_property
    def config(self) -> Config:
        """The settings: those given, else the environment's, else the defaults for the site."""
        if self._config is not None:
            return replace(self._config, **self._settings) if self._settings else self._config
        site, given = self.host_app, dict(self._settings)
        defaults: dict[str, Any] = {}
        folder = None if self._data is None else Path(self._data).expanduser()
        if site is not None:
            given.setdefault("trusted_proxies", 0)  # the site has a ProxyFix if it needs one
            defaults["data"] = Path(site.instance_path, "crm").absolute()
            defaults["port"] = FLASK_PORT
            folder = folder and Path(site.instance_path, folder)
        if self.url_prefix and not self.domain:
            given["signup"] = False  # its pages are at the base host, which no request reaches
        given["data"] = folder and folder.absolute()
        config = Config.load(defaults=defaults, **given)
        if site is not None and self.url_prefix and not self.domain:
            defaults["public_url"] = self._public_url(site, config)
            config = Config.load(defaults=defaults, **given)
        return config

    @cached_property
    def app(self) -> CRMApp:
        """The CRM's own WSGI app, also for mounting it by hand. Raises ConfigError."""
        uses_site = callable(self._tenant) or self._current_user is not None or self.login_url
        if uses_site and self.host_app is None:
            raise ConfigError("tenant (a function), current_user, login_url: they need CRM(app, …)")
        app = create_app(self.config, sends=self._sends)
        app.tenants.on_event = self.callbacks.on_event
        return app

    @contextmanager
    def tenant(self, label: str | None = None, *, user: int | str | None = None) -> Iterator[Self]:
        """Work with the data of a tenant: `with crm.tenant("acme"): crm.leads.create(…)`.

        label: may be left out when the CRM was made for one tenant.
        user: id, phone or e-mail of the user who makes the changes, for `created_by`, notes and the
            audit trail.

        Raises NotFound, and what opening the tenant's file may raise: TenantUnavailable,
        StorageFull, Busy.
        """
        label = label or (self._tenant if isinstance(self._tenant, str) else None)
        if label is None:
            raise TypeError("say which tenant is meant")
        if not LABEL.match(label):
            raise NotFound(f"there is no tenant {label}")
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self.app.tenants.session(label))
            except UnknownTenant:
                raise NotFound(f"there is no tenant {label}") from None
            outer_user = session.user_id, session.key_id
            try:
                if user is not None:
                    session.user_id, session.key_id = users.named(str(user)).id, None
                yield self
            finally:
                session.user_id, session.key_id = outer_user

    def create_tenant(
        self,
        label: str,
        *,
        name: str = "",
        plan: str = "business",
        currency: str = "UAH",
        language: str | None = None,
        owner: dict[str, Any] | None = None,
    ) -> None:
        """Create a tenant with its owner and its first pipeline.

        name: of the business. currency: ISO 4217 code of amounts that do not name one.
        language: "uk" or "en", of the first pipeline and of the owner's pages.
        owner: name, phone and email; see users in the specification.

        Raises Invalid, or Conflict `label_taken`.
        """
        about: Any = {"name": name, "plan": plan, "currency": currency, "language": language}
        open_tenant(self.app.tenants, label, owner=owner, **about)

    def on(self, *kinds: str) -> Callable[[Callback], Callback]:
        """A decorator: call the function with every event of these kinds, after the commit.

        `@crm.on("deal.won")`; `"*"` stands for all kinds. The function takes the event as its
        webhook has it; see crm/outbox/callbacks.py. Raises ValueError for an unknown kind.
        """
        return self.callbacks.on(*kinds)

    def close(self) -> None:
        """Close files and stop threads, as a test does at its end.

        Callbacks get the events that are committed, for up to 5 seconds; no webhook and no message
        is sent any more.
        """
        if "app" not in vars(self):
            return
        self.callbacks.wait(EXIT_TIMEOUT_SECONDS)
        self.app.message_queue.close()
        if self.app.sender is not None:
            self.app.sender.close()
        self.app.tenants.forget_idle()
        self.app.tenants.counters.close()

    # Between the server and the site

    def _serve(
        self, site: Callable, environ: dict[str, Any], start_response: Callable
    ) -> Iterable[bytes]:
        self.app.start()
        path, prefix = environ.get("PATH_INFO", ""), self.url_prefix
        host = environ.get("HTTP_HOST", "").lower().partition(":")[0]
        if self.domain and f".{host}".endswith(f".{self.domain}"):
            inner = dict(environ)
        elif prefix and path == prefix:
            response = append_slash_redirect(environ)
            response.headers.add(*NO_SNIFFING_HEADER)
            return response(environ, start_response)
        elif prefix and path.startswith(f"{prefix}/"):
            mount = f"{read_mount_point(environ)}{prefix}"
            inner = {**environ, "SCRIPT_NAME": mount, "PATH_INFO": path[len(prefix) :]}
            if self._tenant is not None:
                choose = partial(self._choose_tenant, environ)
                inner[TENANT] = choose if callable(self._tenant) else self._tenant
        else:
            return site(environ, start_response)
        if self._current_user is not None or self.login_url:
            home = self.logout_url or f"{read_mount_point(environ)}/"
            ask = partial(self._site_user, environ)
            fields = partial(self._logout_fields, environ, home)
            inner[SITE] = Site(ask, self.login_url, home, fields)
        return self.app(inner, start_response)

    def _choose_tenant(self, environ: dict[str, Any]) -> str | None:
        with self._calling_site("tenant") as site:
            request = site.request_class(_without_body(environ))
            return site.ensure_sync(self._tenant)(request)

    def _site_user(self, environ: dict[str, Any]) -> dict[str, Any] | None:
        """The user who looks at a page, as the site's `current_user()` gives it.

        It is called as in a view of the site, in a request context without hooks. It gives None
        (or something false, or an anonymous user of Flask-Login) when nobody is logged in, else a
        mapping or an object with `role` (owner, manager, viewer; None: may not enter), `name`, and
        optionally `id` (by default the e-mail, else the name), `email`, `phone`.
        """
        if self._current_user is None:
            return None
        empty = _without_body(environ)
        with self._calling_site("current_user") as site, site.request_context(empty):
            user = site.ensure_sync(self._current_user)()
            if not user or getattr(user, "is_authenticated", True) is False:
                return None
            return {name: self._user_field(user, name) for name in SITE_USER_FIELDS}

    def _logout_fields(self, environ: dict, url: str, response: Response) -> dict[str, str] | None:
        """The hidden fields of a form that logs out at the site; None if a GET does it.

        They have the token that Flask-WTF of the site expects, and the response its cookie.
        """
        site, parts = self._site(), urlsplit(url)
        if parts.netloc not in ("", environ.get("HTTP_HOST", "")):
            return None
        path = parts.path.removeprefix(read_mount_point(environ))
        get = {**_without_body(environ), "REQUEST_METHOD": "GET", "PATH_INFO": path}
        with site.request_context(get) as context:
            if not isinstance(context.request.routing_exception, MethodNotAllowed):
                return None
            name = site.config.get("WTF_CSRF_FIELD_NAME", "csrf_token")
            if "csrf" not in site.extensions and name not in site_session:
                return {}
            fields = {name: generate_csrf()}
            site.session_interface.save_session(site, site_session, response)
            return fields

    def _user_field(self, user: Any, name: str) -> str | None:
        """A field of the site's user; when its property fails, the error names the field."""
        with self._calling_site(f"current_user: its {name}"):
            value = user.get(name) if isinstance(user, Mapping) else _attribute(user, name)
            return None if value is None or value is False else str(value)

    def _site(self) -> Flask:
        """The site around the CRM, for what `app` has checked to have one."""
        assert self.host_app is not None
        return self.host_app

    @contextmanager
    def _calling_site(self, function: str) -> Iterator[Flask]:
        """Give the site; an error of its `function` in the block becomes a SiteError."""
        site = self._site()
        try:
            yield site
        except SiteError:
            raise
        except Exception as error:
            raise SiteError(f"{function}: {describe_origin(error)}") from None

    # Beside the site

    def _public_url(self, site: Flask, config: Config) -> str:
        """The URL that Flask builds outside of requests; without SERVER_NAME, an installation's."""
        name = site.config["SERVER_NAME"] or f"{config.base_domain}:{config.port}"
        root = site.config["APPLICATION_ROOT"].rstrip("/")
        return f"{site.config['PREFERRED_URL_SCHEME']}://{name}{root}{self.url_prefix}"

    def _add_commands(self, site: Flask, config: Config) -> None:
        """Add `flask crm …` for this CRM's data folder; for a second one `flask crm-<where>`."""
        from crm.cli.commands import group  # it imports this package

        commands = {
            name: command
            for name, command in group.commands.items()
            if name not in INSTALLATION_COMMANDS
        }
        settings = {**group.context_settings, "obj": config}
        where = (self.url_prefix or f"/{self.domain}").replace("/", "-")
        name = f"crm{where}" if "crm" in site.cli.commands else "crm"
        site.cli.add_command(
            click.Group(name, commands, context_settings=settings, help=group.help)
        )


def _prefix(text: str | None) -> str | None:
    prefix = (text or "").rstrip("/")
    if text and not MOUNT_POINT.match(prefix):
        raise ConfigError(f"url_prefix={text!r}: it looks like /crm")
    return prefix or None


def _attribute(user: Any, name: str) -> Any:
    """An attribute, None if there is none. Raises what its property raises, also AttributeError."""
    try:
        return getattr(user, name)
    except AttributeError:
        # `__class__` of a proxy such as Flask-Login's current_user is the class of its target.
        if inspect.getattr_static(user.__class__, name, None) is not None:
            raise
        return None


def _without_body(environ: dict[str, Any]) -> dict[str, Any]:
    """A copy with an empty body, so that the site cannot consume the body of a CRM request."""
    return {**environ, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
