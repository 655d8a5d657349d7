"""Papers of deals: what an offer, an invoice, an act and a delivery note say, and their PDF.

Everything here is a function of a paper's snapshot, the JSON object that `paper.snapshot` stores
(crm/resources/papers/record.py): amounts are decimal texts such as "1250.50", dates are YYYY-MM-DD.
Nothing knows the database or HTTP.

    {"kind": "invoice", "language": "uk", "number": "7", "date": "2026-11-28", "valid_until": null,
     "seller": {"name", "legal_name", "edrpou", "rnokpp", "iban", "bank", "address", "director",
                "vat_number", "phone", "email"}, "buyer": {the same},
     "deal": {"id": "12", "title": "…"}, "manager": "…", "currency": "UAH",
     "lines": [{"name", "sku", "unit", "quantity": "2", "price": "1250.50", "discount": "10%",
                "total": "2250.90", "vat_rate": 20, "vat": "375.15", "picture"}],
     "totals": {"net", "vat", "gross", "rates": [{"rate": 20, "net", "vat"}]}, "words": "…",
     "vat_mode": "inside", "terms": null, "signatures": [], "color": "#1f6f5c", "qr": null}

Absent keys and null are the same. `discount` is "10%" or an amount, `picture` the name of one of
those that pdf.compile() is given.
"""

KINDS = ("offer", "invoice", "act", "delivery_note")
LANGUAGES = ("uk", "en")
