"""Connecting the user's Telegram by a one-time code, and disconnecting it."""

from werkzeug.wrappers import Response

from crm.access import links
from crm.alerts import telegram_chats
from crm.cabinet.app import current_app
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import VIEWER, me, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import pages, show
from crm.errors import NotFound
from crm.messages import Undelivered
from crm.storage.session import current_session, settings

PATH = "/settings/profile/telegram"
PROFILE_PATH = "/settings/profile#alerts"


@pages.post(PATH, role=VIEWER)
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


@pages.post(f"{PATH}/end", role=VIEWER)
def disconnect_telegram() -> Response:
    telegram_chats.disconnect(me().user_id)
    return see_other(PROFILE_PATH, gettext("Telegram is disconnected"))
