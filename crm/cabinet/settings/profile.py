"""The profile of the user: name, language, e-mail, password and sessions."""

from flask import request
from werkzeug.wrappers import Response

from crm.access import api_keys, calendar_tokens, passwords, sessions
from crm.cabinet import languages
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import force_locale, gettext
from crm.cabinet.login import authentication
from crm.cabinet.rendering import OWNER, VIEWER, flash, me, see_other
from crm.cabinet.settings import alert_choices, emails, identity
from crm.cabinet.settings.sections import home, pages, show
from crm.errors import Invalid, NotFound
from crm.resources import users
from crm.storage.session import time_before

PATH = "/settings/profile"
RECENT_KEY_SECONDS = 30 * 86_400
BROWSERS = ("Edg", "OPR", "YaBrowser", "SamsungBrowser", "Firefox", "Chrome", "Safari")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux")
NAMES = {"Edg": "Edge", "OPR": "Opera", "SamsungBrowser": "Samsung", "Mac OS": "macOS"}


@pages.get(PATH, role=VIEWER)
def show_profile(**forms: Form) -> Response:
    """`forms`: those of the page that were refused."""
    user = users.USER.one(me().user_id)
    own_forms = {
        "form": Form({"name": user["name"], "language": languages.language()}),
        "address": Form({"email": user["email"]}),
        "secret": Form(),
    }
    return show(
        "profile.html",
        user=user,
        has_password=identity.asks_password(),
        is_fresh=identity.is_fresh(),
        sessions=sessions.list_live(me().user_id),
        recent_keys=_list_recent_keys(),
        browser=browser,
        has_calendar=calendar_tokens.exists(me().user_id),
        **own_forms | alert_choices.context() | forms,
    )


@pages.post(PATH, role=VIEWER, page=show_profile)
def change_profile() -> Response:
    data = {} if me().from_site else load_form(users.USER_PATCH, ("name",))
    language = request.form.get("language", "")
    if language not in languages.LANGUAGES:
        raise Invalid.field("language", "invalid_choice", "must be one of the list")
    users.update(me().user_id, {**data, "language": language})
    with force_locale(language):  # the message is shown by the next page, in the new language
        return see_other(PATH, gettext("Saved."))


@pages.post(f"{PATH}/alerts", role=VIEWER, page=show_profile, form_name="alerts")
def choose_alerts() -> Response:
    alert_choices.save()
    return see_other(f"{PATH}#alerts", gettext("Saved."))


@pages.post(f"{PATH}/email", role=VIEWER, page=show_profile, form_name="address")
def ask_for_email() -> Response:
    _require_own_login()
    user = users.User.find(me().user_id)
    email = load_form(users.USER_PATCH, ("email",)).get("email")
    if not email:
        raise Invalid.field("email", "required", "this field is required")
    if email == user.email:
        return see_other(PATH)
    with identity.proven_change(fresh_login_suffices=False):
        emails.confirm(user, email)
    text = gettext("Please open the link that we have sent to %(email)s.", email=email)
    return see_other(PATH, text, "info")


@pages.post(f"{PATH}/password", role=VIEWER, page=show_profile, form_name="secret")
def change_password() -> Response:
    _require_own_login()
    hash_before = identity.prove()
    password_hash = passwords.hash_new(request.form.get("password", ""))
    # Hashed before the transaction, because it is slow; the proof is checked again inside it.
    user_id, session_id = me().user_id, me().id

    def end_others() -> None:
        identity.check_again(hash_before)
        sessions.end_others(user_id, session_id)

    passwords.store_hash(user_id, password_hash, before=end_others)
    text = gettext("Password changed. You have been logged out on all other devices.")
    token = request.cookies[authentication.cookie_name()]
    return authentication.remember_browser(see_other(PATH, text), token)


@pages.post(f"{PATH}/sessions/<id>/end", role=VIEWER)
def end_session(id: str) -> Response:
    was_live = sessions.end(id, me().user_id, forget=True)
    return see_other(PATH, gettext("Session ended") if was_live else "")


@pages.post(f"{PATH}/sessions/end-others", role=VIEWER)
def end_other_sessions() -> Response:
    sessions.end_others(me().user_id, me().id)
    response = see_other(PATH, gettext("You have been logged out on all other devices."))
    if _list_recent_keys():
        flash(gettext("API keys stay valid: check those made lately, below."), "warning")
    return response


@pages.post(f"{PATH}/calendar", role=VIEWER)
def make_calendar() -> Response:
    with identity.proven_change():
        token = calendar_tokens.create(me().user_id)
    # No redirect: this response is the only one that has the address.
    return show("calendar.html", address=f"{home()}/calendar/{token}.ics")


@pages.post(f"{PATH}/calendar/end", role=VIEWER)
def end_calendar() -> Response:
    calendar_tokens.end(me().user_id)
    return see_other(PATH, gettext("The address of your calendar is no longer valid."))


def _list_recent_keys() -> list[api_keys.ApiKey]:
    """Return the owner's own valid keys of the last RECENT_KEY_SECONDS, the newest first."""
    if me().role != OWNER:
        return []  # only owners manage keys
    since, keys = time_before(RECENT_KEY_SECONDS), reversed(api_keys.list_all())
    own_keys = (key for key in keys if key.user_id == me().user_id and key.state() == "live")
    return [key for key in own_keys if key.created_at > since]


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
