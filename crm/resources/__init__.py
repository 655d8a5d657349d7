"""What the CRM keeps: one module per noun of the specification. Adding one is one line here."""

from crm.api.openapi import Api, describe_webhooks
from crm.resources import changes, event_feed, notes, tasks, users, webhooks
from crm.resources.clients import endpoints as clients
from crm.resources.clients.record import CLIENT
from crm.resources.deals import endpoints as deals
from crm.resources.deals.record import DEAL
from crm.resources.leads import endpoints as leads
from crm.resources.leads.record import LEAD
from crm.resources.pipelines import endpoints as pipelines
from crm.resources.products import endpoints as products
from crm.resources.products.record import PRODUCT
from crm.resources.task_columns import TASKS
from crm.resources.tasks import TASK
from crm.spreadsheets import endpoints as imports

# How the changes of each noun are shown.
SHAPES = {"leads": LEAD, "clients": CLIENT, "deals": DEAL, "products": PRODUCT, "tasks": TASK}

imports.add_endpoints(tasks.blueprint, TASKS, tasks.TaskFilter)


def register(api: Api) -> None:
    """All endpoints, in the specification's order."""
    nouns = (leads, clients, deals, products, tasks, pipelines, users)
    more = (imports, notes, event_feed, webhooks)
    for module in (*nouns, *more):
        api.register_blueprint(module.blueprint)
    api.register_blueprint(changes.endpoints(SHAPES))
    describe_webhooks(api, event_feed.TOLD)
