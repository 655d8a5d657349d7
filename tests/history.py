"""A published sales history of real deals: the rows of its files."""

import csv
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "b2b_pipeline"
STAGES = {"Prospecting": "open", "Engaging": "open", "Won": "won", "Lost": "lost"}

Row = dict[str, str]


def table(name: str) -> list[Row]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def sku_of(product: str) -> str:
    """`GTXPro` and `GTX Pro` are one product."""
    return product.replace(" ", "").upper()


def moment(date: str) -> str | None:
    """10/20/2016 as the API takes it."""
    if not date:
        return None
    month, day, year = date.split("/")
    return f"{year}-{month:0>2}-{day:0>2}T00:00:00Z"


def price_list() -> bytes:
    """The catalogue as a price list: `series` is the category."""
    lines = ["sku,name,price,category"]
    for row in table("products"):
        name = row["product"]
        lines.append(f"{sku_of(name)},{name},{row['sales_price']},{row['series']}")
    return "\n".join(lines).encode()
