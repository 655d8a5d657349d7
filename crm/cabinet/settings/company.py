"""The company: its name and logo, its default currency and its time zone, and who gets new leads;
and its plan, the requests a minute and the storage that it allows, and what is used of both.

There is a plan only where sign-up is open: there somebody else may provide the service.
"""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm import values
from crm.api.request_limits import WINDOW_SECONDS
from crm.cabinet import labels
from crm.cabinet.app import current_app
from crm.cabinet.forms import Form, object_value
from crm.cabinet.languages import gettext
from crm.cabinet.records.record_fields import object_fields
from crm.cabinet.rendering import see_other
from crm.cabinet.settings.sections import home, pages, show
from crm.errors import NotFound
from crm.papers.requisites import PaperSettings, Requisites
from crm.resources import logo, tenant
from crm.resources.leads import record as leads
from crm.resources.papers import company
from crm.resources.users import User
from crm.storage.clocks import uptime
from crm.storage.quota import measure_storage
from crm.storage.session import current_session, settings

USUAL = ("UAH", "USD", "EUR")
PAPER_COLOR = "#1d3f5e"  # as crm/papers/paper.typ has it


@pages.get("/settings/company")
def show_company(form: Form | None = None, papers: Form | None = None) -> Response:
    """`papers`: a refused form of what papers say."""
    currencies = [*USUAL, *sorted(set(values.CURRENCIES) - {*USUAL})]
    return show(
        "company.html",
        form=form or Form(tenant.about()),
        papers=papers or Form(_flat_papers()),
        requisites=object_fields("requisites", Requisites.parts),
        paper_settings=object_fields("paper_settings", PaperSettings.parts),
        currencies=[(code, code) for code in currencies],
        zones=[(zone, zone.replace("_", " ")) for zone in tenant.time_zones()],
        home=home(),
        colleagues=User.every("active = 1 AND role <> 'viewer' ORDER BY sort_key, id"),
        turns=leads.list_users_in_turn(),
    )


@pages.post("/settings/company/turns", page=show_company)
def choose_turns() -> Response:
    leads.choose_users_in_turn(request.form.getlist("turns", type=int))
    return see_other("/settings/company", gettext("Saved."))


@pages.post("/settings/company", page=show_company)
def change_company() -> Response:
    names = ("name", "currency", "time_zone")
    sent = {name: request.form.get(name, "") for name in names}
    tenant.update(**sent, sellers_see_unassigned="sellers_see_unassigned" in request.form)
    return see_other("/settings/company", gettext("Saved."))


def _flat_papers() -> dict[str, Any]:
    """The values of the form of papers."""
    about = company.about()
    about["paper_settings"]["color"] = about["paper_settings"]["color"] or PAPER_COLOR
    flat = labels.flat_object("requisites", Requisites.parts, about["requisites"])
    return flat | labels.flat_object("paper_settings", PaperSettings.parts, about["paper_settings"])


@pages.post("/settings/company/papers", page=show_company, form_name="papers")
def change_papers() -> Response:
    fields = company.COMPANY.fields.items()
    company.update(**{name: object_value(field, name) for name, field in fields})
    return see_other("/settings/company#papers", gettext("Saved."))


@pages.post("/settings/company/logo", page=show_company)
def change_logo() -> Response:
    upload = request.files.get("logo")
    if "remove" in request.form:
        logo.delete()
    else:
        logo.save(upload.read(logo.MAX_BYTES + 1) if upload else b"")
    return see_other("/settings/company", gettext("Saved."))


@pages.get("/settings/plan")
def show_plan() -> Response:
    if not settings().signup:
        raise NotFound
    label, plans = current_session().label, settings().plans
    moment = uptime()
    plan = tenant.about()["plan"]
    return show(
        "plan.html",
        plan=plan,
        limit=plans[plan],
        used=current_app.limiter.get_count(label, moment),
        seconds=WINDOW_SECONDS - int(moment) % WINDOW_SECONDS,
        storage=measure_storage(),
        plans=[(name, number, settings().storage[name]) for name, number in plans.items()],
    )
