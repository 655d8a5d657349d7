"""The Flask app with the attributes that the CRM adds, for type checkers."""

from typing import cast

import flask
from flask import Flask

from crm.access.limits import Limiter, PasswordLogins, Tries
from crm.access.sms_limits import SmsLimits
from crm.messages.queue import MessageQueue
from crm.tenancy.tenants import Tenants


class CabinetApp(Flask):
    """What pages use of the app. No object is of this class: the app is a CRMApp (wsgi.py)."""

    tenants: Tenants
    secret_key: bytes
    limiter: Limiter
    sms_limits: SmsLimits
    post: MessageQueue  # type: ignore[assignment]
    password_logins: PasswordLogins
    password_tries: Tries
    letters: Tries


current_app = cast(CabinetApp, flask.current_app)
