"""Pages to log in and out: by an SMS code, a password, or a one-time link (D12).

No response reveals whether a phone or an e-mail address is known: the same work is done for all,
and messages are sent after the response. Opening a link does not use it up, because mail programs
and messengers open links by themselves; only the link that hands over a sign-up is used at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import flask
from flask import redirect, request
from werkzeug.wrappers import Response

from crm.access import codes, limits, links, passwords, sessions
from crm.cabinet import authentication, languages, phone_codes
from crm.cabinet.app import current_app
from crm.cabinet.embedded_login import current_site
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.rendering import (
    BASE_HOST,
    TENANT,
    Pages,
    flash,
    me,
    next_path,
    render,
    rerender_on_error,
    see_other,
)
from crm.errors import Forbidden, Invalid, NotFound
from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.resources import tenant, users
from crm.resources.users import User
from crm.tenancy.clocks import uptime
from crm.tenancy.database import current_session, settings


class PhoneSchema(RecordSchema):
    phone = fields.Phone(required=True)


class EmailSchema(RecordSchema):
    email = fields.Email(required=True)


PHONE_IN = PhoneSchema.body("PhoneIn")
EMAIL_IN = EmailSchema.body("EmailIn")

pages = Pages("login", role=None)
WITHOUT_LOGIN = tuple(
    f"{pages.name}.{name}"
    for name in ("enter_page", "enter", "email_page", "confirm_email", "logout", "choose_language")
)


@pages.before_request
def refuse_suspended() -> None:
    if tenant.about()["suspended_at"]:
        raise Forbidden("this account is suspended", "tenant_suspended")


@pages.before_request
def redirect_to_site_login() -> Response | None:
    """Send visitors to the site's login where it replaces ours; one-time links still work."""
    site = current_site()
    if site is None or not site.login_url or me() or request.endpoint in WITHOUT_LOGIN:
        return None
    return redirect(site.login(next_path()), 303)


@pages.get("/login")
def login_page(form: Form | None = None) -> Response:
    if me() and form is None:
        return see_other(next_path())
    return render("login/phone.html", form=form or Form(), next=next_path(""))


@pages.post("/login")
@rerender_on_error(lambda form: login_page(form))
def send_code() -> Response:
    phone = load_form(PHONE_IN, request.form)["phone"]
    response = _send_code(phone)
    flask.session["next"] = next_path()
    return response


@pages.get("/login/code")
def code_page(form: Form | None = None) -> Response:
    if not phone_codes.phone(codes.LOGIN):
        return see_other("/login")
    user = users.reached_at(phone_codes.phone(codes.LOGIN) or "")
    known_browser = authentication.known_browser(user.id if user else None)
    context = phone_codes.context(codes.LOGIN, known_browser)
    return render("login/code.html", form=form or Form(), **context)


@pages.post("/login/code")
@rerender_on_error(lambda form: code_page(form))
def check_code() -> Response:
    right = phone_codes.check(codes.LOGIN)
    user = users.reached_at(phone_codes.phone(codes.LOGIN) or "")
    if user is None or not right:
        raise phone_codes.wrong()
    return _enter(user.id, flask.session.get("next", "/"))


@pages.post("/login/code/again")
@rerender_on_error(lambda form: code_page(form))
def send_another_code() -> Response:
    phone = phone_codes.phone(codes.LOGIN)
    return _send_code(phone) if phone else see_other("/login")


@pages.get("/login/password")
def password_page(form: Form | None = None) -> Response:
    if me() and form is None:
        return see_other(next_path())
    return render("login/password.html", form=form or Form(), next=next_path(""))


@pages.post("/login/password")
@rerender_on_error(lambda form: password_page(form))
def check_password() -> Response:
    address = request.form.get("email", "").strip()
    user = users.reached_at(address)
    current_app.password_limits.count_try(
        uptime(),
        current_session().label,
        users.reach_of(address),  # counted alike whether a user has it or not
        request.remote_addr or "",
        authentication.known_browser(user.id if user else None),
    )
    # Without a user the password is hashed all the same: the time must not reveal who has a login.
    password_hash = passwords.find_hash(user.id if user else None)
    if passwords.matches(password_hash, request.form.get("password", "")) and user is not None:
        # The password may have been changed while this one was hashed.
        return _enter(
            user.id, next_path(), before=partial(_require_password, user.id, password_hash)
        )
    raise _wrong_login()


@pages.get("/forgot")
def forgot_page(form: Form | None = None) -> Response:
    return render("login/forgot.html", form=form or Form())


@pages.post("/forgot")
@rerender_on_error(lambda form: forgot_page(form))
def send_reset_link() -> Response:
    email = load_form(EMAIL_IN, request.form)["email"]
    network = limits.network_of(request.remote_addr or "")
    to = f"{current_session().label}/{email.lower()}"
    by_whom = f"{to} {network}"
    current_app.email_limits.count_try(uptime(), to_by_network=by_whom, to=to, network=network)
    user, token = users.make_reset_link(email)
    # The text is made for unknown addresses, too, and the mail is sent after the response: neither
    # the page nor its time reveals whether a user has the address.
    letter = _reset_letter(token, user.language if user else None)
    response = see_other("/forgot/sent")
    if user:
        response.call_on_close(partial(current_app.message_queue.enqueue_mail, user.email, *letter))
    return response


@pages.get("/forgot/sent")
def reset_link_sent() -> Response:
    return render("login/sent.html")


@pages.get("/reset/<token>")
def reset_page(token: str, form: Form | None = None) -> Response:
    if links.peek(links.RESET, token) is None:
        return _invalid_link()
    return render("login/reset.html", form=form or Form(), token=token)


@pages.post("/reset/<token>")
@rerender_on_error(lambda form, token: reset_page(token, form))
def reset_password(token: str) -> Response:
    return _enter_by_form(links.RESET, token, gettext("Password changed"))


@pages.get("/invite/<token>")
@pages.get("/i/<token>")  # as an SMS has it
def invite_page(token: str, form: Form | None = None) -> Response:
    link = links.peek(links.INVITE, token)
    if link is None:
        return _invalid_link()
    user = User.find(link.user_id)
    return render("login/invite.html", form=form or Form(), token=token, user=user, **_company())


@pages.post("/invite/<token>")
@rerender_on_error(lambda form, token: invite_page(token, form))
def accept_invitation(token: str) -> Response:
    return _enter_by_form(links.INVITE, token)


@pages.get("/enter/<token>")
def enter_page(token: str) -> Response:
    # A handover link is opened by the redirect of the sign-up. A login link is used only by the
    # button of its page, because mail programs open links in advance.
    if links.peek(links.HANDOVER, token):
        return _enter_by_link(links.HANDOVER, token)
    link = links.peek(links.LOGIN, token)
    if link is None:
        return _invalid_link()
    return render("login/enter.html", token=token, user=User.find(link.user_id), **_company())


@pages.post("/enter/<token>")
def enter(token: str) -> Response:
    return _enter_by_link(links.LOGIN, token)


@pages.get("/email/<token>")
def email_page(token: str, form: Form | None = None) -> Response:
    link = links.peek(links.EMAIL, token)
    if link is None:
        return _invalid_link()
    return render("login/email.html", form=form or Form(), token=token, email=link.about)


@pages.post("/email/<token>")
@rerender_on_error(lambda form, token: email_page(token, form))
def confirm_email(token: str) -> Response:
    if not users.confirm_email(token):
        return _invalid_link()
    flash(gettext("E-mail address confirmed"))
    return see_other("/")


@pages.post("/logout")
def logout() -> Response:
    site = current_site() if me() and me().from_site else None
    response = redirect(site.home, 303) if site else see_other("/login")
    authentication.log_out(response)
    flask.session.clear()
    return response


@pages.post("/language", at=(TENANT, BASE_HOST))
def choose_language() -> Response:
    language = request.form.get("language", "")
    if language not in languages.LANGUAGES:
        raise NotFound
    response = see_other(next_path())
    if me():
        users.update(me().user_id, {"language": language})
    else:
        languages.remember(response, language)
    return response


def _send_code(phone: str) -> Response:
    user = users.reached_at(phone)
    response = see_other("/login/code")
    return phone_codes.send(
        response,
        codes.LOGIN,
        phone,
        known=user is not None,
        known_browser=authentication.known_browser(user.id if user else None),
        language=user.language if user else None,
    )


def _enter(
    user_id: int, path: str, text: str = "", before: Callable[[], None] = lambda: None
) -> Response:
    """Log the user in, unless `before` refuses it by raising, and redirect to a page.

    Nothing of this browser's earlier session is kept.
    """
    response = authentication.log_in(see_other(path), user_id, before)
    if me():
        sessions.end(me().id, me().user_id)
    # Values of an earlier visitor, such as the phone of a code, must not reach the new session.
    flask.session.clear()
    if text:
        flash(text)
    return response


def _enter_by_link(
    purpose: str, token: str, text: str = "", password_hash: str | None = None
) -> Response:
    """Use a link to log its user in, with a new password if there is one: all of it, or nothing."""
    link = links.peek(purpose, token)
    if link is None:
        return _invalid_link()

    def use_link() -> None:
        if links.use(purpose, token) is None:
            raise NotFound
        if password_hash:
            passwords.store_hash(link.user_id, password_hash)
            sessions.end_others(link.user_id)

    try:
        return _enter(link.user_id, "/", text, use_link)
    except NotFound:
        return _invalid_link()


def _enter_by_form(purpose: str, token: str, text: str = "") -> Response:
    """Use a link whose form may set a password, and must set it for a reset.

    Raises Invalid for a password that can't be one; the link stays good then.
    """
    if links.peek(purpose, token) is None:
        return _invalid_link()
    password = request.form.get("password", "")
    must_hash = password or purpose == links.RESET
    # Hashing is slow, so it is done before the transaction in which the link is used.
    password_hash = passwords.hash_new(password) if must_hash else None
    return _enter_by_link(purpose, token, text, password_hash)


def _require_password(user_id: int, password_hash: str | None) -> None:
    if passwords.find_hash(user_id) != password_hash:
        raise _wrong_login()


def _wrong_login() -> Invalid:
    detail = gettext("Wrong password, e-mail address or phone number.")
    return Invalid.field("password", "wrong_login", detail)


def _invalid_link() -> Response:
    return render("login/invalid_link.html", 404)


def _company() -> dict[str, Any]:
    return {"firm": tenant.about()["name"]}


def _reset_letter(token: str, language: str | None) -> tuple[str, str]:
    """Subject and text."""
    url = f"{settings().url_of(current_session().label)}/reset/{token}"
    with force_locale(language or languages.language()):
        return gettext("New password"), gettext(
            "Hello!\n\nSomebody, you we hope, asked for a new password. Set it here within 30"
            " minutes:\n\n%(url)s\n\nIf it was not you, do nothing: your password stays as it is.",
            url=url,
        )
