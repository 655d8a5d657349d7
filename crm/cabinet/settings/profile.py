"""The own profile: name, language, e-mail, password, and where one is logged in."""

from flask import request
from werkzeug.wrappers import Response

from crm.access import passwords, sessions
from crm.cabinet import authentication, languages
from crm.cabinet.forms import Form, take
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.rendering import VIEWER, again, me, onward, told
from crm.cabinet.settings import emails, identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid, NotFound
from crm.resources import users
from crm.resources.users import USER, USER_PATCH, User
from crm.tenancy.database import transaction

PATH = "/settings/profile"
BROWSERS = ("Edg", "OPR", "YaBrowser", "SamsungBrowser", "Firefox", "Chrome", "Safari")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
NAMES = {"Edg": "Edge", "OPR": "Opera", "SamsungBrowser": "Samsung", "Mac OS": "macOS"}


@pages.get(PATH, role=VIEWER)
def show_profile(**forms: Form) -> Response:
    """`forms`: those of the page that were refused."""
    user = USER.one(me().user_id)
    found = {
        "form": Form({"name": user["name"], "language": languages.language()}),
        "address": Form({"email": user["email"]}),
        "secret": Form(),
        **forms,
    }
    return show(
        "profile.html",
        user=user,
        has_password=identity.asks_password(),
        is_fresh=identity.is_fresh(),
        sessions=sessions.list_live(me().user_id),
        browser=browser,
        **found,
    )


@pages.post(PATH, role=VIEWER)
@again(lambda form: show_profile(form=form))
def change_profile() -> Response:
    data = {} if me().from_site else take(USER_PATCH, request.form, ("name",))
    language = request.form.get("language", "")
    if language not in languages.LANGUAGES:
        raise Invalid.field("language", "invalid_choice", "must be one of the list")
    with transaction():
        User.find(me().user_id).change({**data, "language": language})
    with force_locale(language):
        told(gettext("Saved."))
    return onward(PATH)


@pages.post(f"{PATH}/email", role=VIEWER)
@again(lambda form: show_profile(address=form))
def ask_for_email() -> Response:
    _has_login_here()
    user = User.find(me().user_id)
    email = take(USER_PATCH, request.form, ("email",)).get("email")
    if not email:
        raise Invalid.field("email", "required", "this field is required")
    if email == user.email:
        return onward(PATH)
    proof = identity.prove("email_password")
    with transaction():
        proof.check_again()
        user = User.find(user.id)
        users.is_free({"email": email}, user.id)
        emails.confirm(user, email)
    told(gettext("Please open the link that we have sent to %(email)s.", email=email), "info")
    return onward(PATH)


@pages.post(f"{PATH}/password", role=VIEWER)
@again(lambda form: show_profile(secret=form))
def change_password() -> Response:
    _has_login_here()
    proof = identity.prove("current")
    password_hash = passwords.hash_new(request.form.get("password", ""))
    with transaction():
        proof.check_again()
        passwords.store_hash(me().user_id, password_hash)
        sessions.end_others(me().user_id, me().id)
    told(gettext("Password changed. You have been logged out on all other devices."))
    return authentication.remember_browser(
        onward(PATH), request.cookies[authentication.cookie_name()]
    )


@pages.post(f"{PATH}/sessions/<id>/end", role=VIEWER)
def end_session(id: str) -> Response:
    if sessions.end(id, me().user_id, forget=True):
        told(gettext("Session ended"))
    return onward(PATH)


@pages.post(f"{PATH}/sessions/end-others", role=VIEWER)
def end_other_sessions() -> Response:
    sessions.end_others(me().user_id, me().id)
    told(gettext("You have been logged out on all other devices."))
    return onward(PATH)


def _has_login_here() -> None:
    """Whom the site around lets in has address and password there."""
    if me().from_site:
        raise NotFound


def browser(agent: str) -> str:
    """What a browser calls itself, in two words: "Firefox, Windows"."""
    found = [
        next((NAMES.get(name, name) for name in names if name in agent), "")
        for names in (BROWSERS, SYSTEMS)
    ]
    return ", ".join(filter(None, found)) or agent[:64] or gettext("Unknown browser")
