"""The overview of settings: all pages, each with what it is for."""

from werkzeug.wrappers import Response

from crm.cabinet.rendering import OWNER, VIEWER, me, see_other
from crm.cabinet.settings.sections import pages, show


@pages.get("/settings", role=VIEWER)
def overview() -> Response:
    return show("overview.html") if me().role == OWNER else see_other("/settings/profile")
