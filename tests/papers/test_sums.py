"""Sums of papers, against Decimal arithmetic."""

import random
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

from crm.papers import sums

KOPIYKA = Decimal("0.01")


def rounded(value: Decimal) -> Decimal:
    return value.quantize(KOPIYKA, ROUND_HALF_UP)


def vat_of(amount: Decimal, rate: int, mode: str) -> Decimal:
    return rounded(amount * rate / (100 + rate if mode == "inside" else 100))


def test_sums_of_random_papers_are_those_of_decimals() -> None:
    chance = random.Random(2026)
    for number in range(3000):
        mode, by = chance.choice(["none", "inside", "on_top"]), chance.choice(["line", "total"])
        settings = {"vat_mode": mode, "vat_by": by, "vat_rate": chance.choice([20, 14, 7, 0])}
        largest = chance.choice([10, 10_000, 10**15])
        lines = [
            {"total": f"{Decimal(chance.randrange(largest)) / 100:.2f}"}
            | ({"vat_rate": chance.choice([20, 14, 7, 0, None])} if chance.random() < 0.5 else {})
            for _ in range(chance.randrange(1, 12))
        ]
        rates = [line.get("vat_rate") for line in lines]
        rates = [settings["vat_rate"] if rate is None else rate for rate in rates]
        amounts = [Decimal(line["total"]) for line in lines]
        totals = sums.add_vat(lines, settings)
        if mode == "none":
            total = f"{sum(amounts):.2f}"
            assert totals == {"net": total, "vat": None, "gross": total, "rates": []}
            assert all(line["vat"] is line["vat_rate"] is None for line in lines)
            continue
        by_rate = defaultdict[int, Decimal](Decimal)
        for amount, rate in zip(amounts, rates, strict=True):
            by_rate[rate] += vat_of(amount, rate, mode) if by == "line" else amount
        if by == "total":
            by_rate = {rate: vat_of(amount, rate, mode) for rate, amount in by_rate.items()}
        vat, total = sum(by_rate.values()), sum(amounts)
        gross = total if mode == "inside" else total + vat
        assert (totals["vat"], totals["gross"]) == (f"{vat:.2f}", f"{gross:.2f}"), number
        assert Decimal(totals["net"]) + Decimal(totals["vat"]) == Decimal(totals["gross"])
        shown = {entry["rate"]: Decimal(entry["vat"]) for entry in totals["rates"]}
        assert shown == by_rate and list(shown) == sorted(shown)
        assert sum(Decimal(entry["net"]) for entry in totals["rates"]) == Decimal(totals["net"])
        assert [line["vat_rate"] for line in lines] == rates
        if by == "line":
            assert sum(Decimal(line["vat"]) for line in lines) == vat
        else:
            assert all(line["vat"] is None for line in lines)


def test_vat_by_line_and_by_total_differ_by_what_is_rounded() -> None:
    settings = {"vat_mode": "inside", "vat_rate": 20, "vat_by": "line"}
    lines = [{"total": "0.03"} for _ in range(3)]
    assert sums.add_vat(lines, settings)["vat"] == "0.03"  # of each 0.005, half up
    assert sums.add_vat(lines, settings | {"vat_by": "total"})["vat"] == "0.02"
    assert sums.add_vat([{"total": "100.00"}], settings | {"vat_mode": "on_top"}) == {
        **{"net": "100.00", "vat": "20.00", "gross": "120.00"},
        "rates": [{"rate": 20, "net": "100.00", "vat": "20.00"}],
    }
