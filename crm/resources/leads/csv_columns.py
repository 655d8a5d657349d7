"""Leads in files (spec: Leads; D5).

A converted lead is imported together with its deal, which exists already: `deal_id` or
`deal_external_id` name it. The lead's client is that of the deal.
"""

from collections.abc import Callable
from typing import Any

from crm.errors import Invalid
from crm.resources.leads import conversion
from crm.resources.leads.record import LEAD_IN, Lead, create
from crm.resources.user_references import ImportableRecord
from crm.spreadsheets.references import References
from crm.spreadsheets.resource import Entry


class ImportableLeads(ImportableRecord):
    record, body = Lead, LEAD_IN
    column_of_conflict = {
        "duplicate_external_id": "external_id",
        "lead_already_converted": "status",
    }
    about_required_scopes = ", to convert leads `deals:write` too"

    def required_scopes(self, has_values: Callable[..., bool]) -> list[str]:
        return ["deals:write"] if has_values("deal_id", "deal_external_id") else []

    def resolve_references(
        self, values: dict[str, Any], record: Any, source: str | None, references: References
    ) -> dict[str, Any]:
        super().resolve_references(values, record, source, references)
        deal_id = values.pop("deal_id", None)
        old_status = record.status if record else "new"
        status = values.get("status", old_status)
        if deal_id is not None and status != "converted":
            raise Invalid.field("deal_id", "not_converted", "goes with the status converted")
        if old_status == "converted":
            if deal_id not in (None, record.deal_id):
                raise Invalid.field("deal_id", "read_only", "a converted lead keeps its deal")
        elif status == "converted":
            if deal_id is None:
                raise Invalid.field(
                    "deal_id", "required", "a converted lead is imported with a deal"
                )
            # import_converted() sets the status, together with the deal and its client.
            values["deal_id"] = deal_id
            del values["status"]
        return values

    def create(self, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        deal_id, converted_at = data.pop("deal_id", None), data.pop("converted_at", None)
        id = create(data)
        if deal_id is not None:
            conversion.import_converted(id, deal_id, converted_at)
        return id

    def update(self, record: Any, data: dict[str, Any], entry: Entry, source: str | None) -> int:
        deal_id = data.pop("deal_id", None)
        record.update_fields(data)
        if deal_id is not None:
            return conversion.import_converted(record.id, deal_id, None).version
        return record.version


LEADS = ImportableLeads()
