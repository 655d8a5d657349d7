"""The resources of the specification, one module or package each. Adding one is one line here."""

from crm.access import rights
from crm.api.openapi import Api
from crm.resources import changes, event_feed, notes, tasks, users, webhooks
from crm.resources.clients import endpoints as client_endpoints
from crm.resources.deals import endpoints as deal_endpoints
from crm.resources.leads import endpoints as lead_endpoints
from crm.resources.pipelines import endpoints as pipeline_endpoints
from crm.resources.products import endpoints as product_endpoints
from crm.resources.task_csv_columns import TASKS
from crm.spreadsheets import endpoints as import_endpoints

import_endpoints.add_endpoints(tasks.blueprint, TASKS, tasks.TaskFilter)

# In the specification's order.
BLUEPRINTS = (
    lead_endpoints.blueprint,
    client_endpoints.blueprint,
    deal_endpoints.blueprint,
    product_endpoints.blueprint,
    tasks.blueprint,
    pipeline_endpoints.blueprint,
    users.blueprint,
    import_endpoints.blueprint,
    notes.blueprint,
    event_feed.blueprint,
    webhooks.blueprint,
)

rights.add_resources(
    {blueprint.name: blueprint.label for blueprint in BLUEPRINTS if blueprint.label},
    {
        scope
        for blueprint in BLUEPRINTS
        for operation in blueprint.operations.values()
        for scope in operation.needs or ()
    },
)

# How the changes of each resource are shown whose records have an audit trail.
AUDITED_VIEWS = {
    blueprint.name: view
    for blueprint in BLUEPRINTS
    for rule, view in blueprint.views.items()
    if rule == f"/{blueprint.name}/<id>" and view.has_audit_trail
}


def register(api: Api) -> None:
    """All endpoints, in the specification's order."""
    for blueprint in BLUEPRINTS:
        api.register_blueprint(blueprint)
    api.register_blueprint(changes.endpoints(AUDITED_VIEWS))
    api.add_webhooks(event_feed.EVENT_DATA_SCHEMAS)
