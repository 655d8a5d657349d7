"""Endpoints of leads, in the specification's order (spec: Leads)."""

from typing import Any

from flask import g

from crm.access import rights
from crm.api.envelopes import page_of
from crm.api.operations import Blueprint, address
from crm.records import fields, pagination, queries
from crm.records.pagination import Page
from crm.records.queries import Query, filter_of
from crm.resources import duplicates
from crm.resources.leads import conversion
from crm.resources.leads.conversion import CONVERSION, CONVERTED
from crm.resources.leads.record import (
    LEAD,
    LEAD_IN,
    LEAD_PATCH,
    Lead,
    assigned,
    create,
    from_form,
    id_to_come,
    is_caught,
)
from crm.tenancy.database import transaction


class LeadFilter(filter_of(Lead)):
    source_not = queries.NotEquals(
        fields.Text(64), "source", "From none of these sources; leads without one are included."
    )
    has_source = queries.HasValue("source", "Whether it is known where the lead came from.")


class LeadView(queries.Filter):
    """What GET one takes."""

    expand = queries.Expand("possible_duplicates")


LEAD_FILTER = LeadFilter()
LEAD_VIEW = LeadView(only=["expand"])

blueprint = Blueprint("leads", "People who asked, not yet clients.")


@blueprint.post("/leads")
@blueprint.needs("leads:create")
@blueprint.arguments(
    LEAD_IN, example={"name": "Олена", "phone": "+380501234567", "source": "site-form"}
)
@blueprint.created("lead", LEAD)
def create_lead(data: dict[str, Any]) -> int:
    """Create a lead from a website form or by hand."""
    if not g.caller.is_form:
        return create(assigned(data))
    return id_to_come() if is_caught(data) else create(from_form(data))


@blueprint.get("/leads")
@blueprint.arguments(LEAD_FILTER, location="query")
@blueprint.page(page_of(LEAD.schema, deleted=True))
def list_leads(query: Query) -> Page:
    """List leads, the newest first."""
    return pagination.page(LEAD, query, LEAD_FILTER.fields["sort"])


@blueprint.get("/leads/<id>")
@blueprint.arguments(LEAD_VIEW, location="query")
@blueprint.one(LEAD)
def get_lead(query: Query, id: str) -> dict[str, Any]:
    """Get one lead."""
    return duplicates.readable(LEAD.expanded(query.expand).one(id))


@blueprint.patch("/leads/<id>")
@blueprint.arguments(LEAD_PATCH)
@blueprint.one(LEAD)
@blueprint.conflicts()
def change_lead(data: dict[str, Any], id: str) -> dict[str, Any]:
    """Change the sent fields of a lead; the status converted converts it."""
    with transaction():
        lead = Lead.find(id)
        if conversion.is_asked(lead, data):
            rights.require(g.caller.scopes, ["deals:write"])
        conversion.change(lead, data)
        return LEAD.one(lead.id)


@blueprint.delete("/leads/<id>")
@blueprint.empty()
def delete_lead(id: str) -> None:
    """Delete a lead."""
    with transaction():
        Lead.find(id).remove()


@blueprint.post("/leads/<id>/convert")
@blueprint.needs("leads:write", "deals:write")
@blueprint.arguments(CONVERSION, example={"title": "Крісла для офісу", "amount": 12500})
@blueprint.answer(CONVERTED, 201, or_else=200)
@blueprint.conflicts()
def convert_lead(data: dict[str, Any], id: str) -> tuple[dict[str, str], dict[str, str], int]:
    """Convert a lead into a deal of a client; repeated, the answer is 200 with the same ids."""
    with transaction():
        lead = Lead.find(id)
        is_new = conversion.convert(lead, data)
    found = {name: str(getattr(lead, name)) for name in ("deal_id", "client_id")}
    body = {"status": "ok", "lead_id": str(lead.id), **found}
    return body, {"Location": address(f"/deals/{lead.deal_id}")}, 201 if is_new else 200
