"""What a paper shows, in its language: the texts that its page and its PDF have in common."""

import tomllib
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from babel import dates, numbers

Texts = dict[str, Any]


def show(snapshot: Texts) -> Texts:
    """The texts of a paper, formatted: each is data, to be shown as it is.

    `title`; `subject`, of offers; `parties`: two of {label, name, details: lines}; `intro`;
    `columns`: the labels of the items' names and of their cells; `rows`: {number, name, sku,
    picture, cells}; `totals`: pairs of a label and an amount, the last the most important; `words`;
    `statement`; `valid_until`; `payment`: pairs of a label and a text, and `scan` if there is a QR;
    `terms`: lines, under `terms_label`; `signatures`: {label, captions} of each side; `page`, with
    two {}. What a paper lacks is "" or an empty list. And `kind`, `language`, `color` and `qr`.
    """
    kind, language = snapshot["kind"], snapshot["language"]
    texts = _texts()[language] | _texts()[language][kind]
    until, terms = snapshot.get("valid_until"), snapshot.get("terms") or ""
    has_end = until and "valid_until" in texts
    qr = snapshot.get("qr") or "" if kind == "invoice" else ""
    return {
        "kind": kind,
        "language": language,
        "color": snapshot.get("color") or "",
        "title": texts["title"].format(
            name=texts["name"], number=snapshot["number"], date=_day(snapshot["date"], texts)
        ),
        "subject": snapshot["deal"]["title"] if kind == "offer" else "",
        "parties": [
            {"label": texts[side], **_party(snapshot[side], texts)} for side in ("seller", "buyer")
        ],
        "intro": texts.get("intro", ""),
        **_table(snapshot, texts),
        "words": _words(snapshot, texts),
        "statement": texts.get("statement", ""),
        "valid_until": texts["valid_until"].format(_day(until, texts)) if has_end else "",
        "payment": _payment(snapshot, texts) if kind == "invoice" else [],
        "qr": qr,
        "scan": texts["scan"] if qr else "",
        "terms_label": texts["terms"],
        "terms": terms.split("\n") if terms else [],
        "signatures": [
            {"label": texts[f"signed_by_{side}"], "captions": _captions(snapshot, side)}
            for side in ("seller", "buyer")
            if f"signed_by_{side}" in texts
        ],
        "page": texts["page"],
    }


def payment_purpose(snapshot: Texts) -> str:
    """The purpose of the payment of an invoice, in Ukrainian, as banks of Ukraine need it."""
    vat = snapshot["totals"]["vat"]
    day = date.fromisoformat(snapshot["date"]).strftime("%d.%m.%Y")
    with_vat = f"у т. ч. ПДВ {vat} грн" if vat else "без ПДВ"
    return f"Оплата за рахунком № {snapshot['number']} від {day}, {with_vat}"


@cache
def _texts() -> Texts:
    return tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))


def _day(text: str, texts: Texts) -> str:
    return dates.format_date(date.fromisoformat(text), texts["day"], locale=texts["locale"])


def _number(text: str, texts: Texts, pattern: str = "#,##0.00") -> str:
    return numbers.format_decimal(Decimal(text), pattern, locale=texts["locale"])


def _party(party: Texts, texts: Texts) -> Texts:
    lines = [
        ", ".join(texts.get(key, "{}").format(party[key]) for key in keys if party.get(key))
        for keys in (
            *(("edrpou", "rnokpp", "vat_number"), ("iban", "bank")),
            *(("address",), ("phone", "email")),
        )
    ]
    name = party.get("legal_name") or party.get("name") or ""
    return {"name": name, "details": [line for line in lines if line]}


def _table(snapshot: Texts, texts: Texts) -> Texts:
    """`columns`, `rows` and `totals`; a column without any text is left out."""
    mode, lines, totals = snapshot["vat_mode"], snapshot["lines"], snapshot["totals"]
    currency = _currency(snapshot, texts)
    columns = {
        texts["quantity"]: [_number(line["quantity"], texts, "#,##0.###") for line in lines],
        texts["unit"]: [line.get("unit") or "" for line in lines],
        texts[f"price_{mode}"]: [_number(line["price"], texts, "#,##0.00##") for line in lines],
        texts["discount"]: [_discount(line.get("discount") or "", texts) for line in lines],
        texts["vat_rate"]: ["" if mode == "none" else f"{line['vat_rate']}%" for line in lines],
        texts[f"total_{mode}"]: [_number(line["total"], texts) for line in lines],
    }
    columns = {label: cells for label, cells in columns.items() if any(cells)}
    rows = [
        {
            "number": str(position),
            "name": line["name"],
            "sku": texts["sku"].format(line["sku"]) if line.get("sku") else "",
            "picture": line.get("picture") or "",
            "cells": cells,
        }
        for position, (line, *cells) in enumerate(zip(lines, *columns.values(), strict=True), 1)
    ]
    gross = (texts["sum_none" if mode == "none" else "sum_gross"], totals["gross"])
    sums = [(texts["sum_net"], totals["net"])] if mode != "none" else []
    sums += [(texts["sum_vat"].format(rate["rate"]), rate["vat"]) for rate in totals["rates"]]
    return {
        "columns": [texts["item"], *(label.format(currency) for label in columns)],
        "rows": rows,
        "totals": [(label, _number(amount, texts)) for label, amount in (*sums, gross)],
    }


def _currency(snapshot: Texts, texts: Texts) -> str:
    return texts["hryvnia"] if snapshot["currency"] == "UAH" else snapshot["currency"]


def _discount(text: str, texts: Texts) -> str:
    if text.endswith("%"):
        return _number(text[:-1], texts, "#,##0.####") + "%"
    return _number(text, texts) if text else ""


def _words(snapshot: Texts, texts: Texts) -> str:
    words, vat = snapshot["words"], snapshot["totals"]["vat"]
    amount = f"{_number(vat, texts)} {_currency(snapshot, texts)}" if vat else ""
    with_vat = texts["vat_words" if vat else "no_vat_words"].format(amount)
    return texts["words"].format(words[:1].upper() + words[1:]) + with_vat


def _payment(snapshot: Texts, texts: Texts) -> list[tuple[str, str]]:
    seller = snapshot["seller"]
    if not seller.get("iban"):
        return []
    known = {
        "pay_to": seller.get("legal_name") or seller.get("name"),
        "pay_code": seller.get("edrpou") or seller.get("rnokpp"),
        "pay_iban": seller["iban"],
        "pay_bank": seller.get("bank"),
        "pay_purpose": payment_purpose(snapshot),
    }
    return [(texts[name], text) for name, text in known.items() if text]


def _captions(snapshot: Texts, side: str) -> list[str]:
    """What stands under a side's lines for signatures: those of the company, or its director."""
    own = snapshot.get("signatures") if side == "seller" else []
    return list(own or [snapshot[side].get("director") or ""])
