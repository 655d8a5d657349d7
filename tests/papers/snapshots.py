"""Snapshots of papers of ТОВ «Ромашка», as crm/papers describes them."""

from typing import Any

from crm.papers import layout, qr, sums, words

SELLER = {
    "name": "Ромашка",
    "legal_name": "ТОВ «Ромашка»",
    "edrpou": "14360570",
    "iban": "UA213223130000026007233566001",
    "bank": "АТ КБ «ПриватБанк»",
    "address": "01001, м. Київ, вул. Хрещатик, 1",
    "director": "Директор Шевченко О. В.",
    "vat_number": "143605704021",
    "phone": "+380501234567",
    "email": "office@example.com",
}
BUYER = {"name": "ФОП Петренко І. І.", "rnokpp": "1234567899", "address": "м. Львів, пл. Ринок, 1"}
CHAIR = {"name": "Стілець дубовий", "sku": "CH-0012", "unit": "шт", "quantity": "2"}
CHAIR |= {"price": "1250.50", "discount": "10%", "total": "2250.90"}


def snapshot(
    kind: str = "invoice",
    language: str = "uk",
    lines: list[dict[str, Any]] | None = None,
    vat_mode: str = "inside",
    **more: Any,
) -> dict[str, Any]:
    """A paper of two chairs, by default; `more` replaces parts."""
    paper = {"kind": kind, "language": language, "number": "7", "date": "2026-11-28"}
    paper |= {"seller": SELLER, "buyer": BUYER, "currency": "UAH", "vat_mode": vat_mode}
    paper |= {"deal": {"id": "12", "title": "Меблі для офісу"}, **more}
    paper["lines"] = lines = [dict(line) for line in lines or [CHAIR]]
    settings = {"vat_mode": vat_mode, "vat_rate": 20, "vat_by": "line"}
    paper["totals"] = totals = sums.add_vat(lines, settings)
    paper["words"] = words.in_words(totals["gross"], paper["currency"], language)
    purpose = layout.payment_purpose(paper)
    paper["qr"] = qr.payment_url(paper["seller"], totals["gross"], paper["currency"], purpose)
    return paper
