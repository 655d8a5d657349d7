"""The resources of the specification, one module or package each. Adding one is one line here."""

from crm.access import rights
from crm.api.openapi import Api
from crm.resources import (
    changes,
    event_feed,
    export_links,
    merging,
    notes,
    personal_data,
    proposals,
    saved_views,
    timeline,
    trash,
    users,
    webhooks,
)
from crm.resources.batches import endpoints as batch_endpoints
from crm.resources.bulk import endpoints as bulk_endpoints
from crm.resources.clients import record as clients
from crm.resources.clients.csv_columns import CLIENTS
from crm.resources.custom_fields import endpoints as field_endpoints
from crm.resources.deals import client_changes
from crm.resources.deals import record as deals
from crm.resources.deals.csv_columns import DEALS
from crm.resources.files import endpoints as file_endpoints
from crm.resources.files import form_files  # noqa: F401  # its operation
from crm.resources.files import record as files
from crm.resources.inbound import endpoints as inbound_endpoints
from crm.resources.inbound import hooks
from crm.resources.leads import conversion
from crm.resources.leads.csv_columns import LEADS
from crm.resources.main_resources import MAIN_RESOURCES
from crm.resources.papers import endpoints as paper_endpoints
from crm.resources.pipelines import endpoints as pipeline_endpoints
from crm.resources.products import record as products
from crm.resources.products.csv_columns import PRODUCTS
from crm.resources.reports import endpoints as report_endpoints
from crm.resources.tasks import TASKS, add_task_of_stage
from crm.spreadsheets import endpoints as import_endpoints
from crm.spreadsheets.resource import register as register_importable

# In the order in which files are imported: each refers only to records of those before.
for importable in (PRODUCTS, CLIENTS, DEALS, LEADS, TASKS):
    register_importable(importable)
    resource = MAIN_RESOURCES[importable.plural]
    import_endpoints.add_endpoints(resource.blueprint, importable, type(resource.list_filter))
    bulk_endpoints.add_endpoint(resource.blueprint, importable.plural)

# What follows in one resource from a change of another, which does not know of the first.
clients.client_changes = client_changes
deals.create_deal_of_lead = conversion.create_deal
deals.add_task_of_stage = add_task_of_stage
products.require_picture = files.require_picture
users.after_deactivation.append(hooks.pass_on)

# In the specification's order.
BLUEPRINTS = (
    *(resource.blueprint for resource in MAIN_RESOURCES.values()),
    pipeline_endpoints.blueprint,
    field_endpoints.blueprint,
    users.blueprint,
    import_endpoints.blueprint,
    batch_endpoints.blueprint,
    proposals.blueprint,
    trash.blueprint,
    personal_data.blueprint,
    merging.blueprint,
    notes.blueprint,
    file_endpoints.blueprint,
    paper_endpoints.blueprint,
    saved_views.blueprint,
    report_endpoints.blueprint,
    event_feed.blueprint,
    export_links.blueprint,
    webhooks.blueprint,
    inbound_endpoints.blueprint,
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
for plural in MAIN_RESOURCES:
    trash.add_restore(plural, AUDITED_VIEWS[plural])


def register(api: Api) -> None:
    """All endpoints, in the specification's order."""
    for blueprint in BLUEPRINTS:
        api.register_blueprint(blueprint)
    api.register_blueprint(changes.endpoints(AUDITED_VIEWS))
    api.register_blueprint(timeline.endpoints(AUDITED_VIEWS))
    api.event_schemas = event_feed.event_schemas
