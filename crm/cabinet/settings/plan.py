"""The plan: the requests a minute and the storage that it allows, and what is used of both.

Only where sign-up is open: there somebody else may provide the service.
"""

from werkzeug.wrappers import Response

from crm.access.limits import WINDOW_SECONDS
from crm.cabinet.app import current_app
from crm.cabinet.settings.sections import has_plans, pages, show
from crm.errors import NotFound
from crm.resources import tenant
from crm.tenancy import quota
from crm.tenancy.clocks import uptime
from crm.tenancy.database import current_session, settings


@pages.get("/settings/plan")
def show_plan() -> Response:
    if not has_plans():
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
        storage=quota.storage(),
        plans=[(name, number, settings().storage[name]) for name, number in plans.items()],
    )
