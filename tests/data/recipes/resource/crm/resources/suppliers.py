"""Suppliers: companies that we buy from. A supplier has a name."""

from typing import Any

from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.records import columns, pagination
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.records.record import SoftDeletedRecord
from crm.records.retention import erase_deleted
from crm.records.schemas import schema_of
from crm.records.views import RecordView
from crm.tenancy.database import transaction


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


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Supplier:
    """Change the sent fields of a supplier. Raises NotFound and Stale."""
    with transaction():
        supplier = Supplier.find(id, expected_version)
        supplier.put(data)
        return supplier


def delete(id: int | str, expected_version: int | None = None) -> Supplier:
    """Soft-delete a supplier. Raises NotFound and Stale."""
    with transaction():
        supplier = Supplier.find(id, expected_version)
        supplier.remove()
        return supplier


SupplierSchema = schema_of(Supplier)
SUPPLIER = RecordView(SupplierSchema.out("SupplierOut"), "supplier")
SUPPLIER_IN = SupplierSchema.body("SupplierIn")
SUPPLIER_PATCH = SupplierSchema.patch("SupplierPatch")
SUPPLIER_FILTER = filter_of(Supplier, sort="name")()

blueprint = Blueprint("suppliers", "Companies that we buy from.", N_("Suppliers"))


@blueprint.get("/suppliers")
@blueprint.arguments(SUPPLIER_FILTER, location="query")
@blueprint.page(page_of(SUPPLIER.schema, deleted=True))
def list_suppliers(query: Query) -> Page:
    """List suppliers by name."""
    return pagination.page(SUPPLIER, query, SUPPLIER_FILTER.fields["sort"])


@blueprint.post("/suppliers")
@blueprint.arguments(SUPPLIER_IN, example={"name": "ТОВ Лісопилка", "phone": "+380441110002"})
@blueprint.created("supplier", SUPPLIER)
@blueprint.conflicts()
def create_supplier(data: dict[str, Any]) -> int:
    """Create a supplier."""
    return create(data)


@blueprint.get("/suppliers/<id>")
@blueprint.one(SUPPLIER)
def get_supplier(id: str) -> dict[str, Any]:
    """Get one supplier."""
    return SUPPLIER.one(id)


@blueprint.patch("/suppliers/<id>")
@blueprint.arguments(SUPPLIER_PATCH)
@blueprint.one(SUPPLIER)
@blueprint.conflicts()
def change_supplier(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a supplier."""
    return SUPPLIER.one(update(id, data, expected_version).id)


@blueprint.delete("/suppliers/<id>")
@blueprint.empty()
def delete_supplier(id: str, expected_version: int | None = None) -> None:
    """Delete a supplier."""
    delete(id, expected_version)
