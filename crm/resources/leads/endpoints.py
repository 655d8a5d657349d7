"""Endpoints of leads, in the specification's order (spec: Leads)."""

from typing import Any

from flask import g

from crm.access import rights
from crm.api.envelopes import page_of
from crm.api.operations import Blueprint, build_path
from crm.records import fields, pagination, parameters, queries
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.records.queries import filter_of
from crm.resources import duplicates
from crm.resources.leads import conversion
from crm.resources.leads.conversion import CONVERSION, CONVERTED
from crm.resources.leads.csv_columns import LEADS
from crm.resources.leads.record import (
    LEAD,
    LEAD_IN,
    LEAD_PATCH,
    Lead,
    create,
    delete,
    from_form,
    is_from_robot,
    next_id,
    with_known_assignee,
)
from crm.spreadsheets.endpoints import add_endpoints


class LeadFilter(filter_of(Lead)):  # type: ignore[misc]  # made from the declaration
    source_not = parameters.NotEquals(
        fields.Text(64), "source", "From none of these sources; leads without one are included."
    )
    has_source = parameters.HasValue("source", "Whether it is known where the lead came from.")


class LeadView(queries.Filter):
    """What GET one takes."""

    expand = parameters.Expand("possible_duplicates")


LEAD_FILTER = LeadFilter()
LEAD_VIEW = LeadView(only=["expand"])

blueprint = Blueprint("leads", "People who asked, not yet clients.", N_("Leads"))


@blueprint.post("/leads")
@blueprint.needs("leads:create")
@blueprint.arguments(
    LEAD_IN, example={"name": "Олена", "phone": "+380501234567", "source": "site-form"}
)
@blueprint.created("lead", LEAD)
def create_lead(data: dict[str, Any]) -> int:
    """Create a lead from a website form or by hand."""
    if not g.caller.is_form:
        return create(with_known_assignee(data))
    return next_id() if is_from_robot(data) else create(from_form(data))


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
    if not query.expand:
        return LEAD.one(id)
    return duplicates.hide_unreadable(LEAD.expanded(query.expand).one(id))


@blueprint.patch("/leads/<id>")
@blueprint.arguments(LEAD_PATCH)
@blueprint.one(LEAD)
@blueprint.conflicts()
def change_lead(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a lead; the status converted converts it."""
    # Without a transaction around both: a lead that is converted meanwhile stays so.
    if data.get("status") == "converted" != Lead.find(id).status:
        rights.require(g.caller.scopes, ["deals:write"])
    return LEAD.one(conversion.update(id, data, expected_version).id)


@blueprint.delete("/leads/<id>")
@blueprint.empty()
def delete_lead(id: str, expected_version: int | None = None) -> None:
    """Delete a lead."""
    delete(id, expected_version)


@blueprint.post("/leads/<id>/convert")
@blueprint.needs("leads:write", "deals:write")
@blueprint.arguments(CONVERSION, example={"title": "Крісла для офісу", "amount": 12500})
@blueprint.answer(CONVERTED, 201, or_else=200)
@blueprint.conflicts()
def convert_lead(data: dict[str, Any], id: str) -> tuple[dict[str, str], dict[str, str], int]:
    """Convert a lead into a deal of a client; repeated, the answer is 200 with the same ids."""
    lead, is_new = conversion.convert(id, data)
    ids = {name: str(getattr(lead, name)) for name in ("deal_id", "client_id")}
    body = {"status": "ok", "lead_id": str(lead.id), **ids}
    return body, {"Location": build_path(f"/deals/{lead.deal_id}")}, 201 if is_new else 200


add_endpoints(blueprint, LEADS, LeadFilter)
