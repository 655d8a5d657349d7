"""How many records of a list there are, by group, and their sums: what reports and boards show."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crm.records.conditions import Condition
from crm.records.list_plans import join_conditions
from crm.storage.session import rows

HUNDREDTHS = 100


@dataclass(slots=True)
class Totals:
    """A number of records, and their sums by unit.

    The unit of amounts is their currency: sums of several are never mixed (D2). They are in 1/100,
    because amounts in 1/10 000 could add up to more than 64 bits.
    """

    count: int = 0
    sums: dict[str, int] = field(default_factory=dict)

    def add(self, unit: str, count: int, sum: int) -> None:
        self.count += count
        if sum:
            self.sums[unit] = self.sums.get(unit, 0) + sum

    def add_all(self, other: "Totals") -> None:
        self.count += other.count
        for unit, sum in other.sums.items():
            self.add(unit, 0, sum)


def count_by_group(
    source: str,
    groups: Sequence[str],
    conditions: Sequence[Condition],
    unit: str = "''",
    value: str = "0",
) -> list[tuple[Any, ...]]:
    """(*groups, unit, number of records, sum of their values) of the records that meet conditions.

    source: the SQL text of the table, with the index to read it by. groups: columns or other SQL
    expressions. unit, value: SQL expressions of what is added up and its unit, by default nothing.
    """
    where, params = join_conditions(conditions)
    listed = ", ".join([*groups, unit])
    # Each column that groups costs time, also one whose value is always the same.
    count = len(groups) + (not unit.startswith("'"))
    places = ", ".join(str(place) for place in range(1, count + 1))
    return rows(
        f"SELECT {listed}, count(*), coalesce(sum({value}), 0) FROM {source}"
        f" WHERE deleted_at IS NULL AND {where}" + f" GROUP BY {places}" * bool(count),
        params,
    )
