"""Endpoints of leads, in the specification's order (spec: Leads)."""

from functools import partial
from typing import Any

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import fields, parameters
from crm.records.columns import N_
from crm.records.queries import amount_range, filter_of
from crm.records.tags import Tag
from crm.resources import duplicates
from crm.resources.leads import conversion
from crm.resources.leads.record import LEAD, Lead, create_as_sent, delete


class LeadFilter(filter_of(Lead)):  # type: ignore[misc]  # made from the declaration
    source_not = parameters.NotEquals(
        fields.Text(64),
        column="source",
        about="From none of these sources; leads without one are included.",
    )
    has_source = parameters.HasValue("source", "Whether it is known where the lead came from.")
    tag = Tag("lead")
    amount_from, amount_to = amount_range()


LEAD_FILTER = LeadFilter()

blueprint = Blueprint("leads", "People who asked, not yet clients.", N_("Leads"))


leads = Endpoints(blueprint, "/leads", LEAD)
leads.create(
    create_as_sent,
    "Create a lead from a website form or by hand.",
    needs=("leads:create",),
    example={"name": "Олена", "phone": "+380501234567", "source": "site-form"},
)
leads.list(LEAD_FILTER)
leads.get(show=partial(duplicates.show, LEAD), query=duplicates.EXPANSION)
leads.change(
    conversion.update, "Change the sent fields of a lead; the status converted converts it."
)
leads.delete(delete)


@blueprint.operation(
    "POST",
    "/leads/<id>/convert",
    needs=("leads:write", "deals:write"),
    body=conversion.CONVERSION,
    example={"title": "Крісла для офісу", "amount": 12500},
    status=201,
    other_status=200,
    answer=conversion.CONVERTED,
    conflicts=True,
)
def convert_lead(id: str, data: dict[str, Any]) -> tuple[dict[str, str], dict[str, str], int]:
    """Convert a lead into a deal of a client; repeated, the answer is 200 with the same ids."""
    lead, is_new = conversion.convert(id, data)
    ids = {name: str(getattr(lead, name)) for name in ("deal_id", "client_id")}
    body = {"status": "ok", "lead_id": str(lead.id), **ids}
    return body, {"Location": f"/deals/{lead.deal_id}"}, 201 if is_new else 200
