"""The private address of the user's calendar, and the calendar that is read there."""

from flask import request
from werkzeug.wrappers import Response

from crm.access import calendar_addresses
from crm.api.operations import etag_of
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import VIEWER, me, see_other
from crm.cabinet.settings import identity
from crm.cabinet.settings.sections import home, pages, show
from crm.errors import NotFound
from crm.resources import task_calendar

PATH = "/settings/profile/calendar"


@pages.post(PATH, role=VIEWER)
def make_calendar_address() -> Response:
    """Show a new address, once the user is proved to be the user; it outlasts the session."""
    if not task_calendar.is_installed():
        raise NotFound
    with identity.proven_change():
        token = calendar_addresses.create(me().user_id)
    # No redirect: this response is the only one that has the address.
    return show("calendar.html", url=f"{home()}/calendar/{token}.ics")


@pages.post(f"{PATH}/end", role=VIEWER)
def end_calendar_address() -> Response:
    calendar_addresses.end(me().user_id)
    return see_other("/settings/profile#calendar", gettext("The address does not work any more"))


@pages.get("/calendar/<token>.ics", role=None)
def read_calendar(token: str) -> Response:
    """The calendar, for a program that has the address and no session."""
    user_id = calendar_addresses.find_user(token)
    if user_id is None or not task_calendar.is_installed():
        raise NotFound
    body = task_calendar.write_calendar(user_id)
    response = Response(body, mimetype="text/calendar")
    response.set_etag(etag_of(body))
    return response.make_conditional(request)
