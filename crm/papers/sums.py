"""The sums of a paper: VAT of its lines and totals, exact to the kopiyka."""

from collections import defaultdict
from typing import Any

from crm.values import AMOUNT_MAX, in_cents, money


def amount_text(units: int) -> str:
    """An amount in 1/10 000, whole in 1/100, as a snapshot has it: "1250.50"."""
    return f"{units // 10_000}.{units % 10_000 // 100:02}"


def add_vat(lines: list[dict[str, Any]], settings: dict[str, Any]) -> dict[str, Any]:
    """Set `vat_rate` and `vat` of a snapshot's lines, and return its `totals`.

    lines: each has `total`, and `vat_rate` if its product has one. settings: as PaperSettings shows
    them. `inside`: the totals are with VAT; `on_top`: it is added to them. `vat_by` "line": the VAT
    of each line is rounded half up and summed; "total": that of the sum of all lines of a rate, and
    `vat` of the lines is null. `vat` of the totals is null if the company pays none. net + vat is
    always gross.
    """
    mode, by_line = settings["vat_mode"], settings["vat_by"] == "line"
    amounts, vats = defaultdict[int | None, int](int), defaultdict[int | None, int](int)
    for line in lines:
        amount = in_cents(money(line["total"], 4, AMOUNT_MAX))
        rate = line.get("vat_rate")
        rate = None if mode == "none" else settings["vat_rate"] if rate is None else rate
        vat = _vat(amount, rate, mode) if by_line and rate is not None else None
        line |= {"vat_rate": rate, "vat": None if vat is None else amount_text(vat)}
        amounts[rate] += amount
        vats[rate] += vat or 0
    total, rates = sum(amounts.values()), list[dict[str, Any]]()
    if mode == "none":
        return {"net": amount_text(total), "vat": None, "gross": amount_text(total), "rates": rates}
    for rate in sorted(amounts):  # type: ignore[type-var]  # none is None
        vat = vats[rate] if by_line else _vat(amounts[rate], rate or 0, mode)
        net = amounts[rate] - vat if mode == "inside" else amounts[rate]
        rates.append({"rate": rate, "net": amount_text(net), "vat": amount_text(vat)})
        vats[rate] = vat
    vat = sum(vats.values())
    net = total - vat if mode == "inside" else total
    return {
        "net": amount_text(net),
        "vat": amount_text(vat),
        "gross": amount_text(net + vat),
        "rates": rates,
    }


def _vat(amount: int, rate: int, mode: str) -> int:
    return in_cents(amount * rate, 100 + rate if mode == "inside" else 100)
