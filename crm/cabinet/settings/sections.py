"""What the pages of settings share: their blueprint, their sections and their layout."""

from typing import Any

from werkzeug.wrappers import Response

from crm.api.operations import PREFIX
from crm.cabinet.languages import TEXTS, gettext
from crm.cabinet.rendering import OWNER, VIEWER, Pages, me, render, see_other
from crm.resources.inbound import calls
from crm.storage.session import current_session, settings

pages = Pages("settings", role=OWNER)

INBOUND_HOOKS = "/settings/inbound-hooks"
_SECTIONS = [(name, tuple(section.values())) for name, section in TEXTS["sections"].items()]


def sections() -> list[tuple[str, str, str, str]]:
    """The pages that the role may see: path, icon, title and description of each.

    Plans are offered only where strangers can sign up.
    """
    return [
        (f"/settings/{name}", icon, gettext(title), gettext(about))
        for name, (icon, title, about) in _SECTIONS
        if (name == "profile" or me().role == OWNER) and (name != "plan" or settings().signup)
    ]


@pages.get("/settings", role=VIEWER)
def overview() -> Response:
    return show("overview.html") if me().role == OWNER else see_other("/settings/profile")


def show(template: str, **context: Any) -> Response:
    """Render a page of settings."""
    failed = str(calls.count_failed() or "") if me().role == OWNER else ""
    context["section_counts"] = {INBOUND_HOOKS: (failed, True)}
    return render(f"settings/{template}", sections=sections(), **context)


def home() -> str:
    """The address of the business, as links to it are written (D18)."""
    return settings().url_of(current_session().label)


def api() -> str:
    """Where its API begins."""
    return f"{home()}{PREFIX}"
