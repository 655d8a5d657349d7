"""The address of an export link: a file for a program, such as IMPORTDATA of a spreadsheet."""

from werkzeug.wrappers import Response

from crm.cabinet.app import current_app
from crm.cabinet.rendering import Pages
from crm.resources import export_links
from crm.storage.clocks import uptime
from crm.storage.session import current_session

pages = Pages("export_links", role=None)


@pages.get("/export/<token>.csv")
def give_export(token: str) -> Response:
    id = export_links.find_export(token)
    current_app.limiter.count_export(current_session().label, id, uptime())
    return export_links.export(id)
