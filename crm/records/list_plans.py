"""By which index a list is read, so that any page of it takes a time that is bounded.

The database keeps no figures about its indexes here, so it cannot know whether a filter leaves ten
records or all of them. A table of a resource has two kinds of indexes for its lists:

- one for each order, `<table>_<order>`: the order's value, the id, the columns of the filters by
  equality, and `deleted_at`. A filter is checked in it without the row being read: about 0.06 µs.
- one for each filter: its column, and the id.

The order's index is walked until the page is full where enough of SAMPLE_ROWS records, not far
behind its begin, meet the conditions. Else a filter that leaves few records, MAX_SORTED, is read by
its own index and sorted, and where each leaves more the order is walked after all. If the records
of a filter stand together at the other end of the order, that is a walk over all of it: 30 ms at
500,000 records. An index for each pair of a filter and an order would spare that, and cost two
fifths more of the file.

Filters of times, tags and words are checked by reading the row, or another table: 0.1 to 0.6 µs.
Both ends of a range of times, `created_since` with `created_until`, are one condition.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crm.json import dumps
from crm.records.conditions import EVERY_ROW, OF_LIST, Condition
from crm.records.parameters import MAX_LIMIT, Query, Sort
from crm.records.views import RecordView
from crm.storage import own_rows
from crm.storage.dialect import among, by_id, by_index, without_index
from crm.storage.session import current_session, remembered_row, remembered_rows, value_of_all

# To sort 1,000 records takes 1 ms, as long as to find 51 of 1,000 among 500,000 by walking. By id
# nothing is sorted.
MAX_SORTED, MAX_SORTED_BY_ID = 1000, 5000
MAX_WALKED = 20_000  # takes as long as to look up the first of 70,000 in an index
MAX_READ_BY_ID = 100  # a filter that leaves so few is looked for first
# Of a walk, so many records behind its begin; if so many of them are in the list, a page is near.
SAMPLE_ROWS, SAMPLE_DISTANCE, MIN_SAMPLE_MATCHES = 100, 1000, 5


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read a list: `table` with its index, and the conditions.

    ids: if given, selects the ids of few records, which are read and no others.
    names_ids: whether the conditions themselves list the ids.
    """

    table: str
    conditions: list[Condition]
    ids: Condition | None = None
    names_ids: bool = False

    def where(self, beyond: Condition | None = None) -> list[Condition]:
        """All conditions, for records whose id is `beyond` another."""
        if self.ids is None:
            return [*self.conditions, beyond] if beyond else self.conditions
        sql, params = self.ids.sql, [*self.ids.params]
        if beyond:
            sql, params = (
                f"SELECT id FROM ({sql}) AS few WHERE {beyond.sql}",
                [*params, *beyond.params],
            )
        return [Condition(f"id IN ({sql})", params), *self.conditions]


def choose_plan(
    view: RecordView,
    query: Query,
    sort: Sort,
    conditions: list[Condition],
    last: tuple[Any, int] | None = None,
) -> Plan:
    """Choose how to read the list of a query.

    view, sort: of the list. conditions: of the query and of the list itself. last: the order's
    value and the id of the last record of the page before.
    """
    table, name = view.source, query.sort.removeprefix("-")
    sorted_by_id = name == "id"
    if view.live == EVERY_ROW:  # of such a table each list is short, or has an index of its own
        return Plan(table, conditions)
    if any(condition.names_ids for condition in conditions):
        return Plan(by_id(table), conditions, names_ids=True)
    if indexes := [condition.walks for condition in conditions if condition.walks]:
        return Plan(by_index(table, indexes[0]), conditions)
    if not sorted_by_id:
        walk = Plan(by_index(table, f"{table}_{name}"), conditions)
    else:
        walk = _plan_walk_by_id(table, query, conditions)
    selectable = [condition for condition in conditions if _has_index(condition, query)]
    if not selectable or _meets_all(conditions, sort.orders[name]):
        return walk
    max_records = MAX_SORTED_BY_ID if sorted_by_id else MAX_SORTED
    few = _find_rarest(view, query, selectable, min(MAX_READ_BY_ID, max_records))
    if few is None:
        if _meets_matches_soon(view, query, sort, walk, last):
            return walk
        few = _find_rarest(view, query, selectable, max_records)
    if few is None:
        return _find_first(view, query, sort.orders[name], conditions, walk, last)
    return _plan_few(view, query, few, conditions)


def _plan_few(view: RecordView, query: Query, few: Condition, conditions: list[Condition]) -> Plan:
    """Read the records of one condition by their ids."""
    others = [condition for condition in conditions if condition is not few]
    ids = Condition(_select_ids(few, view, query), few.params)
    return Plan(by_id(view.source), others, ids)


def own_records(table: str) -> list[Condition]:
    """The condition by which a list finds the records of an actor who may read no others."""
    alternatives = own_alternatives(table)
    if not alternatives:
        return []
    ids = " UNION ALL ".join(OF_LIST + alternative.sql for alternative in alternatives)
    sql = " OR ".join(alternative.sql for alternative in alternatives)
    params = [value for alternative in alternatives for value in alternative.params]
    return [Condition(f"({sql})", params, ids)]


def own_alternatives(table: str) -> list[Condition]:
    """Of an actor who may read no others: conditions of which each such record meets one alone.

    The index of each is `<table>_<column>`, of the column that the condition begins with.
    """
    session = current_session()
    if session.own_user_id is None:
        return []
    return [
        Condition(sql, [session.own_user_id] * sql.count("?"))
        for sql in own_rows.alternatives(table, session.sees_unassigned)
    ]


def count_records(
    view: RecordView,
    query: Query,
    sort: Sort,
    live: Condition,
    conditions: list[Condition],
    plan: Plan,
) -> int:
    """How many records a list has. SQLite counts only the rows added since the last time.

    Beyond `query.max_total` any number more than that is returned, by reading as few.
    live: the condition of the records that the list shows, deleted ones too if they are.
    """
    sql, params = _counting(view, query, sort, live, conditions, plan)
    session = current_session()
    where, where_params = join_conditions([live, *conditions])
    depends_on_row_alone = view.live != EVERY_ROW and "SELECT " not in where
    is_limited = session.connection is not session.reader or session.own_user_id is not None
    if depends_on_row_alone and not is_limited:
        return session.reader.count_rows(sql, params, view.source, where, where_params)
    counted = remembered_row(sql, params)
    assert counted is not None  # a count always gives a row
    return counted[0]


def _counting(
    view: RecordView,
    query: Query,
    sort: Sort,
    live: Condition,
    conditions: list[Condition],
    plan: Plan,
) -> tuple[str, Sequence[Any]]:
    """The query of a count, and its parameters: of indexes alone unless rows must be checked."""
    table = view.source
    if view.live == EVERY_ROW or plan.names_ids or plan.ids:
        return _count_of(plan.table, live, plan.where(), query)
    own = own_records(table)
    if own and not query.include_deleted:
        others = [condition.of_all for condition in conditions if condition not in own]
        selects, all_params = [], []
        for alternative in own_alternatives(table):
            where, params = join_conditions([live, *others, alternative])
            index = f"{table}_{alternative.sql.split()[0]}"
            selects.append(f"SELECT 1 FROM {by_index(table, index)} WHERE {where}")
            all_params += params
        return _limit_count(" UNION ALL ".join(selects), query), all_params
    if any(condition.reads_row for condition in conditions):
        by_ids = [
            Condition(f"id IN ({_select_ids(condition, view, query)})", condition.params)
            if _has_index(condition, query) and (condition.reads_row or query.include_deleted)
            else condition
            for condition in conditions
        ]
        return _count_of(by_id(table), live, by_ids, query)
    if not query.include_deleted and not conditions and not query.max_total:
        # To count all takes a tenth of the time of counting those that meet a condition.
        deleted = f"SELECT count(*) FROM {table} WHERE deleted_at IS NOT NULL"
        return f"SELECT (SELECT count(*) FROM {table}) - ({deleted})", ()
    if not query.include_deleted and len(conditions) == 1 and conditions[0].ids:
        ids = _select_ids(conditions[0], view, query)
        return _limit_count(ids, query), conditions[0].params
    # All columns are in the index of any order; a range is found in that of its own.
    names = {order: name for name, order in sort.orders.items() if name != "id"}
    ranges = [names.get(one.order, one.order) for one in conditions if one.order]
    index = f"{table}_{[*ranges, *names.values()][0]}"
    return _count_of(by_index(table, index), live, conditions, query)


def _count_of(
    source: str, live: Condition, conditions: Sequence[Condition], query: Query
) -> tuple[str, Sequence[Any]]:
    where, params = join_conditions([live, *(condition.of_all for condition in conditions)])
    if query.max_total:
        return _limit_count(f"SELECT 1 FROM {source} WHERE {where}", query), params
    return f"SELECT count(*) FROM {source} WHERE {where}", params


def _limit_count(select: str, query: Query) -> str:
    limit = f" LIMIT {query.max_total + 1}" if query.max_total else ""
    return f"SELECT count(*) FROM ({select}{limit}) AS listed"


def join_conditions(conditions: Sequence[Condition]) -> tuple[str, list[Any]]:
    """Join conditions by AND, for WHERE; returns the SQL and its parameters."""
    params = [value for condition in conditions for value in condition.params]
    return " AND ".join(condition.sql for condition in conditions), params


def _plan_walk_by_id(table: str, query: Query, conditions: list[Condition]) -> Plan:
    """In order of id, records of one filter can be walked alone; all others are only checked."""
    leader = next((condition for condition in conditions if condition.in_order), None)
    if leader is None or query.include_deleted:  # indexes of filters have live records only
        return Plan(by_id(table), conditions)
    checked = [
        condition._replace(sql=without_index(f"({condition.sql})"))
        for condition in conditions
        if condition is not leader
    ]
    return Plan(table, [leader, *checked])


def _meets_all(conditions: list[Condition], order: str) -> bool:
    """Whether the walk passes only records that meet the conditions."""
    first, *others = conditions
    return not others and (order == "id" if first.in_order else first.order == order)


def _find_rarest(
    view: RecordView, query: Query, conditions: list[Condition], max_records: int
) -> Condition | None:
    """The condition that the fewest records meet, if these are at most `max_records`."""
    fewest = None
    for condition in conditions:
        sql = f"SELECT count(*) FROM ({_select_ids(condition, view, query)} LIMIT ?) AS few"
        # Of all users: among many of others, the records that the actor may read would be far.
        record_count = value_of_all(sql, [*condition.params, max(0, max_records + 1)])
        if record_count <= max_records:
            fewest, max_records = condition, record_count - 1
    return fewest


def _meets_matches_soon(
    view: RecordView, query: Query, sort: Sort, walk: Plan, last: tuple[Any, int] | None
) -> bool:
    """Whether enough of some records of a walk are in the list, or there are no more so far on."""
    order, descends = sort.orders[query.sort.removeprefix("-")], query.sort.startswith("-")
    aggregate, sign, direction = ("max", "<=", "-") if descends else ("min", ">=", "+")
    begin = Condition(f"(SELECT {aggregate}({order}) FROM {view.source})")
    if last is not None:
        begin = Condition("?", [last[order == "id"]])
    if walk.table == by_id(view.source):  # the distance is one of ids
        distance, offset = f" {direction} {SAMPLE_DISTANCE}", ""
    else:
        distance, offset = "", f" OFFSET {SAMPLE_DISTANCE}"
    live = Condition(EVERY_ROW if query.include_deleted else view.live)
    leading = walk.conditions[:1] if walk.table == view.source else []
    behind = begin._replace(sql=f"{order} {sign} {begin.sql}{distance}")
    where, params = join_conditions([live, *leading, behind])
    matches, params_of_walk = join_conditions(walk.conditions)
    sample = f"SELECT id FROM {walk.table} WHERE {where} ORDER BY {sort.order_by(query.sort)}"
    sql = (
        f"SELECT count(*) < {SAMPLE_ROWS}"
        f" OR count(CASE WHEN {matches} THEN 1 END) >= {MIN_SAMPLE_MATCHES}"
        f" FROM {by_id(view.source)} WHERE id IN ({sample} LIMIT {SAMPLE_ROWS}{offset})"
    )
    return bool(value_of_all(sql, [*params_of_walk, *params]))


def _find_first(
    view: RecordView,
    query: Query,
    order: str,
    conditions: list[Condition],
    walk: Plan,
    last: tuple[Any, int] | None,
) -> Plan:
    """The plan for a range that goes along with the order and is far behind the walk's begin.

    The newest records have the highest ids: those of the last month, the oldest first, would be
    looked for among all before them. The ids of the page are found in the index of the range, at
    0.06 µs for each record of it. Where a row must be read for another condition they only tell
    where the walk begins.
    """
    descends, source = query.sort.startswith("-"), view.source
    sign, far, direction = ("<", "<", "DESC") if descends else (">", ">=", "ASC")
    for span in conditions:
        along = order == "id" or (order, span.order) == ("created_at", "updated_at")
        if far in span.sign and along:
            break
    else:
        return walk
    if order == "id" and span.sign == "<" and not last:
        older = f"SELECT id FROM {source} WHERE {span.sql} ORDER BY {span.order} DESC, id DESC"
        newer = f"SELECT count(*) FROM {source} WHERE {span.order} >= ? AND id > older.id"
        distance = f"(SELECT max(id) FROM {source}) - older.id"
        sql = (
            f"SELECT max(older.id) FROM ({older} LIMIT 1) AS older"
            f" WHERE CASE WHEN {distance} <= {MAX_WALKED} THEN ({newer}) = {distance} END"
        )
        if begin := value_of_all(sql, [*span.params, span.params[0]]):  # those behind it are newer
            return replace(walk, conditions=[*walk.conditions, Condition("id <= ?", [begin])])
    others = [one for one in conditions if one is not span and not one.reads_row]
    checked = [one._replace(sql=without_index(f"({one.sql})")) for one in others]
    is_page = query.limit <= MAX_LIMIT  # unlike a file
    is_page &= len(others) + 1 == len(conditions) and not query.include_deleted
    if last:
        if not is_page:
            return walk
        checked.append(Condition(f"({order}, id) {sign} (?, ?)", [last[order == "id"], last[1]]))
    live = Condition(EVERY_ROW if query.include_deleted else view.live)
    where, params = join_conditions([live, span, *checked])
    # The nearest first: of the further ones few take the place of others.
    nearest = (
        f"SELECT id, {order} AS place FROM {source} WHERE {where}"
        f" ORDER BY {span.order} {direction} LIMIT {sys.maxsize}"
    )
    sql = (
        f"SELECT id FROM ({nearest}) AS nearest ORDER BY place {direction}, id {direction} LIMIT ?"
    )
    limit = min(query.limit, MAX_LIMIT) + 1
    first = [id for (id,) in remembered_rows(sql, [*params, limit], of_all=True)]
    if is_page or not first:
        return Plan(by_id(source), [Condition(among("id"), [dumps(first).decode()]), *conditions])
    if order == "id" and abs(first[-1] - first[0]) > MAX_WALKED:  # some are far from the others
        return _plan_few(view, query, span, conditions)
    begin = f"{order} {sign}= (SELECT {order} FROM {source} WHERE id = ?)"
    return replace(walk, conditions=[*walk.conditions, Condition(begin, first[:1])])


def _has_index(condition: Condition, query: Query) -> bool:
    """Only the indexes of times have the deleted too."""
    return bool(condition.ids) and (bool(condition.order) or not query.include_deleted)


def _select_ids(condition: Condition, view: RecordView, query: Query) -> str:
    live = EVERY_ROW if query.include_deleted else view.live
    return condition.ids.format(table=view.source, live=live)
