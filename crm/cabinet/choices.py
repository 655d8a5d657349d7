"""The choices of a deal's forms: stages, and clients, products and other deals.

There may be thousands of those, so their names are typed. While that is done, the script of the
pages shows what matches. Without it the name is looked up when the form is sent: if several records
fit, the form is shown again with a short list of them.
"""

from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from crm.cabinet import labels
from crm.cabinet.languages import gettext
from crm.cabinet.rendering import Pages, render
from crm.errors import Invalid
from crm.json import integer_id
from crm.records import pagination
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import CLIENT, LISTED_CLIENT
from crm.resources.deals import figures
from crm.resources.deals.endpoints import DEAL_FILTER
from crm.resources.deals.record import DEAL
from crm.resources.pipelines.record import PIPELINE
from crm.resources.products.record import PRODUCT, PRODUCT_FILTER
from crm.values import folding

MAX_CANDIDATES = 20  # to choose from
FOR_SALE = "deleted_at IS NULL AND active = 1"

Records = list[dict[str, Any]]

pages = Pages("choices")


@pages.get("/choices/<any(clients, products, deals):noun>")
def list_choices(noun: str) -> Response:
    """What the script shows below a field: the matches of `q`, or what is probably meant."""
    text = request.args.get("q", "").strip()
    find = {"clients": clients, "products": products, "deals": deals}[noun]
    return render("deals/choices.html", noun=noun, records=find(text)[:MAX_CANDIDATES])


def pipelines() -> list[dict[str, Any]]:
    """All pipelines with their stages, in their order."""
    return PIPELINE.every("TRUE ORDER BY position, id")


def list_stages() -> list[tuple[str, str]]:
    """All stages in the order of the boards, named with their pipeline where there are several."""
    every = pipelines()
    return [
        (stage["id"], f"{pipeline['name']}: {stage['name']}" if every[1:] else stage["name"])
        for pipeline in every
        for stage in pipeline["stages"]
    ]


def lost_reasons(pipeline: dict[str, Any]) -> list[str]:
    """Why a deal of a pipeline may be lost: its own list, else the usual reasons."""
    return pipeline["lost_reasons"] or [
        gettext("Too expensive"),
        gettext("Chose a competitor"),
        gettext("No longer needed"),
        gettext("No response"),
    ]


def live_client(id: str | None) -> dict[str, Any] | None:
    """The client as it is shown, unless it was deleted."""
    records = CLIENT.every("id = ? AND deleted_at IS NULL", integer_id(id))
    return records[0] if records else None


def clients(text: str, id: str | None = None) -> Records:
    """Return the clients that match the text: those of exactly this name, the one of the id first,
    then others; without a text the newest."""
    exact = "deleted_at IS NULL AND sort_key = ? AND name = ? ORDER BY id <> ?, id LIMIT ?"
    params = folding.sort_key(text[:255]), text, integer_id(id), MAX_CANDIDATES
    named = LISTED_CLIENT.every(exact, *params) if text else []
    return _add_matches(named, LISTED_CLIENT, CLIENT_FILTER, text)


def chosen_client(text: str, id: str | None, where: str = "client") -> str | None:
    """The id of the client that a form names; raises Invalid when it could be several or none.

    id: of the client that was picked, whose name the text is. A client who is still named as in
    the form stays, deleted or not.
    """
    if id and text == labels.name_of("client", id):
        return id
    if not text:
        return None
    candidates = clients(text, id)
    if client := _choose_by_name(candidates, text, id, "name"):
        return client["id"]
    if candidates:
        raise Invalid.field(where, "ambiguous", gettext("Choose one of these clients."))
    raise Invalid.field(where, "unknown", gettext("Client not found."))


def products(text: str) -> Records:
    """Return active products that match the text: that of this SKU, those of this name, others;
    without a text those sold most often of late, then others."""
    if text:
        named = _named_products(text)
    else:
        ids = figures.often_sold(MAX_CANDIDATES)
        sold = PRODUCT.every(f"{FOR_SALE} AND id IN ({', '.join(map(str, ids)) or '0'})")
        named = sorted(sold, key=lambda product: ids.index(int(product["id"])))
    return _add_matches(named, PRODUCT, PRODUCT_FILTER, text, active="true")


def _named_products(text: str, id: str | None = None) -> Records:
    """Return products for sale of this SKU or name; among those of this name the one of the id
    first."""
    condition = "(sku = ? OR sort_key = ? AND name = ?) ORDER BY sku <> ? NULLS LAST, id <> ?, id"
    params = text, folding.sort_key(text[:255]), text, text, integer_id(id), MAX_CANDIDATES
    return PRODUCT.every(f"{FOR_SALE} AND {condition} LIMIT ?", *params)


def chosen_product(text: str, id: str) -> str | None:
    """The id of the product that the text names, or that was chosen; None for a free line."""
    if not text:
        return None
    # The script sends whole names; the search also finds other cases and accents, but takes longer.
    product = _product_of(_named_products(text, id), text, id)
    product = product or _product_of(products(text), text, id)
    return product["id"] if product else None


def _product_of(candidates: Records, text: str, id: str) -> dict[str, Any] | None:
    # The SKU first: it names one product, while several may have the same name.
    by_sku = _choose_by_name(candidates, text, id, "sku")
    return by_sku or _choose_by_name(candidates, text, id, "name")


def deals(text: str, id: str | None = None) -> Records:
    """Return the deals that match the text, the one of the id first; without a text the newest."""
    named = DEAL.every("deleted_at IS NULL AND id = ?", integer_id(id))
    return _add_matches(named, DEAL, DEAL_FILTER, text)


def chosen_deal(text: str, id: str | None) -> str:
    """The id of the deal that the text names, or that was chosen; raises Invalid."""
    if deal := _choose_by_name(deals(text, id), text, id, "title"):
        return deal["id"]
    raise Invalid.field("copy", "unknown", gettext("Deal not found, or several have this title."))


def _add_matches(
    named: Records, view: RecordView, filter: Filter, text: str, **parameters: str
) -> Records:
    """Return the `named` records and the first of a list that match the text, each once."""
    parameters |= {"limit": str(MAX_CANDIDATES)} | ({"q": text[:200]} if text else {})
    query = filter.read(MultiDict(parameters))
    matches = pagination.page(view, query, filter.fields["sort"]).records
    return list({record["id"]: record for record in (*named, *matches)}.values())


def _choose_by_name(
    candidates: list[dict[str, Any]], text: str, id: str | None, by: str
) -> dict[str, Any] | None:
    """Return the record chosen by its id, else the only one of this name; None if several are."""
    folded = folding.fold(text[:255])  # of a longer one the accents could take minutes to sort
    named = [record for record in candidates if record[by] and folding.fold(record[by]) == folded]
    chosen = next((record for record in candidates if record["id"] == id), None)
    return chosen or (named[0] if len(named) == 1 else None)
