"""The plan: how many requests a minute it allows, and how many of them this minute has used."""

from flask import current_app
from werkzeug.wrappers import Response

from crm.access.limits import WINDOW
from crm.cabinet.settings.frame import pages, show
from crm.resources import tenant
from crm.tenancy.clocks import uptime
from crm.tenancy.database import settings, visit


@pages.get("/settings/plan")
def show_plan() -> Response:
    here, plans = visit(), settings().plans
    moment = uptime()
    plan = tenant.about()["plan"]
    return show(
        "plan.html",
        plan=plan,
        limit=plans[plan],
        used=current_app.limiter.used(here.label, moment),
        seconds=WINDOW - int(moment) % WINDOW,
        plans=plans.items(),
    )
