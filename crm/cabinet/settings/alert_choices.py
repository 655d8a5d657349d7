"""The part of the profile that says what the user is told, by which channels, and when not.

Telegram is connected by a one-time code.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.access import links
from crm.alerts import alerts, telegram_chats
from crm.alerts.kinds import CHANNELS, KINDS, TELEGRAM
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import RANK, VIEWER, me, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import NotFound
from crm.messages import Undelivered
from crm.resources import users
from crm.storage.session import current_session, settings

TELEGRAM_PATH = "/settings/profile/telegram"
PROFILE_PATH = "/settings/profile#alerts"
HOURS = [f"{hour:02}:00" for hour in range(24)]


def context() -> dict[str, Any]:
    """What the template shows: the user's choices as they are, and what there is to choose."""
    user, installed = users.User.find(me().user_id), alerts.installed_channels()
    quiet = {"quiet_from": user.quiet_from, "quiet_until": user.quiet_until}
    is_connected = telegram_chats.is_connected(user.id)
    return {
        "alerts": Form(alerts.chosen_channels(user.id) | quiet),
        "kinds": _kinds(),
        "channels": [(name, gettext(CHANNELS[name])) for name in installed],
        "hours": [(hour, hour) for hour in HOURS],
        "telegram": TELEGRAM in installed and ("on" if is_connected else "off"),
    }


def save() -> None:
    """Store what the form has."""
    user_id, form = me().user_id, request.form
    alerts.choose_channels(user_id, {kind: form.getlist(kind) for kind, _ in _kinds()})
    quiet = {name: form.get(name, "") for name in ("quiet_from", "quiet_until")}
    has_both = all(hour in HOURS for hour in quiet.values())
    users.update(user_id, quiet if has_both else dict.fromkeys(quiet))


@pages.post(TELEGRAM_PATH, role=VIEWER)
def connect_telegram() -> Response:
    """Show a code and a link to the bot that sends it, once the user is proved to be the user."""
    if not settings().telegram_token:
        raise NotFound
    try:
        bot = current_app.telegram.get_username()
    except Undelivered:
        text = gettext("Telegram does not answer now. Please try again later.")
        return see_other(PROFILE_PATH, text, "warning")
    with identity.proven_change():
        token = links.create(links.TELEGRAM, me().user_id)
    code = f"{current_session().label}_{token}"
    # No redirect: this response is the only one that has the code.
    return show("telegram.html", bot=bot, code=code, url=f"https://t.me/{bot}?start={code}")


@pages.post(f"{TELEGRAM_PATH}/end", role=VIEWER)
def disconnect_telegram() -> Response:
    telegram_chats.disconnect(me().user_id)
    return see_other(PROFILE_PATH, gettext("Telegram is disconnected"))


def _kinds() -> list[tuple[str, str]]:
    """(name, label) of the kinds of alerts that the user's role may get."""
    rank = RANK[me().role]
    return [
        (name, gettext(kind.label))
        for name, kind in KINDS.items()
        if rank >= min((RANK[role] for role in kind.roles), default=0)
    ]
