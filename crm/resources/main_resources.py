"""The resources whose records are listed, imported, changed in bulk, deleted softly and restored.

What is done alike with all of them is made from this declaration.
"""

from typing import NamedTuple

from crm.api.blueprints import Blueprint
from crm.records.queries import Filter
from crm.records.record import SoftDeletedRecord
from crm.records.views import RecordView
from crm.resources import tasks
from crm.resources.clients import endpoints as clients
from crm.resources.clients.record import LISTED_CLIENT, Client
from crm.resources.deals import endpoints as deals
from crm.resources.deals.record import DEAL, Deal
from crm.resources.leads import endpoints as leads
from crm.resources.leads.record import LEAD, Lead
from crm.resources.products import record as products
from crm.resources.products.record import PRODUCT, Product


class MainResource(NamedTuple):
    """A resource: its records, how lists show and filter them, and its operations."""

    record: type[SoftDeletedRecord]
    view: RecordView
    list_filter: Filter
    blueprint: Blueprint


MAIN_RESOURCES = {
    resource.blueprint.name: resource
    for resource in (
        MainResource(Lead, LEAD, leads.LEAD_FILTER, leads.blueprint),
        MainResource(Client, LISTED_CLIENT, clients.CLIENT_FILTER, clients.blueprint),
        MainResource(Deal, DEAL, deals.DEAL_FILTER, deals.blueprint),
        MainResource(Product, PRODUCT, products.PRODUCT_FILTER, products.blueprint),
        MainResource(tasks.Task, tasks.TASK, tasks.TASK_FILTER, tasks.blueprint),
    )
}
