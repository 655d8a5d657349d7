"""The logo of the company, as its pages load it."""

from werkzeug.wrappers import Response

from crm.cabinet.rendering import Pages
from crm.errors import NotFound
from crm.resources import logo

pages = Pages("logo", role=None)


@pages.get("/logo")
def show_logo() -> Response:
    """The logo, also for those who have not logged in; its address changes with it."""
    found = logo.read()
    if found is None:
        raise NotFound
    content_type, data = found
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(data, headers=headers, content_type=content_type)
