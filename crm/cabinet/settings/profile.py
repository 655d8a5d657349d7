"""The profile of the user: name, language, e-mail, password and sessions."""

from flask import request
from werkzeug.wrappers import Response

from crm.access import passwords, sessions
from crm.cabinet import authentication, languages
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.rendering import VIEWER, flash, me, rerender_on_error, see_other
from crm.cabinet.settings import emails, identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import Invalid, NotFound
from crm.resources import users
from crm.resources.users import USER, USER_PATCH, User

PATH = "/settings/profile"
BROWSERS = ("Edg", "OPR", "YaBrowser", "SamsungBrowser", "Firefox", "Chrome", "Safari")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
NAMES = {"Edg": "Edge", "OPR": "Opera", "SamsungBrowser": "Samsung", "Mac OS": "macOS"}


@pages.get(PATH, role=VIEWER)
def show_profile(**forms: Form) -> Response:
    """`forms`: those of the page that were refused."""
    user = USER.one(me().user_id)
    context = {
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
        **context,
    )


@pages.post(PATH, role=VIEWER)
@rerender_on_error(lambda form: show_profile(form=form))
def change_profile() -> Response:
    data = {} if me().from_site else load_form(USER_PATCH, request.form, ("name",))
    language = request.form.get("language", "")
    if language not in languages.LANGUAGES:
        raise Invalid.field("language", "invalid_choice", "must be one of the list")
    users.update(me().user_id, {**data, "language": language})
    with force_locale(language):  # the message is shown by the next page, in the new language
        flash(gettext("Saved."))
    return see_other(PATH)


@pages.post(f"{PATH}/email", role=VIEWER)
@rerender_on_error(lambda form: show_profile(address=form))
def ask_for_email() -> Response:
    _require_own_login()
    user = User.find(me().user_id)
    email = load_form(USER_PATCH, request.form, ("email",)).get("email")
    if not email:
        raise Invalid.field("email", "required", "this field is required")
    if email == user.email:
        return see_other(PATH)
    proof = identity.prove("email_password")
    emails.confirm(user, email, proof.check_again)
    flash(gettext("Please open the link that we have sent to %(email)s.", email=email), "info")
    return see_other(PATH)


@pages.post(f"{PATH}/password", role=VIEWER)
@rerender_on_error(lambda form: show_profile(secret=form))
def change_password() -> Response:
    _require_own_login()
    proof = identity.prove("current")
    password_hash = passwords.hash_new(request.form.get("password", ""))
    # Hashed before the transaction, because it is slow; the proof is checked again inside it.
    user_id, session_id = me().user_id, me().id

    def end_others() -> None:
        proof.check_again()
        sessions.end_others(user_id, session_id)

    passwords.store_hash(user_id, password_hash, before=end_others)
    flash(gettext("Password changed. You have been logged out on all other devices."))
    return authentication.remember_browser(
        see_other(PATH), request.cookies[authentication.cookie_name()]
    )


@pages.post(f"{PATH}/sessions/<id>/end", role=VIEWER)
def end_session(id: str) -> Response:
    if sessions.end(id, me().user_id, forget=True):
        flash(gettext("Session ended"))
    return see_other(PATH)


@pages.post(f"{PATH}/sessions/end-others", role=VIEWER)
def end_other_sessions() -> Response:
    sessions.end_others(me().user_id, me().id)
    flash(gettext("You have been logged out on all other devices."))
    return see_other(PATH)


def _require_own_login() -> None:
    """Raise NotFound for a user of an embedding site, whose e-mail and password the site has."""
    if me().from_site:
        raise NotFound


def browser(agent: str) -> str:
    """A browser's User-Agent in two words: "Firefox, Windows"."""
    names = [
        next((NAMES.get(name, name) for name in known_names if name in agent), "")
        for known_names in (BROWSERS, SYSTEMS)
    ]
    return ", ".join(filter(None, names)) or agent[:64] or gettext("Unknown browser")
