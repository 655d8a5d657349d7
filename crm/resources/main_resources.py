"""The resources whose records are listed, imported, changed in bulk, deleted softly and restored.

What is done alike with all of them is made from this declaration.
"""

from typing import NamedTuple

from crm.api.blueprints import Blueprint
from crm.records.queries import Filter
from crm.records.record import SoftDeletedRecord
from crm.records.views import RecordView
from crm.resources import tasks
from crm.resources.clients import endpoints as client_endpoints
from crm.resources.clients.record import LISTED_CLIENT, Client
from crm.resources.deals import endpoints as deal_endpoints
from crm.resources.deals.record import DEAL, Deal
from crm.resources.leads import endpoints as lead_endpoints
from crm.resources.leads.record import LEAD, Lead
from crm.resources.products import record as products


class MainResource(NamedTuple):
    """A resource: its records, how lists show and filter them, and its operations."""

    record: type[SoftDeletedRecord]
    view: RecordView
    list_filter: Filter
    blueprint: Blueprint


MAIN_RESOURCES = {
    resource.blueprint.name: resource
    for resource in (
        MainResource(Lead, LEAD, lead_endpoints.LEAD_FILTER, lead_endpoints.blueprint),
        MainResource(
            Client, LISTED_CLIENT, client_endpoints.CLIENT_FILTER, client_endpoints.blueprint
        ),
        MainResource(Deal, DEAL, deal_endpoints.DEAL_FILTER, deal_endpoints.blueprint),
        MainResource(
            products.Product, products.PRODUCT, products.PRODUCT_FILTER, products.blueprint
        ),
        MainResource(tasks.Task, tasks.TASK, tasks.TASK_FILTER, tasks.blueprint),
    )
}
