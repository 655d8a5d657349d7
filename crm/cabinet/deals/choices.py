"""What a deal's forms choose from: stages, currencies, clients and products.

There may be thousands of clients and products, so those are typed: the form proposes some, and what
was typed is looked up when it is sent. What could be several is asked back as a short list.
"""

from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict

from crm.cabinet.languages import gettext
from crm.errors import Invalid
from crm.records import pagination, search
from crm.records.queries import Filter
from crm.records.views import RecordView
from crm.resources import tenant
from crm.resources.clients.endpoints import CLIENT_FILTER
from crm.resources.clients.record import LISTED_CLIENT
from crm.resources.pipelines.record import PIPELINE
from crm.resources.products.endpoints import PRODUCT_FILTER
from crm.resources.products.record import PRODUCT
from crm.tenancy.database import rows

PROPOSED = 200  # as one types
ASKED = 20  # when it could be several
CURRENCIES = ("UAH", "USD", "EUR", "PLN", "GBP")


def list_stages() -> list[tuple[str, str]]:
    """All stages in the order of the boards, named with their pipeline where there are several."""
    pipelines = PIPELINE.every("1 ORDER BY position, id")
    return [
        (stage["id"], f"{each['name']}: {stage['name']}" if pipelines[1:] else stage["name"])
        for each in pipelines
        for stage in each["stages"]
    ]


def currencies(kept: str = "") -> list[tuple[str, str]]:
    codes = dict.fromkeys((tenant.currency(), *([kept] if kept else []), *CURRENCIES))
    return [(code, code) for code in codes]


def reasons() -> list[str]:
    """Why deals were lost, the most common reasons first."""
    found = rows(
        "SELECT lost_reason FROM deal WHERE status = 'lost' AND deleted_at IS NULL"
        " AND lost_reason IS NOT NULL GROUP BY lost_reason ORDER BY count(*) DESC LIMIT 20"
    )
    return [reason for (reason,) in found]


def lost_reasons(pipeline: dict[str, Any]) -> list[str]:
    """Why a deal of a pipeline may be lost: its own list, else the usual reasons."""
    return pipeline["lost_reasons"] or [
        gettext("Too expensive"),
        gettext("Chose a competitor"),
        gettext("No longer needed"),
        gettext("No response"),
    ]


def newest_clients() -> list[dict[str, Any]]:
    return LISTED_CLIENT.every("deleted_at IS NULL ORDER BY id DESC LIMIT ?", PROPOSED)


def clients(text: str) -> list[dict[str, Any]]:
    """The clients that may be meant, those of exactly this name first."""
    named = LISTED_CLIENT.every("deleted_at IS NULL AND name = ? LIMIT ?", text, ASKED)
    return _also(named, LISTED_CLIENT, CLIENT_FILTER, text)


def chosen_client(kept: dict[str, Any] | None = None) -> str | None:
    """The id of the client that the form names; raises Invalid when it could be several or none.

    `kept` is the deal as it is: its client stays as long as the name stays, deleted or not.
    """
    text = request.form.get("client", "").strip()
    if not text:
        return None
    if kept and kept["client_id"] and text == kept["client_name"]:
        return kept["client_id"]
    found = clients(text)
    if one := _meant(found, text, request.form.get("client_id"), "name"):
        return one["id"]
    if found:
        raise Invalid.field("client", "ambiguous", gettext("Choose one of these clients."))
    raise Invalid.field("client", "unknown", gettext("Client not found."))


def first_products() -> list[dict[str, Any]]:
    return PRODUCT.every("deleted_at IS NULL AND active = 1 ORDER BY name, id LIMIT ?", PROPOSED)


def products(text: str) -> list[dict[str, Any]]:
    """The products for sale that may be meant, that of this SKU and those of this name first."""
    exact = "deleted_at IS NULL AND active = 1 AND (sku = ? OR name = ?) ORDER BY sku <> ? LIMIT ?"
    named = PRODUCT.every(exact, text, text, text, ASKED)
    return _also(named, PRODUCT, PRODUCT_FILTER, text, active="true")


def chosen_product(text: str, id: str) -> str | None:
    """The id of the product that the text names, or that was chosen; None for a free line."""
    found = products(text)
    one = _meant(found, text, id, "sku") or _meant(found, text, id, "name")
    return one and one["id"]


def _also(
    named: list[dict[str, Any]], shape: RecordView, filter: Filter, text: str, **more: str
) -> list[dict[str, Any]]:
    """Those, and what the search finds besides."""
    sent = MultiDict({"q": text[:200], "limit": str(ASKED), **more})
    found = pagination.page(shape, filter.read(sent), filter.fields["sort"]).records if text else []
    return list({record["id"]: record for record in (*named, *found)}.values())


def _meant(
    found: list[dict[str, Any]], text: str, id: str | None, by: str
) -> dict[str, Any] | None:
    """The one that was chosen by its id, else the only one that is called so."""
    chosen = [record for record in found if record["id"] == id]
    folded = search.fold(text)
    called = [record for record in found if record[by] and search.fold(record[by]) == folded]
    return chosen[0] if chosen else called[0] if len(called) == 1 else None
