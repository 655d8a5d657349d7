"""The page of the trash: what was deleted in the last 30 days, with a button that restores it."""

from werkzeug.wrappers import Response

from crm.access import rights
from crm.cabinet import labels
from crm.cabinet.languages import gettext
from crm.cabinet.records.filters import FilterField, is_filtered, read_query
from crm.cabinet.rendering import Pages, render
from crm.resources import trash

pages = Pages("trash")


@pages.get("/trash")
def list_trash() -> Response:
    resources = {plural: gettext(rights.RESOURCES[plural]) for plural in trash.RECORDS}
    users = [("me", gettext("Me")), *labels.user_choices()]
    return render(
        "trash.html",
        page=trash.list_trash(read_query(trash.TRASH_FILTER)),
        resources=resources,
        filters=[
            FilterField("select", "resource", gettext("Type"), [*resources.items()]),
            FilterField("day", "since", gettext("Deleted from")),
            FilterField("select", "by", gettext("Deleted by"), users),
        ],
        is_filtered=is_filtered(),
    )
