"""The page of the trash: what was deleted in the last 30 days, with a button that restores it."""

from werkzeug.wrappers import Response

from crm.cabinet import labels
from crm.cabinet.languages import N_, gettext
from crm.cabinet.records.filters import FilterField, is_filtered, read_query
from crm.cabinet.rendering import Pages, render
from crm.resources import trash

RESOURCES = {
    "leads": N_("Lead"),
    "clients": N_("Client"),
    "deals": N_("Deal"),
    "products": N_("Product"),
    "tasks": N_("Task"),
}

pages = Pages("trash")


@pages.get("/trash")
def list_trash() -> Response:
    resources = {resource: gettext(label) for resource, label in RESOURCES.items()}
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
