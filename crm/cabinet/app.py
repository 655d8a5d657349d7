"""The Flask app with the attributes that pages use."""

from typing import cast

import flask

from crm.access.limits import PasswordLimits, SmsLimits, TryLimits
from crm.api.request_limits import Limiter
from crm.installation.tenants import Tenants
from crm.messages.queue import MessageQueue
from crm.messages.telegram import Telegram


class CabinetApp(flask.Flask):
    """What pages use of the app, which is a CRMApp (wsgi.py)."""

    tenants: Tenants
    secret_key: bytes
    limiter: Limiter
    sms_limits: SmsLimits
    message_queue: MessageQueue
    telegram: Telegram  # used only with a token
    password_limits: PasswordLimits
    password_change_limits: TryLimits
    email_limits: TryLimits
    paper_limits: TryLimits

    def compile_templates(self) -> None:
        """Store all templates compiled, for a service whose user cannot write there."""
        for name in self.jinja_env.list_templates(("html", "txt")):
            self.jinja_env.get_template(name)


current_app = cast(CabinetApp, flask.current_app)
