"""The sums of a paper: VAT of its lines and totals, exact to the kopiyka."""

from collections import Counter
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
    amounts, vats = Counter[int](), Counter[int]()  # by rate
    for line in lines:
        amount, rate = in_cents(money(line["total"], 4, AMOUNT_MAX)), line.get("vat_rate")
        rate = settings["vat_rate"] if rate is None else rate
        line |= {"vat_rate": None if mode == "none" else rate, "vat": None}
        amounts[rate] += amount
        if by_line and mode != "none":
            vats[rate] += (vat := _vat(amount, rate, mode))
            line["vat"] = amount_text(vat)
    total = amount_text(amounts.total())
    if mode == "none":
        return {"net": total, "vat": None, "gross": total, "rates": []}
    if not by_line:
        vats.update({rate: _vat(amount, rate, mode) for rate, amount in amounts.items()})
    nets = {rate: sum_ - (vats[rate] if mode == "inside" else 0) for rate, sum_ in amounts.items()}
    net, vat = sum(nets.values()), vats.total()
    rates = [
        {"rate": rate, "net": amount_text(nets[rate]), "vat": amount_text(vats[rate])}
        for rate in sorted(nets)
    ]
    sums = {"net": amount_text(net), "vat": amount_text(vat), "gross": amount_text(net + vat)}
    return sums | {"rates": rates}


def _vat(amount: int, rate: int, mode: str) -> int:
    return in_cents(amount * rate, 100 + rate if mode == "inside" else 100)
