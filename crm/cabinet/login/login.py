"""Pages to log in and out: by an SMS code, a password, or a one-time link (D12).

No response reveals whether a phone or an e-mail address is known: the same work is done for all,
and messages are sent after the response. Opening a link does not use it up, because mail programs
and messengers open links by themselves; only the link that hands over a sign-up is used at once.
"""

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from flask import abort, make_response, redirect, render_template, request, session
from werkzeug.wrappers import Response

from crm.access import codes, links, passwords, sessions
from crm.cabinet import languages
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.login import authentication, phone_codes
from crm.cabinet.login.embedded_login import SITE
from crm.cabinet.rendering import (
    BASE_HOST,
    CONTINUE_PATH,
    KEPT_FORM,
    TENANT,
    Pages,
    flash,
    me,
    next_path,
    render,
    render_email,
    see_other,
)
from crm.errors import Forbidden, Invalid, NotFound
from crm.networks import networks_of
from crm.records import fields
from crm.records.schemas import RecordSchema
from crm.resources import tenant, users
from crm.storage.clocks import uptime
from crm.storage.session import current_session, settings

PHONE_IN = RecordSchema.body("PhoneIn", phone=fields.Phone(required=True))
EMAIL_IN = RecordSchema.body("EmailIn", email=fields.Email(required=True))

pages = Pages("login", role=None)
WITHOUT_LOGIN = ("enter", "email", "logout", "language")  # the first parts of paths


def _abort_invalid_link() -> NoReturn:
    """The link of a page has been used, has expired, or never was."""
    abort(render("login/invalid_link.html", 404))


@pages.before_request
def refuse_suspended() -> None:
    if tenant.about()["suspended_at"]:
        raise Forbidden("this account is suspended", "tenant_suspended")


@pages.before_request
def redirect_to_site_login() -> Response | None:
    """Send visitors to the site's login where it replaces ours; one-time links still work."""
    site = request.environ.get(SITE)
    if site is None or not site.login_url or me() or request.path.split("/")[1] in WITHOUT_LOGIN:
        return None
    return redirect(site.login(next_path()), 303)


@pages.get("/login")
def login_page(form: Form | None = None, by: str = "phone") -> Response:
    if me() and form is None:
        return see_other(next_path())
    return render(f"login/{by}.html", form=form or Form(), next=next_path(""))


@pages.get("/login/password")
def password_page(form: Form | None = None) -> Response:
    return login_page(form, "password")


@pages.post("/login", page=login_page)
def send_code() -> Response:
    phone = load_form(PHONE_IN)["phone"]
    response = phone_codes.send(codes.LOGIN, phone)
    session["next"] = next_path()
    return response


@pages.post("/login/code", page=phone_codes.add_pages(pages, codes.LOGIN))
def check_code() -> Response:
    right = phone_codes.check(codes.LOGIN)
    user = users.reached_at(phone_codes.phone(codes.LOGIN) or "")
    if user is None or not right:
        raise phone_codes.wrong()
    return _enter(user.id, session.get("next", "/"))


@pages.post("/login/password", page=password_page)
def check_password() -> Response:
    address = request.form.get("email", "").strip()
    user = users.reached_at(address)
    current_app.password_limits.count_try(
        uptime(),
        current_session().label,
        # One count of a user, by phone and by e-mail; an address that nobody has counts alike.
        f"user {user.id}" if user else users.reach_of(address),
        request.remote_addr or "",
        authentication.known_browser(user.id if user else None),
    )
    # Without a user the password is hashed all the same: the time must not reveal who has a login.
    password_hash = passwords.find_hash(user.id if user else None)
    if passwords.matches(password_hash, request.form.get("password", "")) and user is not None:
        # The password may have been changed while this one was hashed.
        before = partial(_require_password, user.id, password_hash)
        return _enter(user.id, next_path(), before=before)
    raise _wrong_login()


@pages.get("/forgot")
def forgot_page(form: Form | None = None) -> Response:
    return render("login/forgot.html", form=form or Form())


@pages.post("/forgot", page=forgot_page)
def send_reset_link() -> Response:
    email = load_form(EMAIL_IN)["email"]
    network = networks_of(request.remote_addr or "")[0]
    to = f"{current_session().label}/{email.lower()}"
    by_whom = f"{to} {network}"
    current_app.email_limits.count_try(uptime(), to_by_network=by_whom, to=to, network=network)
    user, token = users.make_reset_link(email)
    # The text is made for unknown addresses, too, and the mail is sent after the response: neither
    # the page nor its time reveals whether a user has the address.
    url = f"{settings().url_of(current_session().label)}/reset/{token}"
    with force_locale(user.language if user and user.language else languages.language()):
        letter = render_email("new_password", url=url)
    response = see_other("/forgot/sent")
    if user:
        response.call_on_close(partial(current_app.message_queue.enqueue_mail, user.email, *letter))
    return response


@pages.get("/forgot/sent")
def reset_link_sent() -> Response:
    return render("login/sent.html")


@pages.get("/reset/<token>")
def reset_page(token: str, form: Form | None = None) -> Response:
    _find_link(links.RESET, token)
    return render("login/reset.html", form=form or Form(), token=token)


@pages.post("/reset/<token>", page=reset_page)
def reset_password(token: str) -> Response:
    return _enter_by_form(links.RESET, token, gettext("Password changed"))


@pages.get("/invite/<token>")
@pages.get("/i/<token>")  # as an SMS has it
def invite_page(token: str, form: Form | None = None) -> Response:
    user = users.User.find(_find_link(links.INVITE, token).user_id)
    return render("login/invite.html", form=form or Form(), token=token, user=user)


@pages.post("/invite/<token>", page=invite_page)
def accept_invitation(token: str) -> Response:
    return _enter_by_form(links.INVITE, token)


@pages.get("/enter/<token>")
def enter_page(token: str, form: Form | None = None) -> Response:
    # A handover link is opened by the redirect of the sign-up. A login link is used only by the
    # button of its page, because mail programs open links in advance.
    if links.peek(links.HANDOVER, token):
        return _enter_by_link(links.HANDOVER, token)
    link = _find_link(links.LOGIN, token)
    context = {"user": users.User.find(link.user_id), "asks_login": _lacks_login(link.user_id)}
    return render("login/enter.html", form=form or Form(), token=token, **context)


@pages.post("/enter/<token>", page=enter_page)
def enter(token: str) -> Response:
    """Enter by a login link; who could not log in later may choose an address and a password."""
    link = _find_link(links.LOGIN, token)
    text, password = request.form.get("email", ""), request.form.get("password", "")
    if not (text or password) or not _lacks_login(link.user_id):
        return _enter_by_link(links.LOGIN, token)
    address = users.reach_of(text)
    if not address:
        raise Invalid.field("email", "invalid_email", gettext("Enter an e-mail or phone number."))
    data = {"email" if "@" in address else "phone": address}
    return _enter_by_link(links.LOGIN, token, "", passwords.hash_new(password), **data)


@pages.get("/email/<token>")
def email_page(token: str, form: Form | None = None) -> Response:
    link = _find_link(links.EMAIL, token)
    return render("login/email.html", form=form or Form(), token=token, email=link.about)


@pages.post("/email/<token>", page=email_page)
def confirm_email(token: str) -> Response:
    if not users.confirm_email(token):
        _abort_invalid_link()
    return see_other("/", gettext("E-mail address confirmed"))


@pages.post("/logout")
def logout() -> Response:
    """End the session; one of the site is ended by the site, with the method that it accepts."""
    site = request.environ.get(SITE) if me() and me().from_site else None
    response: Response = make_response()
    fields = site.logout_fields(response) if site else None
    session.clear()
    if site and fields is not None:
        response.set_data(render_template("login/leave.html", site=site, fields=fields, me=None))
    else:
        response = redirect(site.home, 303) if site else see_other("/login")
    authentication.log_out(response)
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


def _enter(
    user_id: int, path: str, text: str = "", before: Callable[[], None] = lambda: None
) -> Response:
    """Log the user in, unless `before` refuses it by raising, and redirect to a page.

    Nothing of this browser's earlier session is kept, but a form of this user that waits for it.
    """
    kept_form = session.get(KEPT_FORM, [0])
    is_own_form = kept_form[0] == user_id  # its change waits for this login
    response = see_other(CONTINUE_PATH if is_own_form else path)
    authentication.log_in(response, user_id, before)
    if me():
        sessions.end(me().id, me().user_id)
    # Values of an earlier visitor, such as the phone of a code, must not reach the new session.
    session.clear()
    if is_own_form:
        session[KEPT_FORM] = kept_form
    if text:
        flash(text)
    return response


def _enter_by_link(
    purpose: str, token: str, text: str = "", password_hash: str | None = None, **data: str
) -> Response:
    """Use a link to log its user in, with a new password and address: all of it, or nothing.

    Raises Conflict `duplicate_user` for an address that another user has.
    """
    link = _find_link(purpose, token)

    def use_link() -> None:
        if links.use(purpose, token) is None:
            _abort_invalid_link()
        if data:
            users.update(link.user_id, data)
        if password_hash:
            passwords.store_hash(link.user_id, password_hash)
            sessions.end_others(link.user_id)

    return _enter(link.user_id, "/", text, use_link)


def _enter_by_form(purpose: str, token: str, text: str = "") -> Response:
    """Use a link whose form may set a password, and must set it for a reset.

    Raises Invalid for a password that can't be one; the link stays good then.
    """
    _find_link(purpose, token)
    password = request.form.get("password", "")
    must_hash = password or purpose == links.RESET
    # Hashing is slow, so it is done before the transaction in which the link is used.
    password_hash = passwords.hash_new(password) if must_hash else None
    return _enter_by_link(purpose, token, text, password_hash)


def _lacks_login(user_id: int) -> bool:
    """Whether the user can log in only by links of the operator: no site's login, no address."""
    user = users.User.find(user_id)
    return not (user.phone or user.email or user.site_id)


def _find_link(purpose: str, token: str) -> links.OneTimeLink:
    link = links.peek(purpose, token)
    if link is None:
        _abort_invalid_link()
    return link


def _require_password(user_id: int, password_hash: str | None) -> None:
    if passwords.find_hash(user_id) != password_hash:
        raise _wrong_login()


def _wrong_login() -> Invalid:
    detail = gettext("Wrong password, e-mail address or phone number.")
    return Invalid.field("password", "wrong_login", detail)
