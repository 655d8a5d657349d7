"""What a paper shows, in its language: the texts that its page and its PDF have in common."""

import tomllib
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from babel import dates, numbers

from crm.values.message_names import name_for_message

Texts = dict[str, Any]

DETAILS = (("edrpou", "rnokpp", "vat_number"), ("iban", "bank"), ("address",), ("phone", "email"))


def show(snapshot: Texts) -> Texts:
    """The texts of a paper, formatted: each is data, to be shown as it is.

    `title`; `subject`, of offers; `parties`: two of {label, name, details: lines}; `columns`: the
    labels of the items' names and of their cells; `rows`: {number, name, sku, picture, cells};
    `totals`: pairs of a label and an amount, the last the most important; `words`; `valid_until`;
    `payment`, of invoices: pairs of a label and a text; `terms`: lines; `signatures`: {label,
    captions} of each side. What a paper lacks is "" or an empty list.
    `texts` are those of texts.toml: `intro` and `statement` of an act, `terms` (the heading),
    `scan` (beside the QR), `page`, with two {}. And `kind`, `language`, `color` and `qr` of the
    snapshot.
    """
    texts = _texts(snapshot["language"], snapshot["kind"])
    until, terms = snapshot.get("valid_until"), snapshot.get("terms") or ""
    title = {"number": snapshot["number"], "date": _day(snapshot["date"], texts)}
    signed = {side: _captions(snapshot, side) for side in ("seller", "buyer")}
    return {
        **{key: snapshot.get(key) or "" for key in ("kind", "language", "color", "qr")},
        **_table(snapshot, texts),
        "texts": texts,
        "title": texts["title"].format(name=texts["name"], **title),
        "subject": snapshot["deal"]["title"] if snapshot["kind"] == "offer" else "",
        "parties": [_party(snapshot, side, texts) for side in ("seller", "buyer")],
        "words": _words(snapshot, texts),
        "valid_until": texts["valid_until"].format(_day(until, texts)) if until else "",
        "payment": _payment(snapshot, texts) if snapshot["kind"] == "invoice" else [],
        "terms": terms.split("\n") if terms else [],
        "signatures": [
            {"label": texts[f"signed_by_{side}"], "captions": captions}
            for side, captions in signed.items()
            if captions and f"signed_by_{side}" in texts
        ],
    }


def letter(snapshot: Texts, url: str, days: int) -> tuple[str, str]:
    """The subject and the text of the e-mail by which a client gets a paper, or a link to it."""
    shown = show(snapshot)
    name = shown["parties"][0]["name"]
    # A name that looks like an address is left out: strangers could advertise by it.
    subject = f"{shown['title']}, {name}" if name_for_message(name) else shown["title"]
    return subject, shown["texts"]["letter"].strip().format(title=subject, url=url, days=days)


def payment_purpose(snapshot: Texts) -> str:
    """The purpose of the payment of an invoice, in Ukrainian, as banks of Ukraine need it."""
    vat = snapshot["totals"]["vat"]
    day = date.fromisoformat(snapshot["date"]).strftime("%d.%m.%Y")
    with_vat = f"у т. ч. ПДВ {vat} грн" if vat else "без ПДВ"
    return f"Оплата за рахунком № {snapshot['number']} від {day}, {with_vat}"


@cache
def _texts(language: str, kind: str) -> Texts:
    text = Path(__file__).with_name("texts.toml").read_text("utf-8")
    texts = tomllib.loads(text)[language]
    own = {"intro": "", "statement": "", "valid_until": ""} | texts[kind]
    return {name: text for name, text in texts.items() if isinstance(text, str)} | own


def _day(text: str, texts: Texts) -> str:
    return dates.format_date(date.fromisoformat(text), texts["day"], locale=texts["locale"])


def _number(text: str, texts: Texts, pattern: str = "#,##0.00") -> str:
    return numbers.format_decimal(Decimal(text), pattern, locale=texts["locale"])


def _party(snapshot: Texts, side: str, texts: Texts) -> Texts:
    party = snapshot[side]
    lines = [
        ", ".join(texts.get(key, "{}").format(party[key]) for key in keys if party.get(key))
        for keys in DETAILS
    ]
    if side == "seller" and snapshot["kind"] == "offer" and snapshot.get("manager"):
        lines.append(texts["manager"].format(snapshot["manager"]))
    return {"label": texts[side], "name": _name(party), "details": [*filter(None, lines)]}


def _name(party: Texts) -> str:
    return party.get("legal_name") or party.get("name") or ""


def _table(snapshot: Texts, texts: Texts) -> Texts:
    """`columns`, `rows` and `totals`; a column without any text is left out."""
    mode, lines, totals = snapshot["vat_mode"], snapshot["lines"], snapshot["totals"]
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
        {"number": str(number), "name": line["name"], "cells": cells}
        | {"sku": texts["sku"].format(line["sku"]) if line.get("sku") else ""}
        | {"picture": line.get("picture") or ""}
        for number, (line, *cells) in enumerate(zip(lines, *columns.values(), strict=True), 1)
    ]
    sums = [(texts[f"sum_{mode}"], totals["gross"])]
    if mode != "none":
        rates = [(texts["sum_vat"].format(rate["rate"]), rate["vat"]) for rate in totals["rates"]]
        sums = [(texts["sum_net"], totals["net"]), *rates, *sums]
    currency = _currency(snapshot, texts)
    return {
        "columns": [texts["item"], *(label.format(currency) for label in columns)],
        "rows": rows,
        "totals": [(label, _number(amount, texts)) for label, amount in sums],
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
    known = {"to": _name(seller), "code": seller.get("edrpou") or seller.get("rnokpp")}
    known |= {"iban": seller.get("iban"), "bank": seller.get("bank")}
    known |= {"purpose": payment_purpose(snapshot)}
    pairs = [(texts[f"pay_{name}"], text) for name, text in known.items() if text]
    return pairs if known["iban"] else []


def _captions(snapshot: Texts, side: str) -> list[str]:
    """What stands under a side's lines for signatures: those of the company, or its director."""
    own = list(snapshot.get("signatures") or ()) if side == "seller" else []
    return own or ([] if snapshot["kind"] == "offer" else [snapshot[side].get("director") or ""])
