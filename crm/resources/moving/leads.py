"""Leads as they move by CSV (spec: Leads; D5).

A lead that is converted moves in together with its deal, which is here already: `deal_id` or
`deal_external_id`. Its client is that of the deal.
"""

from typing import Any

from crm.errors import Invalid
from crm.resources.leads import conversion
from crm.resources.leads.record import LEAD_IN, Lead, LeadSchema, create
from crm.resources.moving.cells import columns, id_column, reference
from crm.resources.moving.noun import Entry, Moving
from crm.resources.moving.references import References

LIVE_DEAL = "(SELECT {} FROM deal WHERE deal.id = lead.deal_id AND deleted_at IS NULL)"


class Leads(Moving):
    name, plural, record, body = "lead", "leads", Lead, LEAD_IN
    own_columns = (
        *columns(
            LeadSchema,
            "lead",
            ("external_id", "name", "phone", "email", "company", "position", "source", "status"),
        ),
        reference("assigned_to", "lead.assigned_to", of="users"),
        *columns(
            LeadSchema,
            "lead",
            (
                *("comment", "amount", "currency", "tags"),
                *("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"),
                *("page_url", "referrer", "lost_reason"),
            ),
        ),
        id_column("deal_id", LIVE_DEAL.format("id")),
        reference("deal_external_id", LIVE_DEAL.format("external_id"), of="deals"),
        *columns(
            LeadSchema,
            "lead",
            ("converted_at", "created_at", "extra"),
            new=("converted_at", "created_at"),
        ),
    )

    def shows(self, here: References) -> dict[str, Any]:
        return {"assigned_to": here.text_of_user}

    def settle(
        self, values: dict[str, Any], record: Any, of: str | None, here: References
    ) -> dict[str, Any]:
        deal_id = here.kept("deal", values, of)
        was = record.status if record else "new"
        status = values.get("status", was)
        if (text := values.get("assigned_to")) is not None:
            values["assigned_to"] = here.user(text, "assigned_to", of is not None)
        if deal_id is not None and status != "converted":
            raise Invalid.field("deal_id", "not_converted", "goes with the status converted")
        if was == "converted":
            if deal_id not in (None, record.deal_id):
                raise Invalid.field("deal_id", "read_only", "a converted lead keeps its deal")
        elif status == "converted":
            if deal_id is None:
                raise Invalid.field("deal_id", "required", "a converted lead moves in with a deal")
            values["deal_id"] = deal_id
            del values["status"]
        return values

    def create(self, data: dict[str, Any], entry: Entry, of: str | None) -> int:
        deal_id, converted_at = data.pop("deal_id", None), data.pop("converted_at", None)
        id = create(data)
        if deal_id is not None:
            conversion.import_converted(id, deal_id, converted_at)
        return id

    def change(self, record: Any, data: dict[str, Any], entry: Entry, of: str | None) -> None:
        deal_id = data.pop("deal_id", None)
        record.update_fields(data)
        if deal_id is not None:
            record.version = conversion.import_converted(record.id, deal_id, None).version


LEADS = Leads()
