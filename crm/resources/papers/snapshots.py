"""What a paper shows, as of a moment: the company, the client, the lines of the deal, the totals.

Numbers are decimal texts. The form is described in crm/papers/layout.py.
"""

from datetime import date, timedelta
from typing import Any

from crm.errors import Conflict
from crm.json import loads
from crm.papers import qr, sums, words
from crm.papers.layout import payment_purpose
from crm.papers.requisites import PaperSettings
from crm.resources.clients.record import Client
from crm.resources.deals.items import IN_ORDER, DealItem
from crm.resources.deals.record import Deal
from crm.resources.products.record import Product
from crm.resources.users import User
from crm.storage.session import one_row, row
from crm.values import as_number

NEEDED = {  # of the company's requisites, by the kind of paper
    "invoice": ("legal_name", "iban"),
    "act": ("legal_name",),
    "delivery_note": ("legal_name",),
}


def of(deal: Deal, kind: str, language: str, today: date) -> dict[str, Any]:
    """The snapshot of a paper that has no number yet (set_number).

    Raises Conflict: `no_amount`, `amount_differs`, `requisites_missing`.
    """
    name, requisites, stored = one_row("SELECT name, requisites, paper_settings FROM tenant")
    seller, settings = loads(requisites or "{}"), PaperSettings().show(stored)
    if missing := [field for field in NEEDED.get(kind, ()) if not seller.get(field)]:
        detail = f"Settings → Company has no {' and no '.join(missing)}"
        raise Conflict(detail, "requisites_missing", missing=missing)
    lines = _lines(deal, kind)
    snapshot: dict[str, Any] = {
        "kind": kind,
        "language": language,
        "prefix": settings["number_prefix"],
        "date": today.isoformat(),
        "valid_until": _valid_until(kind, today, settings),
        "seller": {"name": name, **seller},
        "buyer": _buyer(deal),
        "manager": _manager(deal),
        "deal": {"id": str(deal.id), "title": deal.title},
        "currency": deal.currency,
        "vat_mode": settings["vat_mode"],
        "terms": settings["terms"] or None,
        "signatures": settings["signatures"],
        "color": settings["color"],
    }
    return snapshot | {"totals": sums.add_vat(lines, settings), "lines": lines}


def set_number(snapshot: dict[str, Any], sequence: int) -> None:
    """Give a snapshot its number, and what is made from that and the total."""
    number = f"{snapshot.pop('prefix')}{sequence}/{snapshot['date'][:4]}"
    gross, currency = snapshot["totals"]["gross"], snapshot["currency"]
    snapshot["number"] = number
    snapshot["words"] = words.in_words(gross, currency, snapshot["language"])
    if snapshot["kind"] == "invoice":
        purpose = payment_purpose(snapshot)
        snapshot["qr"] = qr.payment_url(snapshot["seller"], gross, currency, purpose)


def _valid_until(kind: str, today: date, settings: dict[str, Any]) -> str | None:
    days = settings["validity_days"]
    return (today + timedelta(days)).isoformat() if days and kind in ("offer", "invoice") else None


def _lines(deal: Deal, kind: str) -> list[dict[str, Any]]:
    """The lines of a paper: the deal's items, or the deal itself if it has none."""
    items = DealItem.every(IN_ORDER, deal.id)
    if not items and not deal.amount:
        raise Conflict("the deal has neither items nor an amount", "no_amount")
    if items and sum(item.total for item in items) != deal.amount:
        detail = "the deal's amount is set by hand, and is not the total of its items"
        raise Conflict(detail, "amount_differs")
    if not items:
        amount = sums.amount_text(deal.amount or 0)
        line = {"name": deal.title, "quantity": "1", "price": amount, "total": amount}
        return [{**line, "sku": None, "unit": None, "discount": None}]
    lines = []
    for item in items:
        product = Product.find_any(item.product_id) if item.product_id else None
        line = {
            "name": item.name,
            "sku": item.sku,
            "unit": item.unit,
            "quantity": str(as_number(item.quantity, 1000)),
            "price": str(as_number(item.price)),
            "discount": _discount(item),
            "total": sums.amount_text(item.total),
            "vat_rate": product and product.vat,
        }
        if kind == "offer" and product is not None and product.picture_id:
            picture = row("SELECT sha256 FROM file WHERE id = ?", (product.picture_id,))
            line["picture"] = picture[0] if picture else None
        lines.append(line)
    return lines


def _discount(item: DealItem) -> str | None:
    if not item.discount:
        return None
    percent = item.discount_type == "percent"
    return f"{as_number(item.discount)}%" if percent else sums.amount_text(item.discount)


def _buyer(deal: Deal) -> dict[str, Any]:
    """The client as papers name one, with what is known; of no client an empty object."""
    client = Client.find_any(deal.client_id) if deal.client_id else None
    if client is None:
        return {"name": deal.client_name} if deal.client_name else {}
    known = {"name": client.name, "phone": client.phone, "email": client.email}
    known |= {"address": client.address, **loads(client.requisites or "{}")}
    if client.tax_number and "edrpou" not in known and "rnokpp" not in known:
        known["tax_number"] = client.tax_number
    return {name: value for name, value in known.items() if value}


def _manager(deal: Deal) -> str | None:
    """The name of who answers for the deal; the phone is that of a login, and not told."""
    return User.find(deal.assigned_to).name if deal.assigned_to is not None else None
