"""A user's calendar at its private address, which calendar programs read."""

from flask import request
from werkzeug.wrappers import Response

from crm.access import calendar_tokens, sessions
from crm.cabinet.rendering import Pages
from crm.cabinet.settings.sections import home
from crm.resources import calendar, tenant

pages = Pages("calendar", role=None)


@pages.get("/calendar/<token>.ics")
def show_calendar(token: str) -> Response:
    user_id, role = calendar_tokens.find_user(token)
    sessions.act_as(user_id, role)
    body = calendar.write(user_id, tenant.about()["name"], home())
    response = Response(body, content_type="text/calendar; charset=utf-8")
    response.add_etag()
    return response.make_conditional(request.environ)
