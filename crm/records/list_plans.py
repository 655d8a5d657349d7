"""By which index a list is read, so that any page of it takes a time that is bounded.

SQLite keeps no figures about its indexes here, so it cannot know whether a filter leaves ten
records or all of them. A table of a noun has two kinds of indexes for its lists:

- one for each order, `<table>_<order>`: the order's value, the id, the columns of the filters by
  equality, and `deleted_at`. A filter is checked in it without the row being read: about 0.06 µs.
- one for each filter: its column, and the id.

A filter that leaves few records, `FEW`, is read by its own index and sorted. Where each leaves
more, the order's index is walked until the page is full. If the records of a filter stand together
at the other end of the order, that is a walk over all of it: 30 ms at 500,000 records. An index
for each pair of a filter and an order would spare that, and cost two fifths more of the file.

Filters of times, tags and words are checked by reading the row, or another table: 0.1 to 0.6 µs.
Both ends of a range of times, `created_since` with `created_until`, are one condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crm.records.conditions import Condition
from crm.records.parameters import Query, Sort
from crm.records.views import RecordView
from crm.tenancy.database import one_row
from crm.tenancy.dialect import by_id, by_index

# To sort 1,000 records takes 1 ms, as long as to find 51 of 1,000 among 500,000 by walking. By id
# nothing is sorted.
FEW, FEW_BY_ID = 1000, 5000


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read a list: `table` with its index, and the conditions.

    `ids`, if given, selects the ids of few records, which are read and no others. `few` tells that
    the conditions themselves name them.
    """

    table: str
    conditions: list[Condition]
    ids: Condition | None = None
    few: bool = False

    def where(self, beyond: Condition | None = None) -> list[Condition]:
        """All conditions, for records whose id is `beyond` another."""
        if self.ids is None:
            return [*self.conditions, beyond] if beyond else self.conditions
        sql, params = self.ids.sql, [*self.ids.params]
        if beyond:
            sql, params = f"SELECT id FROM ({sql}) WHERE {beyond.sql}", [*params, *beyond.params]
        return [Condition(f"id IN ({sql})", params), *self.conditions]


def choose(shape: RecordView, query: Query, sort: Sort, conditions: list[Condition]) -> Plan:
    """The plan of the list that the query asks for."""
    table, name = shape.table, query.sort.removeprefix("-")
    sorted_by_id = name == "id"
    if shape.live == "1":  # of such a table each list is short, or has an index of its own
        return Plan(table, conditions)
    if any(each.names_ids for each in conditions):
        return Plan(by_id(table), conditions, few=True)
    if not sorted_by_id:
        walk = Plan(by_index(table, f"{table}_{name}"), conditions)
    else:
        walk = _walk_by_id(table, query, conditions)
    if not conditions or _fits(conditions, sort.orders[name]):
        return walk
    few = _fewest(shape, query, conditions, FEW_BY_ID if sorted_by_id else FEW)
    if few is None:
        begins = _beginnings(shape, query, sort.orders[name], conditions)
        return replace(walk, conditions=[*walk.conditions, *begins])
    others = [each for each in conditions if each is not few]
    return Plan(by_id(table), others, Condition(_ids(few, shape, query), few.params))


def count(
    shape: RecordView,
    query: Query,
    sort: Sort,
    live: Condition,
    conditions: list[Condition],
    plan: Plan,
) -> int:
    """How many records a list has: from indexes alone, unless rows themselves must be checked."""
    table, first = shape.table, next(iter(conditions), None)
    if shape.live == "1" or plan.few or plan.ids:
        table, conditions = plan.table, plan.where()
    elif not query.include_deleted and first is None:
        # To count all takes a tenth of the time of counting those that meet a condition.
        deleted = f"SELECT count(*) FROM {table} WHERE deleted_at IS NOT NULL"
        return one_row(f"SELECT (SELECT count(*) FROM {table}) - ({deleted})")[0]
    elif (
        first is not None
        and not query.include_deleted
        and len(conditions) == 1
        and first.ids
        and not first.reads_row
    ):
        return one_row(f"SELECT count(*) FROM ({_ids(first, shape, query)})", first.params)[0]
    elif any(each.reads_row for each in conditions):
        table = by_id(table)
        conditions = [
            Condition(f"id IN ({_ids(each, shape, query)})", each.params)
            if _has_index(each, query) and (each.reads_row or query.include_deleted)
            else each
            for each in conditions
        ]
    else:
        names = {order: name for name, order in sort.orders.items() if name != "id"}
        ranges = [names.get(each.order, each.order) for each in conditions if each.order]
        table = by_index(table, f"{table}_{[*ranges, *names.values()][0]}")
    where, params = joined([live, *conditions])
    return one_row(f"SELECT count(*) FROM {table} WHERE {where}", params)[0]


def joined(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """What stands after WHERE, with its parameters."""
    params = [value for each in conditions for value in each.params]
    return " AND ".join(each.sql for each in conditions), params


def _walk_by_id(table: str, query: Query, conditions: list[Condition]) -> Plan:
    """In order of id, records of one filter can be walked alone; all others are only checked."""
    leader = next((each for each in conditions if each.in_order), None)
    if leader is None or query.include_deleted:  # indexes of filters have live records only
        return Plan(by_id(table), conditions)
    checked = [each._replace(sql=f"+({each.sql})") for each in conditions if each is not leader]
    return Plan(table, [leader, *checked])


def _fits(conditions: list[Condition], order: str) -> bool:
    """Does the walk pass only records that meet the conditions?"""
    first, *others = conditions
    return not others and (order == "id" if first.in_order else first.order == order)


def _fewest(
    shape: RecordView, query: Query, conditions: list[Condition], most: int
) -> Condition | None:
    """The condition that the fewest records meet, if these are no more than `most`."""
    found: list[tuple[int, int, Condition]] = []
    for each in conditions:
        if _has_index(each, query):
            sql = f"SELECT count(*) FROM ({_ids(each, shape, query)} LIMIT {most + 1})"
            found.append((one_row(sql, each.params)[0], len(found), each))
    if not found:
        return None
    number, _, fewest = min(found)
    return fewest if number <= most else None


def _beginnings(
    shape: RecordView, query: Query, order: str, conditions: list[Condition]
) -> list[Condition]:
    """Where the first page begins in an order that goes along with the time of a filter.

    The newest records have the highest ids: those of the last month, the oldest first, would be
    looked for among all before them. The look-up costs 0.04 µs for each record of the month.
    """
    if query.cursor:
        return []
    end, sign, far = ("max", "<=", "<") if query.sort.startswith("-") else ("min", ">=", ">=")
    live = "1" if query.include_deleted else shape.live
    # `+`, or SQLite looks for the first by walking the order.
    first = f"SELECT {end}(+{order}) FROM {shape.table} WHERE {live} AND "
    return [
        Condition(f"{order} {sign} ({first}{each.sql})", each.params)
        for each in conditions
        if far in each.sign
        and (order == "id" or (order, each.order) == ("created_at", "updated_at"))
    ]


def _has_index(condition: Condition, query: Query) -> bool:
    """Only the indexes of times have the deleted too."""
    return bool(condition.ids) and (bool(condition.order) or not query.include_deleted)


def _ids(condition: Condition, shape: RecordView, query: Query) -> str:
    live = "1" if query.include_deleted else shape.live
    return condition.ids.format(table=shape.table, live=live)
