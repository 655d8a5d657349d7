"""Embedding: the CRM inside a Flask site, and its verbs in Python.

The CRM is a Flask app of its own behind the site's `wsgi_app`: neither hears of the other's error
pages, sessions, hooks and settings. Which requests are the CRM's is told by their path or host.
"""

import inspect
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import click
from flask import Flask, Request
from werkzeug.utils import append_slash_redirect

from crm.cabinet.embedded_login import SITE, Site, SiteError
from crm.config import LABEL, Config, ConfigError
from crm.embedding import nouns
from crm.errors import NotFound, describe_origin
from crm.outbox.callbacks import EXIT_TIMEOUT_SECONDS, Callback, Callbacks
from crm.resources import users
from crm.resources.tenant import open_tenant
from crm.tenancy.database import transaction
from crm.tenancy.files import UnknownTenant
from crm.wsgi import MOUNT_POINT, NO_SNIFFING_HEADER, TENANT, CRMApp, create_app, read_mount_point

OF_AN_INSTALLATION = ("serve", "demo", "config", "systemd", "proxy", "openapi")  # not a site's
FLASK_PORT = 5000  # where `flask run` listens
PERSON = ("id", "name", "role", "email", "phone")


class CRM:
    """A CRM in a Flask site: `CRM(app, url_prefix="/crm", tenant="acme")`, or first `CRM(…)` and
    later `init_app(app)`. Without a site: `CRM(data="crm-data")`.

    `url_prefix`: where it is on every host of the site. `domain`: that host and those below it are
    the CRM's, one `<label>.<domain>` for each tenant. One of both, or both.
    `tenant`: whose CRM it is below the prefix: a label, or a function that gets the request and
    gives a label or None (which is a 404). Without it the Host header tells, as in an installation.
    `current_user`: a function that says who is logged in at the site; see `_person`.
    `login_url`: the site's login page, instead of the CRM's own; with `domain` a whole address.
    `logout_url`: where logging out leads; by default the start page of the site.
    `data`: the folder of the tenants' files, by default `crm` in the site's instance folder, to
    which a relative path belongs too. Other settings by their names in `Config`: `public_url=…`,
    `mail=…`; or all of them as `config`. Those of the environment count where none is given.
    `sends`: deliver webhooks from this process, from its first request on.

    Nothing is written before the first tenant is made or a request comes. Raises ConfigError.
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
            lambda label: self.app.tenants.session(label), self._site_context
        )
        if host_app is not None:
            self.init_app(host_app)

    def init_app(self, host_app: Flask) -> None:
        """Put the CRM into the site. Once; before a ProxyFix, which then stands around both."""
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
        host_app.wsgi_app = partial(self._serve, host_app.wsgi_app)

    @cached_property
    def config(self) -> Config:
        """The settings: those given, else the environment's, else what suits the site."""
        if self._config is not None:
            return replace(self._config, **self._settings) if self._settings else self._config
        site, given, below = self.host_app, dict(self._settings), {}
        folder = None if self._data is None else Path(self._data).expanduser()
        if site is not None:
            given.setdefault("trusted_proxies", 0)  # a ProxyFix of the site does that
            below["data"] = Path(site.instance_path, "crm").absolute()
            below["port"] = FLASK_PORT
            folder = folder and Path(site.instance_path, folder)
        if self.url_prefix and not self.domain:
            given["signup"] = False  # it is at the base host, which nobody reaches
        given["data"] = folder and folder.absolute()
        found = Config.load(defaults=below, **given)
        if site is not None and self.url_prefix and not self.domain:
            below["public_url"] = self._public_url(site, found)
            found = Config.load(defaults=below, **given)
        return found

    @cached_property
    def app(self) -> CRMApp:
        """The CRM's own WSGI app, also for mounting it by hand. Raises ConfigError."""
        asks = callable(self._tenant) or self._current_user is not None or self.login_url
        if asks and self.host_app is None:
            raise ConfigError("tenant (a function), current_user, login_url: they need CRM(app, …)")
        app = create_app(self.config, sends=self._sends)
        app.tenants.hears = self.callbacks.on_event
        return app

    def __getattr__(self, name: str) -> nouns.RecordSchema:
        """The nouns of the API, for use in Python: leads, clients, deals, products, tasks, …"""
        if name.startswith("_") or name in ("app", "config"):
            raise AttributeError(name)
        found = nouns.of(self.app)
        if name not in found:
            raise AttributeError(f"a CRM has no {name}; its nouns are {', '.join(found)}")
        vars(self).update(found)
        return found[name]

    @contextmanager
    def tenant(self, label: str | None = None, *, user: int | str | None = None) -> Iterator[Self]:
        """Be at a tenant: `with crm.tenant("acme"): crm.leads.create(…)`.

        `label` may be left out where there is but one. `user` (id, phone or e-mail) is in whose
        name: `created_by`, notes and the trail of changes tell it. Raises NotFound, and what the
        tenant's file may: TenantUnavailable, StorageFull, Busy.
        """
        label = label or (self._tenant if isinstance(self._tenant, str) else None)
        if label is None:
            raise TypeError("say which tenant is meant")
        if not LABEL.match(label):
            raise NotFound(f"there is no tenant {label}")
        with ExitStack() as stack:
            try:
                here = stack.enter_context(self.app.tenants.session(label))
            except UnknownTenant:
                raise NotFound(f"there is no tenant {label}") from None
            before = here.user_id, here.key_id
            try:
                if user is not None:
                    here.user_id, here.key_id = users.named(str(user)).id, None
                yield self
            finally:
                here.user_id, here.key_id = before

    def create_tenant(
        self, label: str, *, owner: dict[str, Any] | None = None, **about: str
    ) -> None:
        """Make a tenant. `about`: name, plan, currency, language; `owner`: name, phone, email.

        Raises Invalid, or Conflict `label_taken`.
        """
        open_tenant(self.app.tenants, label, owner=owner, **about)

    def on(self, *kinds: str) -> Callable[[Callback], Callback]:
        """A decorator: call the function with every event of these kinds, after the commit.

        `@crm.on("deal.won")`; `"*"` is all. See crm/outbox/callbacks.py. Raises ValueError.
        """
        return self.callbacks.on(*kinds)

    def close(self) -> None:
        """Let go of its files and threads, as a test does at its end: callbacks hear first what is
        committed; no webhook and no message is sent any more."""
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
        self.app.start_sender()
        path, prefix = environ.get("PATH_INFO", ""), self.url_prefix
        if self.domain and self._has_host(environ.get("HTTP_HOST", "")):
            inner = dict(environ)
        elif prefix and path == prefix:
            answer = append_slash_redirect(environ)
            answer.headers.add(*NO_SNIFFING_HEADER)
            return answer(environ, start_response)
        elif prefix and path.startswith(f"{prefix}/"):
            mount = f"{read_mount_point(environ)}{prefix}"
            inner = {**environ, "SCRIPT_NAME": mount, "PATH_INFO": path[len(prefix) :]}
            if self._tenant is not None:
                inner[TENANT] = partial(self._label, environ)
        else:
            return site(environ, start_response)
        if self._current_user is not None or self.login_url:
            home = self.logout_url or f"{read_mount_point(environ)}/"
            inner[SITE] = Site(partial(self._person, environ), self.login_url, home)
        return self.app(inner, start_response)

    def _has_host(self, host: str) -> bool:
        name = host.lower().partition(":")[0]
        return name == self.domain or name.endswith(f".{self.domain}")

    def _label(self, environ: dict[str, Any]) -> str | None:
        if not callable(self._tenant):
            return self._tenant
        try:
            asked = self.host_app.request_class(_without_body(environ))
            return self.host_app.ensure_sync(self._tenant)(asked)
        except Exception as error:
            raise SiteError(f"tenant: {describe_origin(error, self.host_app.root_path)}") from None

    def _person(self, environ: dict[str, Any]) -> dict[str, Any] | None:
        """Who is at a page, as the site's `current_user()` says.

        It is called as in a view of the site, in a request context without hooks, and gives None
        (or something false, or an anonymous user of Flask-Login) for nobody, else a mapping or an
        object with `role` (owner, manager, viewer; None: may not enter), `name`, and perhaps `id`
        (by default the e-mail, else the name), `email`, `phone`.
        """
        if self._current_user is None:
            return None
        try:
            with self.host_app.request_context(_without_body(environ)):
                who = self.host_app.ensure_sync(self._current_user)()
                if not who or getattr(who, "is_authenticated", True) is False:
                    return None
                return {name: self._read(who, name) for name in PERSON}
        except SiteError:
            raise
        except Exception as error:
            raise SiteError(
                f"current_user: {describe_origin(error, self.host_app.root_path)}"
            ) from None

    def _read(self, who: Any, name: str) -> str | None:
        """One thing about who is there; the error of a property tells which one was read."""
        try:
            return _text(who.get(name) if isinstance(who, Mapping) else _attribute(who, name))
        except Exception as error:
            where = describe_origin(error, self.host_app.root_path)
            raise SiteError(f"current_user: its {name}: {where}") from None

    def _site_context(self) -> AbstractContextManager[Any]:
        """The application context of the site, if there is one around."""
        return nullcontext() if self.host_app is None else self.host_app.app_context()

    # Beside the site

    def _public_url(self, site: Flask, config: Config) -> str:
        """How Flask makes addresses outside of requests; without SERVER_NAME as an installation."""
        name = site.config["SERVER_NAME"] or f"{config.base_domain}:{config.port}"
        root = site.config["APPLICATION_ROOT"].rstrip("/")
        return f"{site.config['PREFERRED_URL_SCHEME']}://{name}{root}{self.url_prefix}"

    def _add_commands(self, site: Flask, config: Config) -> None:
        """`flask crm …` works on this CRM's data folder; of a second one `flask crm-<where>`."""
        from crm.cli.commands import group  # whose face imports this package

        commands = {
            name: command
            for name, command in group.commands.items()
            if name not in OF_AN_INSTALLATION
        }
        settings = {**group.context_settings, "obj": config}
        where = (self.url_prefix or f"/{self.domain}").replace("/", "-")
        name = f"crm{where}" if "crm" in site.cli.commands else "crm"
        site.cli.add_command(
            click.Group(name, commands, context_settings=settings, help=group.help)
        )


def _prefix(text: str | None) -> str | None:
    found = text.rstrip("/") if text else None
    if text and not MOUNT_POINT.match(found):
        raise ConfigError(f"url_prefix={text!r}: it looks like /crm")
    return found


def _attribute(thing: Any, name: str) -> Any:
    """An attribute, None if there is none. Raises what its property raises, also AttributeError."""
    try:
        return getattr(thing, name)
    except AttributeError:
        # The class of a proxy such as Flask-Login's current_user is that of what it stands for.
        if inspect.getattr_static(thing.__class__, name, None) is not None:
            raise
        return None


def _text(value: Any) -> str | None:
    if value is None or value is False:
        return None
    return value if isinstance(value, str) else str(value)


def _without_body(environ: dict[str, Any]) -> dict[str, Any]:
    """A copy that whoever looks at it can't read the CRM's body from."""
    return {**environ, "wsgi.input": io.BytesIO(), "CONTENT_LENGTH": "0"}
