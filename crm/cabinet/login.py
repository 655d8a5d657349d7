"""Who comes in and goes out: by an SMS code, a password, or a one-time link (D12).

An answer never tells whether a phone or an e-mail address is known: the same work is done for all,
and what is sent goes out after the answer. Looking at a link doesn't use it up, for mail programs
and messengers look at what they bring; only a fresh sign-up is handed over at first sight.
"""

from functools import partial

import flask
from flask import current_app, redirect, request
from werkzeug.wrappers import Response

from crm.access import codes, limits, links, passwords, sessions
from crm.cabinet import authentication, languages, phone_codes
from crm.cabinet.embedded_login import around
from crm.cabinet.forms import Form, take
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.rendering import FRONT, TENANT, Pages, again, me, next_path, onward, render, told
from crm.errors import Forbidden, Invalid, NotFound
from crm.records import fields
from crm.records.views import RecordSchema
from crm.resources import tenant, users
from crm.resources.users import User
from crm.tenancy.clocks import uptime
from crm.tenancy.database import current_session, settings, transaction


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
def leave_it_to_the_site() -> Response | None:
    """A site whose login is the way in has no other; a link from the operator stays good."""
    site = around()
    if site is None or not site.login_url or me() or request.endpoint in WITHOUT_LOGIN:
        return None
    return redirect(site.login(next_path()), 303)


@pages.get("/login")
def login_page(form: Form | None = None) -> Response:
    if me() and form is None:
        return onward(next_path())
    return render("login/phone.html", form=form or Form(), next=next_path(""))


@pages.post("/login")
@again(lambda form: login_page(form))
def send_code() -> Response:
    phone = take(PHONE_IN, request.form)["phone"]
    response = _send_code(phone)
    flask.session["next"] = next_path()
    return response


@pages.get("/login/code")
def code_page(form: Form | None = None) -> Response:
    if not phone_codes.phone(codes.LOGIN):
        return onward("/login")
    user = users.reached_at(phone_codes.phone(codes.LOGIN) or "")
    known_browser = authentication.known_browser(user and user.id)
    shown = phone_codes.context(codes.LOGIN, known_browser)
    return render("login/code.html", form=form or Form(), **shown)


@pages.post("/login/code")
@again(lambda form: code_page(form))
def check_code() -> Response:
    right = phone_codes.check(codes.LOGIN)
    user = users.reached_at(phone_codes.phone(codes.LOGIN) or "")
    if user is None or not right:
        raise phone_codes.wrong()
    return _enter(user.id, flask.session.get("next", "/"))


@pages.post("/login/code/again")
@again(lambda form: code_page(form))
def send_another_code() -> Response:
    phone = phone_codes.phone(codes.LOGIN)
    return _send_code(phone) if phone else onward("/login")


@pages.get("/login/password")
def password_page(form: Form | None = None) -> Response:
    if me() and form is None:
        return onward(next_path())
    return render("login/password.html", form=form or Form(), next=next_path(""))


@pages.post("/login/password")
@again(lambda form: password_page(form))
def check_password() -> Response:
    who = request.form.get("email", "").strip()
    user = users.reached_at(who)
    current_app.password_limits.count_try(
        uptime(),
        current_session().label,
        users.reach_of(who),  # counted alike whether anybody has it
        request.remote_addr or "",
        authentication.known_browser(user and user.id),
    )
    kept = passwords.find_hash(user.id if user else None)
    if passwords.matches(kept, request.form.get("password", "")) and user is not None:
        with transaction():  # the password may have been changed while this one was hashed
            if passwords.find_hash(user.id) == kept:
                return _enter(user.id, next_path())
    detail = gettext("Wrong password, e-mail address or phone number.")
    raise Invalid.field("password", "wrong_login", detail)


@pages.get("/forgot")
def forgot_page(form: Form | None = None) -> Response:
    return render("login/forgot.html", form=form or Form())


@pages.post("/forgot")
@again(lambda form: forgot_page(form))
def send_reset_link() -> Response:
    email = take(EMAIL_IN, request.form)["email"]
    network = limits.network_of(request.remote_addr or "")
    to = f"{current_session().label}/{email.lower()}"
    by_whom = f"{to} {network}"
    current_app.email_limits.count_try(uptime(), to_by_network=by_whom, to=to, network=network)
    with transaction():  # an address that is changed a moment later takes the link with it
        user = users.reached_at(email)
        # For an address that nobody has the same work: a link whose token nobody gets.
        purpose, id = (links.RESET, user.id) if user else (links.HANDOVER, users.owner_id())
        token = links.create(purpose, id)
    letter = _reset_letter(token, user and user.language)
    response = onward("/forgot/sent")
    if user:
        response.call_on_close(partial(current_app.message_queue.enqueue_mail, user.email, *letter))
    return response


@pages.get("/forgot/sent")
def reset_link_sent() -> Response:
    return render("login/sent.html")


@pages.get("/reset/<token>")
def reset_page(token: str, form: Form | None = None) -> Response:
    if links.peek(links.RESET, token) is None:
        return _no_good()
    return render("login/reset.html", form=form or Form(), token=token)


@pages.post("/reset/<token>")
@again(lambda form, token: reset_page(token, form))
def reset_password(token: str) -> Response:
    return _enter_by(links.RESET, token, gettext("Password changed"))


@pages.get("/invite/<token>")
@pages.get("/i/<token>")  # as an SMS has it
def invite_page(token: str, form: Form | None = None) -> Response:
    link = links.peek(links.INVITE, token)
    if link is None:
        return _no_good()
    user = User.find(link.user_id)
    return render("login/invite.html", form=form or Form(), token=token, user=user, **_company())


@pages.post("/invite/<token>")
@again(lambda form, token: invite_page(token, form))
def accept_invitation(token: str) -> Response:
    return _enter_by(links.INVITE, token)


@pages.get("/enter/<token>")
def enter_page(token: str) -> Response:
    with transaction():
        if handover := links.use(links.HANDOVER, token):
            return _enter(handover.user_id, "/")
    link = links.peek(links.LOGIN, token)
    if link is None:
        return _no_good()
    return render("login/enter.html", token=token, user=User.find(link.user_id), **_company())


@pages.post("/enter/<token>")
def enter(token: str) -> Response:
    with transaction():
        if link := links.use(links.LOGIN, token):
            return _enter(link.user_id, "/")
    return _no_good()


@pages.get("/email/<token>")
def email_page(token: str, form: Form | None = None) -> Response:
    link = links.peek(links.EMAIL, token)
    if link is None:
        return _no_good()
    return render("login/email.html", form=form or Form(), token=token, email=link.about)


@pages.post("/email/<token>")
@again(lambda form, token: email_page(token, form))
def confirm_email(token: str) -> Response:
    with transaction():
        link = links.use(links.EMAIL, token)
        if link:
            User.find(link.user_id).change({"email": link.about})
    if link is None:
        return _no_good()
    told(gettext("E-mail address confirmed"))
    return onward("/")


@pages.post("/logout")
def logout() -> Response:
    there = redirect(around().home, 303) if me() and me().from_site else onward("/login")
    response = authentication.let_out(there)
    flask.session.clear()
    return response


@pages.post("/language", at=(TENANT, FRONT))
def choose_language() -> Response:
    language = request.form.get("language", "")
    if language not in languages.LANGUAGES:
        raise NotFound
    response = onward(next_path())
    if me():
        with transaction():
            User.find(me().user_id).change({"language": language})
    else:
        languages.remember(response, language)
    return response


def _send_code(phone: str) -> Response:
    user = users.reached_at(phone)
    response = onward("/login/code")
    return phone_codes.send(
        response,
        codes.LOGIN,
        phone,
        known=user is not None,
        known_browser=authentication.known_browser(user and user.id),
        language=user and user.language,
    )


def _enter(user_id: int, path: str, text: str = "") -> Response:
    """Log the user in and go on there. Nothing of this browser's time before goes along."""
    if me():
        sessions.end(me().id, me().user_id)
    response = authentication.let_in(onward(path), user_id)
    flask.session.clear()
    if text:
        told(text)
    return response


def _enter_by(purpose: str, token: str, text: str = "") -> Response:
    """Use a link that may set a password: all of it or, if the link ended meanwhile, nothing.

    Of a reset the form must have a password. Raises Invalid; the link stays good then.
    """
    password = request.form.get("password", "")
    if links.peek(purpose, token) is None:
        return _no_good()
    must_hash = password or purpose == links.RESET
    password_hash = passwords.hash_new(password) if must_hash else None  # slow: no transaction yet
    with transaction():
        if link := links.use(purpose, token):
            if password_hash:
                passwords.store_hash(link.user_id, password_hash)
                sessions.end_others(link.user_id)
            return _enter(link.user_id, "/", text)
    return _no_good()


def _no_good() -> Response:
    return render("login/no_good.html", 404)


def _company() -> dict[str, str]:
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
