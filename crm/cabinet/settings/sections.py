"""What the pages of settings share: their blueprint, their sections and their layout."""

from typing import Any

from werkzeug.wrappers import Response

from crm.api.operations import PREFIX
from crm.cabinet.languages import N_, gettext
from crm.cabinet.rendering import OWNER, VIEWER, Pages, me, render, see_other
from crm.storage.session import current_session, settings

pages = Pages("settings", role=OWNER)

PROFILE, PLAN = "profile", "plan"
# Name in the path -> icon, title and description.
SECTIONS = {
    PROFILE: (
        "person-circle",
        N_("My profile"),
        N_("Name, language, e-mail, password, where you are logged in."),
    ),
    "company": ("building", N_("Company"), N_("Name, currency, time zone.")),
    "users": ("people", N_("Users"), N_("Who works here, and what each may do.")),
    "pipelines": ("kanban", N_("Pipelines"), N_("The stages that deals go through.")),
    "forms": ("ui-checks", N_("Website form"), N_("A form for your website that creates leads.")),
    "api-keys": ("key", N_("API keys"), N_("What other programs may read and change.")),
    "webhooks": ("broadcast", N_("Webhooks"), N_("Integrations: notify other programs of events.")),
    PLAN: ("speedometer", N_("Plan"), N_("Request and storage limits and their usage.")),
}


def sections() -> list[tuple[str, str, str, str]]:
    """The pages that the role may see: path, icon, title and description of each."""
    return [
        (f"/settings/{name}", icon, gettext(title), gettext(about))
        for name, (icon, title, about) in SECTIONS.items()
        if (name == PROFILE or me().role == OWNER) and (name != PLAN or has_plans())
    ]


def has_plans() -> bool:
    """Whether this server offers plans: only where strangers can sign up."""
    return settings().signup


@pages.get("/settings", role=VIEWER)
def overview() -> Response:
    return show("overview.html") if me().role == OWNER else see_other("/settings/profile")


def show(template: str, **context: Any) -> Response:
    """Render a page of settings."""
    return render(f"settings/{template}", sections=sections(), **context)


def home() -> str:
    """The address of the business, as links to it are written (D18)."""
    return settings().url_of(current_session().label)


def api() -> str:
    """Where its API begins."""
    return f"{home()}{PREFIX}"
