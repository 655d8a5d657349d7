"""Codes by SMS for pages.

A code belongs to a random cookie of the browser. The phone is remembered in the signed cookie
between two pages, and the SMS is sent after the response.

A response is the same whether the phone is known or not: for an unknown one a code is made, counted
and stored too, and only the SMS is not sent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import request, session
from werkzeug.wrappers import Response

from crm.access import codes, tokens
from crm.cabinet import formatting, languages
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.login import authentication
from crm.cabinet.rendering import Pages, render, see_other
from crm.errors import Invalid, TooMany
from crm.limits.windows import SMS_HOUR
from crm.resources import users
from crm.storage.clocks import steady_seconds
from crm.storage.session import current_session

BROWSER = "crm_browser"
COOKIE_AGE_SECONDS = 86_400
LENGTH = len(tokens.generate_token())
# After which the limit of an hour has room again, whenever in a step of the window it was reached.
HOUR_LIMIT_SECONDS = SMS_HOUR.step_seconds * SMS_HOUR.steps


def send(purpose: str, phone: str) -> Response:
    """Make a code and send it to the phone after the response, which redirects to its page.

    A code for a login is sent if a user has the phone. Raises TooMany, with the seconds to wait.
    """
    is_login = purpose == codes.LOGIN
    user = users.reached_at(phone) if is_login else None
    known_browser = _known_browser(purpose, user)
    browser = _browser() or tokens.generate_token()
    if seconds := codes.seconds_until_next(purpose, phone, browser if known_browser else None):
        raise TooMany("another code was asked for a moment ago", "code_too_soon", seconds)
    allowed = current_app.sms_limits.count_sms(
        phone,
        request.remote_addr or "",
        steady_seconds(),
        tenant=current_session().label if is_login else None,
        known=user is not None or not is_login,
        browser=known_browser,
    )
    if not allowed:
        raise TooMany("too many SMS", "too_many_sms", HOUR_LIMIT_SECONDS)
    code = codes.create(purpose, phone, browser, known=known_browser is not None).code
    with force_locale(user.language if user and user.language else languages.language()):
        # At most 70 characters: one SMS in Cyrillic.
        text = (
            gettext("Login code: %(code)s. Do not share it.", code=code)
            if is_login
            else gettext("Sign-up code: %(code)s. Do not share it.", code=code)
        )
    response = see_other(f"/{purpose}/code")
    if user or not is_login:
        send_sms = partial(current_app.message_queue.enqueue_sms, phone, text)
        if current_app.message_queue.keeps_texts:
            send_sms()  # the next page of a demo shows it, and might else come too early
        else:
            response.call_on_close(send_sms)
    authentication.set_cookie(response, BROWSER, browser, COOKIE_AGE_SECONDS)
    session[purpose] = phone
    return response


def phone(purpose: str) -> str | None:
    """Return the phone that this browser has last requested a code for; None if none."""
    return session.get(purpose)


def check(purpose: str) -> bool:
    """Whether the form has the code that was sent; each check counts as a try."""
    code = "".join(request.form.get("code", "")[:32].split())
    return codes.check(purpose, phone(purpose) or "", _browser(), code)


def wrong() -> Invalid:
    """The error for a code that is wrong or has expired."""
    return Invalid.field("code", "wrong_code", gettext("This code is wrong or has expired."))


def entered(purpose: str) -> bool:
    """Whether this browser has entered the code and not used it yet."""
    return codes.is_entered(purpose, phone(purpose) or "", _browser())


def spending(purpose: str):
    """codes.spend_entered() for this browser and the phone that it entered the code for."""
    return codes.spend_entered(purpose, phone(purpose) or "", _browser())


def add_pages(pages: Pages, purpose: str, **options: Any) -> Callable[..., Response]:
    """Add the page for the code, which is returned, and the form that sends another one."""
    path = f"/{purpose}/code"

    @pages.get(path, **options)
    def show_code_page(form: Form | None = None) -> Response:
        number = phone(purpose)
        if not number:
            return see_other(f"/{purpose}")
        user = users.reached_at(number) if purpose == codes.LOGIN else None
        browser = _browser() if _known_browser(purpose, user) else None
        seconds = codes.seconds_until_next(purpose, number, browser)
        return render(
            f"{purpose}/code.html",
            form=form or Form(),
            phone=number,
            again_when=formatting.later(seconds) if seconds else "",
            demo_sms=current_app.message_queue.get_last_sms(number),
        )

    @pages.post(f"{path}/again", page=show_code_page, **options)
    def send_another_code() -> Response:
        number = phone(purpose)
        return send(purpose, number) if number else see_other(f"/{purpose}")

    return show_code_page


def _known_browser(purpose: str, user: users.User | None) -> str | None:
    """The name of this browser if it has logged in as the user before."""
    if purpose != codes.LOGIN:
        return None
    return authentication.known_browser(user.id if user else None)


def _browser() -> str:
    token = request.cookies.get(authentication.cookie_name(BROWSER), "")
    return token if len(token) == LENGTH else ""
