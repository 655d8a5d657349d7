"""A program with the CRM that test_signatures.py gives to mypy: it is checked, never run.

The records are only in the stub: a program that runs imports them under `if TYPE_CHECKING:`. mypy
refuses an `ignore` that is not needed, so each one here stands for an error that is found.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal, assert_type

from crm import CRM
from crm.embedding.attributes import DealItem, Lead, Page

crm = CRM(data="crm-data", tenant="acme")

lead = crm.leads.create(name="Марія", phone="067 123 45 67", amount=Decimal("12.50"), tags=["опт"])
assert_type(lead, Lead)
assert_type(lead["phone"], str | None)
assert_type(lead["status"], Literal["new", "in_progress", "qualified", "unqualified", "converted"])
assert_type(crm.leads.update(lead["id"], comment="!", version=lead["version"]), Lead)
assert_type(crm.leads.list(status=["new", "qualified"], limit=10), Page[Lead])
assert_type(crm.leads.list(created_since=datetime.now(UTC)).records[0], Lead)
assert_type(crm.leads.convert(7)["deal_id"], str)
assert_type(crm.products.export_csv(active=True), bytes)
assert_type(crm.deals.items.create(7, name="Доставка", price=350.5), DealItem)
assert_type(crm.deals.items.create(7, items=[{"name": "A", "price": 1}]), list[DealItem])
assert_type(crm.webhooks.create(url="https://erp.example.com/crm")["secret"], str)
crm.tasks.create(title="Дзвінок", due_at=datetime.now(UTC), lead_id=lead["id"])
crm.leads.delete(lead["id"])

crm.leads.create(phone="067 123 45 67")  # type: ignore[call-arg]
crm.leads.create(name="Марія", phon="067 123 45 67")  # type: ignore[call-arg]
crm.leads.create("Марія")  # type: ignore[call-arg]
crm.leads.create(name=5)  # type: ignore[arg-type]
crm.leads.update(lead["id"], status="nonsense")  # type: ignore[arg-type]
crm.leads.get()  # type: ignore[call-arg]
crm.lead.get(1)  # type: ignore[attr-defined]
lead["fone"]  # type: ignore[typeddict-item]
