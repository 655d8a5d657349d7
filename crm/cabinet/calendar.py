"""A user's calendar at its private address, which calendar programs read."""

from hashlib import sha256

from flask import request
from werkzeug.wrappers import Response

from crm import __version__
from crm.access import calendar_tokens, sessions
from crm.cabinet.rendering import Pages
from crm.cabinet.settings.sections import home
from crm.json import dumps
from crm.resources import calendar, tenant

pages = Pages("calendar", role=None)


@pages.get("/calendar/<token>.ics")
def show_calendar(token: str) -> Response:
    user_id, role = calendar_tokens.find_user(token)
    sessions.act_as(user_id, role)
    content = calendar.list_tasks(user_id), tenant.about()["name"], home()
    etag = sha256(dumps([*content, __version__])).hexdigest()
    # Programs ask each hour for what has seldom changed: then it is not written.
    is_known = request.if_none_match.contains_weak(etag)
    body = b"" if is_known else calendar.write(*content)
    response = Response(body, content_type="text/calendar; charset=utf-8")
    response.set_etag(etag)
    return response.make_conditional(request.environ)
