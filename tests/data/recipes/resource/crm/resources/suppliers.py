"""Suppliers: companies that we buy from. A supplier has a name."""

from typing import Any

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import columns, verbs
from crm.records.columns import N_
from crm.records.queries import filter_of
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.views import declare_views
from crm.storage.session import transaction


class Supplier(SoftDeletedRecord):
    """One supplier, in stored form."""

    noun = "supplier"

    name = columns.Text(
        255, required=True, example="ТОВ Лісопилка", searched=True, sorted=True, label=N_("Name")
    )
    phone = columns.Phone(searched=True, label=N_("Phone"))
    email = columns.Email(searched=True, label=N_("E-mail"))


erase_deleted("supplier")


def create(data: dict[str, Any]) -> int:
    """Add a supplier and return its id."""
    with transaction():
        return Supplier.add(data).id


update, delete, restore = verbs.of(Supplier)


SUPPLIER, SUPPLIER_IN, SUPPLIER_PATCH = declare_views(Supplier)
SUPPLIER_FILTER = filter_of(Supplier, sort="name")()

blueprint = Blueprint("suppliers", "Companies that we buy from.", N_("Suppliers"))

suppliers = Endpoints(blueprint, "/suppliers", SUPPLIER)
suppliers.list(SUPPLIER_FILTER, "List suppliers by name.")
suppliers.create(create, example={"name": "ТОВ Лісопилка", "phone": "+380441110002"})
suppliers.get()
suppliers.change(update)
suppliers.delete(delete)
