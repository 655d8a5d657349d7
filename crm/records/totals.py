"""How many records of a list there are, by group, and their sums: what reports and boards show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crm.records.conditions import EVERY_ROW, Condition
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
    value: str = "",
    unit: str = "",
    unit_column: str = "",
    parts: Sequence[Condition] = (),
    cases: Sequence[Sequence[Condition]] = ((),),
    read: Callable[[str, list[Any]], list[tuple[Any, ...]]] = rows,
) -> list[tuple[Any, ...]]:
    """(*groups, unit, number of records, sum of their values) of the records that meet conditions.

    source: the SQL text of the table, with the index to read it by. groups: columns or other SQL
    expressions. value: the SQL expression of what is added up, by default nothing. Its unit is
    `unit`, or that of each record in the column `unit_column`. parts: if given, conditions of parts
    of the records, each counted by itself; the position of the part comes first in its rows.
    cases: if given, further conditions of what is counted: a row has the two figures of each case.
    read: rows() or remembered_rows().
    """
    figures, params_of_cases = [], list[Any]()
    for case in cases:
        where, params_of_case = join_conditions(case)
        only = f" FILTER (WHERE {where})" if case else ""
        sum_of_case = f"coalesce(sum({value}){only}, 0)" if value else "0"
        figures.append(f"count(*){only}, {sum_of_case}")
        params_of_cases += params_of_case * (2 if value else 1)
    # Not by a unit that all have: each column that groups costs time.
    count = len(groups) + bool(unit_column)
    first = 2 if parts else 1
    places = ", ".join(map(str, range(first, first + count)))
    grouping = f" GROUP BY {places}" if count else ""
    listed = ", ".join([*groups, unit_column or f"'{unit}'"])
    selects, params = [], []
    for position, part in enumerate(parts or [Condition(EVERY_ROW)]):
        where, params_of_part = join_conditions([*conditions, part])
        selects.append(
            f"SELECT {f'{position}, ' * bool(parts)}{listed}, {', '.join(figures)}"
            f" FROM {source} WHERE deleted_at IS NULL AND {where}{grouping}"
        )
        params += [*params_of_cases, *params_of_part]
    return read(" UNION ALL ".join(selects), params)
