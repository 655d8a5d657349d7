"""Search over everything: leads, clients, deals, products and tasks in which all words are (D3)."""

from typing import NamedTuple

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import words
from crm.cabinet.forms import Form
from crm.cabinet.frame import Pages, render
from crm.cabinet.languages import gettext
from crm.errors import Invalid
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import CLIENT
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL
from crm.resources.leads.endpoints import LEAD_FILTER
from crm.resources.leads.record import LEAD
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT
from crm.resources.tasks import TASK, TASK_FILTER
from crm.rest import paging
from crm.rest.filters import Filter
from crm.rest.paging import Page
from crm.rest.shapes import Shape

SHOWN = 10  # of each noun; the rest is in its list
LISTS = {
    "leads": "/leads?q=",
    "clients": "/clients?q=",
    "deals": "/deals?view=list&q=",
    "products": "/products?q=",
    "tasks": "/search?only=tasks&q=",  # the page of tasks is no list to search
}

pages = Pages("search")


class Found(NamedTuple):
    """What was found of one noun, and where all of it is."""

    noun: str
    name: str
    page: Page
    path: str


@pages.get("/search")
def search() -> Response:
    q = request.args.get("q", "").strip()
    only = request.args.get("only", "")
    try:
        found = _everywhere(q, only) if q else []
    except Invalid as refused:
        return _page(q, [], only, Form({"q": q}, refused), 422)
    return _page(q, found, only)


def _page(
    q: str, found: list[Found], only: str, form: Form | None = None, status: int = 200
) -> Response:
    return render(
        "search/page.html",
        status,
        q=q,
        found=found,
        only=only,
        form=form or Form({"q": q}),
        lead_statuses=words.statuses("lead"),
        deal_statuses=words.statuses("deal"),
    )


def _everywhere(q: str, only: str) -> list[Found]:
    found = (
        _among(q, "leads", gettext("Leads"), LEAD, LEAD_FILTER, only),
        _among(q, "clients", gettext("Clients"), CLIENT, CLIENT_FILTER, only),
        _among(q, "deals", gettext("Deals"), DEAL, DEAL_FILTER, only),
        _among(q, "products", gettext("Products"), PRODUCT, PRODUCT_FILTER, only),
        _among(q, "tasks", gettext("Tasks"), TASK, TASK_FILTER, only),
    )
    return [each for each in found if each and each.page.records]


def _among(q: str, noun: str, name: str, shape: Shape, filter: Filter, only: str) -> Found | None:
    """The first matches, or with `only` this noun a whole page of them."""
    if only not in ("", noun):
        return None
    sent = MultiDict({"q": q})
    if only:
        sent.update({each: request.args[each] for each in ("cursor",) if each in request.args})
    else:
        sent["limit"] = str(SHOWN)
    page = paging.page(shape, filter.read(sent), filter.fields["sort"])
    return Found(noun, name, page, LISTS[noun])
