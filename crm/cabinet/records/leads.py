"""Pages of leads: the list, the card, the edit form and the conversion into a deal."""

from werkzeug.wrappers import Response

from crm.cabinet import choices, labels
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import N_, coded_text, gettext
from crm.cabinet.records import lists
from crm.cabinet.records.record_fields import form_names
from crm.cabinet.records.record_pages import add_record_pages
from crm.cabinet.records.record_sections import render_card
from crm.cabinet.rendering import SELLER, Pages, me, render, see_other
from crm.records.schemas import schema_of
from crm.resources import leads
from crm.resources.clients import record as client_record
from crm.resources.deals.figures import newest_of_clients
from crm.resources.leads.conversion import CONVERSION
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD, LEAD_PATCH, Lead

CARD_FIELDS = [name for name in form_names("lead") if name not in ("name", "comment")]
UTM_FIELDS = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term")
MAX_JOINABLE_DEALS = 20  # open deals of a client that a lead may be added to
# The API keeps values that it refuses in `extra`; a person can correct them instead.
LEAD_FORM = schema_of(Lead).body("LeadForm")
LIST = lists.ListPage(
    LEAD,
    LEAD_FILTER,
    N_("Leads"),
    filters=(
        *("status", "source", "tag", "assigned_to", "amount_from", "amount_to"),
        *("created_since", "created_until"),
    ),
    sorts=(
        *(lists.NEWEST_FIRST, lists.OLDEST_FIRST, lists.UPDATED_FIRST, lists.BY_NAME),
        lists.LARGEST_FIRST,
    ),
    columns=(
        *("name", "status", "phone", "comment", "source", "amount", "assigned_to", "created_at"),
    ),
    more_columns=("company", "email", "tags", "updated_at"),
    tabs=lists.OPEN_TABS,
    open_statuses=("new", "in_progress", "qualified"),
    new=N_("New lead"),
)

pages = Pages("leads")


add_record_pages(pages, LEAD, leads, list=LIST, body=LEAD_FORM)


@pages.get("/leads/<id>")
def show_lead(id: str) -> Response:
    lead = LEAD.expanded(["possible_duplicates"]).one(id)
    return render_card(
        "lead",
        lead,
        CARD_FIELDS,
        client=labels.name_of("client", lead["client_id"], live=True),
        deal=labels.name_of("deal", lead["deal_id"], live=True),
        came_with=[(coded_text("utm", name), lead[name]) for name in UTM_FIELDS if lead[name]],
    )


@pages.post("/leads/<id>/status")
def move_lead(id: str) -> Response:
    leads.update(id, load_form(LEAD_PATCH, ("status",)))
    return see_other(f"/leads/{id}")


@pages.get("/leads/<id>/convert", role=SELLER)
def ask_conversion(id: str, form: Form | None = None) -> Response:
    lead = LEAD.expanded(["possible_duplicates"]).one(id)
    if lead["status"] == "converted":  # such as after going back to this page
        return see_other(f"/deals/{lead['deal_id']}")
    duplicates = [one for one in lead["possible_duplicates"] if one["resource"] == "client"]
    clients = {client["id"]: client["name"] for client in duplicates}
    # The first is the one that the conversion would choose by itself.
    if match := client_record.match(lead["email"], lead["phone"]):
        clients = {str(match.id): match.name} | clients
    values = {"amount": lead["amount"], "assigned_to": lead["assigned_to"] or str(me().user_id)}
    values["client_id"] = next(iter(clients), "")
    return render(
        "leads/convert.html",
        lead=lead,
        form=form or Form(values),
        clients=[*clients.items()],
        deals=newest_of_clients([*clients], ["open"], MAX_JOINABLE_DEALS),
        pipelines=choices.pipelines(),
        assignees=labels.user_choices(),
    )


@pages.post("/leads/<id>/convert", page=ask_conversion, once=True)
def convert_lead(id: str) -> Response:
    lead, is_new = leads.convert(id, load_form(CONVERSION))
    return see_other(f"/deals/{lead.deal_id}", gettext("Lead converted") if is_new else "")
