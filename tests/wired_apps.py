"""Apps that tests share: to wire one takes longer than most tests."""

import time
from collections.abc import Callable
from dataclasses import replace

from crm import CRMApp, cabinet, create_app
from crm.config import Config
from crm.installation.readiness import Readiness
from crm.installation.tenants import Tenants
from crm.messages.mail import create_mail_sender
from crm.messages.queue import MessageQueue
from crm.messages.sms import create_sms_sender


def serve_installation(app: CRMApp, config: Config, clock: Callable[[], float] = time.time) -> None:
    """Let an app that is wired already, and has nothing open, serve another installation."""
    app.tenants = Tenants(config, clock)
    app.limiter.counters = app.tenants.counters
    app.readiness = Readiness()
    cabinet.begin_counting(app)


class WiredApps:
    """Lends apps to a test, and wires one only if none with the same settings is free."""

    def __init__(self) -> None:
        self._free: list[CRMApp] = []
        self._lent: list[CRMApp] = []

    def create_app(
        self, config: Config | None = None, clock: Callable[[], float] = time.time, **options: bool
    ) -> CRMApp:
        """Return an app as crm.create_app() does."""
        config = config or Config.load()
        if options != {"sends": False}:
            return create_app(config, clock, **options)
        app = next((app for app in self._free if _are_wired_alike(app, config)), None)
        if app is None:
            app = create_app(config, clock, sends=False)
        else:
            self._free.remove(app)
            serve_installation(app, config, clock)
            app.message_queue = MessageQueue(create_sms_sender(config), create_mail_sender(config))
            vars(app).pop("_stored_key", None)
        self._lent.append(app)
        return app

    def take_back(self) -> None:
        for app in self._lent:
            app.tenants.forget_idle()
        self._free += self._lent
        self._lent.clear()


def _are_wired_alike(app: CRMApp, config: Config) -> bool:
    own = app.tenants.config
    return replace(own, data=config.data, database=config.database) == config
