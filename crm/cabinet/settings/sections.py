"""What the pages of settings share: their blueprint, their sections and their layout."""

from typing import Any, NamedTuple

from werkzeug.wrappers import Response

from crm.api.operations import PREFIX
from crm.cabinet.forms import Form
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import OWNER, Pages, me, render
from crm.tenancy.database import current_session, settings

pages = Pages("settings", role=OWNER)


class Section(NamedTuple):
    """One page of settings, as the others lead to it."""

    path: str
    icon: str
    name: str
    about: str


def sections() -> list[Section]:
    """The pages that the role may see."""
    visible = [
        Section(
            "/settings/profile",
            "person-circle",
            gettext("My profile"),
            gettext("Name, language, e-mail, password, where you are logged in."),
        )
    ]
    if me().role != OWNER:
        return visible
    visible = [
        *visible,
        Section(
            "/settings/company",
            "building",
            gettext("Company"),
            gettext("Name, currency, time zone."),
        ),
        Section(
            "/settings/users",
            "people",
            gettext("Users"),
            gettext("Who works here, and what each may do."),
        ),
        Section(
            "/settings/pipelines",
            "kanban",
            gettext("Pipelines"),
            gettext("The stages that deals go through."),
        ),
        Section(
            "/settings/forms",
            "ui-checks",
            gettext("Website form"),
            gettext("A form for your website that creates leads."),
        ),
        Section(
            "/settings/api-keys",
            "key",
            gettext("API keys"),
            gettext("What other programs may read and change."),
        ),
        Section(
            "/settings/webhooks",
            "broadcast",
            gettext("Webhooks"),
            gettext("Integrations: notify other programs of events."),
        ),
    ]
    if has_plans():
        plan = gettext("Request and storage limits and their usage.")
        visible.append(Section("/settings/plan", "speedometer", gettext("Plan"), plan))
    return visible


def has_plans() -> bool:
    """Whether this server offers plans: only where strangers can sign up."""
    return settings().signup


def show(template: str, **context: Any) -> Response:
    """Render a page of settings."""
    return render(f"settings/{template}", sections=sections(), **context)


def with_refusal(values: Any, refused: Form | None = None) -> Form:
    """Return a form of these values, with the messages of another refused form of the page.

    Faults of fields that both forms have are left out: they belong to the refused form.
    """
    shown_form = Form(values)
    if refused:
        shown_form.messages = refused.messages
        shown_form.faults = {
            name: fault for name, fault in refused.faults.items() if name not in values
        }
    return shown_form


def home() -> str:
    """The address of the business, as links to it are written (D18)."""
    return settings().url_of(current_session().label)


def api() -> str:
    """Where its API begins."""
    return f"{home()}{PREFIX}"
