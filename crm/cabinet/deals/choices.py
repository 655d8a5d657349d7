"""The choices of a deal's forms: stages, currencies, clients and products.

There may be thousands of clients and products, so their names are typed: the browser proposes some,
and the name is looked up when the form is sent. If several records fit, the form is shown again
with a short list of them.
"""

from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict

from crm.cabinet.languages import gettext
from crm.errors import Invalid
from crm.json import integer_id
from crm.records import pagination
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import CLIENT, LISTED_CLIENT
from crm.resources.pipelines.record import PIPELINE
from crm.resources.products.record import PRODUCT, PRODUCT_FILTER
from crm.values import folding

MAX_SUGGESTIONS = 200  # that the browser proposes while a name is typed
MAX_CANDIDATES = 20  # to choose from when several records match


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


def newest_clients() -> list[dict[str, Any]]:
    return _read(LISTED_CLIENT, CLIENT_FILTER, limit=MAX_SUGGESTIONS)


def clients(text: str) -> list[dict[str, Any]]:
    """Return the clients that match the text, those of exactly this name first."""
    exact = "deleted_at IS NULL AND sort_key = ? AND name = ? ORDER BY id LIMIT ?"
    named = LISTED_CLIENT.every(exact, folding.sort_key(text[:255]), text, MAX_CANDIDATES)
    return _add_search_results(named, LISTED_CLIENT, CLIENT_FILTER, text)


def chosen_client(deal: dict[str, Any] | None = None) -> str | None:
    """The id of the client that the form names; raises Invalid when it could be several or none.

    The client of `deal`, deleted or not, stays as long as the name in the form is its name.
    """
    text = request.form.get("client", "").strip()
    if not text:
        return None
    if deal and deal["client_id"] and text == deal["client_name"]:
        return deal["client_id"]
    candidates = clients(text)
    if client := _choose_by_name(candidates, text, request.form.get("client_id"), "name"):
        return client["id"]
    if candidates:
        raise Invalid.field("client", "ambiguous", gettext("Choose one of these clients."))
    raise Invalid.field("client", "unknown", gettext("Client not found."))


def first_products() -> list[dict[str, Any]]:
    return _read(PRODUCT, PRODUCT_FILTER, active="true", limit=MAX_SUGGESTIONS)


def products(text: str) -> list[dict[str, Any]]:
    """Return active products that match the text: that of this SKU, those of this name, others."""
    exact = (
        "deleted_at IS NULL AND active = 1 AND (sku = ? OR sort_key = ? AND name = ?)"
        " ORDER BY sku <> ? NULLS LAST, id LIMIT ?"
    )
    named = PRODUCT.every(exact, text, folding.sort_key(text[:255]), text, text, MAX_CANDIDATES)
    return _add_search_results(named, PRODUCT, PRODUCT_FILTER, text, active="true")


def chosen_product(text: str, id: str) -> str | None:
    """The id of the product that the text names, or that was chosen; None for a free line."""
    candidates = products(text)
    # The SKU first: it names one product, while several may have the same name.
    by_sku = _choose_by_name(candidates, text, id, "sku")
    product = by_sku or _choose_by_name(candidates, text, id, "name")
    return product["id"] if product else None


def _read(view: RecordView, filter: Filter, **parameters: object) -> list[dict[str, Any]]:
    """The first page of a list with these parameters."""
    query = filter.read(MultiDict({name: str(value) for name, value in parameters.items()}))
    return pagination.page(view, query, filter.fields["sort"]).records


def _add_search_results(
    named: list[dict[str, Any]], view: RecordView, filter: Filter, text: str, **more: str
) -> list[dict[str, Any]]:
    """Return the `named` records, then those that the search finds, without duplicates."""
    matches = _read(view, filter, q=text[:200], limit=MAX_CANDIDATES, **more) if text else []
    return list({record["id"]: record for record in (*named, *matches)}.values())


def _choose_by_name(
    candidates: list[dict[str, Any]], text: str, id: str | None, by: str
) -> dict[str, Any] | None:
    """Return the record chosen by its id, else the only one of this name; None if several are."""
    folded = folding.fold(text[:255])  # of a longer one the accents could take minutes to sort
    named = [record for record in candidates if record[by] and folding.fold(record[by]) == folded]
    chosen = next((record for record in candidates if record["id"] == id), None)
    return chosen or (named[0] if len(named) == 1 else None)
