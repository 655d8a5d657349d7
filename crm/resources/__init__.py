"""The resources of the specification, one module or package each. Adding one is one line here."""

from crm.api.openapi import Api
from crm.resources import changes, event_feed, notes, tasks, users, webhooks
from crm.resources.clients import endpoints as client_endpoints
from crm.resources.clients.record import CLIENT
from crm.resources.deals import endpoints as deal_endpoints
from crm.resources.deals.record import DEAL
from crm.resources.leads import endpoints as lead_endpoints
from crm.resources.leads.record import LEAD
from crm.resources.pipelines import endpoints as pipeline_endpoints
from crm.resources.products import endpoints as product_endpoints
from crm.resources.products.record import PRODUCT
from crm.resources.task_csv_columns import TASKS
from crm.resources.tasks import TASK
from crm.spreadsheets import endpoints as import_endpoints

# How the changes of each noun are shown.
SHAPES = {"leads": LEAD, "clients": CLIENT, "deals": DEAL, "products": PRODUCT, "tasks": TASK}

import_endpoints.add_endpoints(tasks.blueprint, TASKS, tasks.TaskFilter)


def register(api: Api) -> None:
    """All endpoints, in the specification's order."""
    modules = (
        *(lead_endpoints, client_endpoints, deal_endpoints, product_endpoints, tasks),
        *(pipeline_endpoints, users),
        *(import_endpoints, notes, event_feed, webhooks),
    )
    for module in modules:
        api.register_blueprint(module.blueprint)
    api.register_blueprint(changes.endpoints(SHAPES))
    api.add_webhooks(event_feed.TOLD)
