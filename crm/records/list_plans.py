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
from crm.records.custom.fields import CustomField
from crm.records.parameters import MAX_LIMIT, Query, Sort
from crm.records.views import RecordView
from crm.storage import own_rows
from crm.storage.dialect import among, by_id, by_index, without_index
from crm.storage.session import current_session, remembered_rows, value_of_all

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
    order: by which columns the table has the list's order, that of the value and that of the id,
    if it is not that of the list. rest: how the records are read that come behind it, by id.
    """

    table: str
    conditions: list[Condition]
    ids: Condition | None = None
    names_ids: bool = False
    order: tuple[str, str] | None = None
    rest: "Plan | None" = None

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


@dataclass
class Listing:
    """A list as it is asked for: how it is read, and how its records are counted.

    view, sort: of the list. conditions: of the query and of the list itself. last: the order's
    value and the id of the last record of the page before.
    """

    view: RecordView
    query: Query
    sort: Sort
    conditions: list[Condition]
    last: tuple[Any, int] | None = None

    def __post_init__(self) -> None:
        self.table, self.name = self.view.source, self.query.sort.removeprefix("-")
        self.order, self.descends = self.sort.expression(self.query), self.query.sort[0] == "-"
        self.live = EVERY_ROW if self.query.include_deleted else self.view.live

    def choose_plan(self) -> Plan:
        """Choose how to read the list."""
        table, conditions, is_by_id = self.table, self.conditions, self.name == "id"
        indexes = [condition.walks for condition in conditions if condition.walks]
        if self.view.live == EVERY_ROW:  # each such list is short, or has an index of its own
            return Plan(by_index(table, indexes[0]) if indexes else table, conditions)
        if any(condition.names_ids for condition in conditions):
            return Plan(by_id(table), conditions, names_ids=True)
        selectable = [condition for condition in conditions if self._has_index(condition)]
        if field := self.query.order:
            others = [condition for condition in selectable if condition.ids_head != field.ids_head]
            few = self._find_rarest(others, MAX_SORTED)
            return self._plan_walk_by_field(field) if few is None else self._plan_few(few)
        walk = Plan(by_index(table, [*indexes, f"{table}_{self.name}"][0]), conditions)
        if is_by_id and not indexes:
            walk = self._plan_walk_by_id()
        if not selectable or self._meets_all():
            return walk
        max_records = MAX_SORTED_BY_ID if is_by_id else MAX_SORTED
        few = self._find_rarest(selectable, min(MAX_READ_BY_ID, max_records))
        if few is None:
            if indexes or self._meets_matches_soon(walk):
                return walk
            few = self._find_rarest(selectable, max_records)
        return self._plan_range(walk) if few is None else self._plan_few(few)

    def count_records(self, live: Condition, plan: Plan) -> int:
        """How many records a list has. SQLite counts only the rows added since the last time.

        Beyond `query.max_total` any number more than that is returned, by reading as few.
        live: the condition of the records that the list shows, deleted ones too if they are.
        """
        sql, params = self._counting(live, plan)
        session = current_session()
        where, where_params = join_conditions([live, *self.conditions])
        depends_on_row_alone = self.view.live != EVERY_ROW and "SELECT " not in where
        is_limited = session.connection is not session.reader or session.own_user_id is not None
        if depends_on_row_alone and not is_limited:
            return session.reader.count_rows(sql, params, self.table, where, where_params)
        return remembered_rows(sql, params)[0][0]

    def _counting(self, live: Condition, plan: Plan) -> tuple[str, Sequence[Any]]:
        """The query of a count, and its parameters: of indexes alone unless rows are checked."""
        table, query, conditions = self.table, self.query, self.conditions
        if self.view.live == EVERY_ROW or plan.names_ids or plan.ids:
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
                Condition(f"id IN ({self._select_ids(condition)})", condition.params)
                if self._has_index(condition) and (condition.reads_row or query.include_deleted)
                else condition
                for condition in conditions
            ]
            return _count_of(by_id(table), live, by_ids, query)
        if not query.include_deleted and not conditions and not query.max_total:
            # To count all takes a tenth of the time of counting those that meet a condition.
            deleted = f"SELECT count(*) FROM {table} WHERE deleted_at IS NOT NULL"
            return f"SELECT (SELECT count(*) FROM {table}) - ({deleted})", ()
        if not query.include_deleted and len(conditions) == 1 and conditions[0].ids:
            return _limit_count(self._select_ids(conditions[0]), query), conditions[0].params
        # All columns are in the index of any order; a range is found in that of its own.
        names = {order: name for name, order in self.sort.orders.items() if name != "id"}
        ranges = [names.get(one.order, one.order) for one in conditions if one.order]
        index = f"{table}_{[*ranges, *names.values()][0]}"
        return _count_of(by_index(table, index), live, conditions, query)

    def _plan_walk_by_id(self) -> Plan:
        """In order of id, records of one filter can be walked alone; others are only checked."""
        leader = next((condition for condition in self.conditions if condition.in_order), None)
        if leader is None or self.query.include_deleted:  # indexes of filters have live ones only
            return Plan(by_id(self.table), self.conditions)
        others = [condition for condition in self.conditions if condition is not leader]
        return Plan(self.table, [leader, *map(_checked, others)])

    def _plan_walk_by_field(self, field: CustomField) -> Plan:
        """Walk the values of a custom field, then the records that have none."""
        table, values, head = self.table, field.wire.found_in, field.ids_head
        having = Condition(f"{values}.{field.place} AND {values}.record_id = {table}.id")
        lacking = Condition(f"NOT EXISTS ({head}record_id = {table}.id)")
        # What the field itself is filtered by is compared with the values that are walked.
        of_field = [condition for condition in self.conditions if condition.ids_head == head]
        others = [condition for condition in self.conditions if condition.ids_head != head]
        walked = [one._replace(sql=one.ids.removeprefix(head) or "FALSE") for one in of_field]
        rest = None
        if not any(one.ids for one in of_field):
            rest = Plan(by_id(table), [lacking, *others])
        order = (f"{values}.value", f"{values}.record_id")
        source = f"{values} CROSS JOIN {by_id(table)}"
        return Plan(source, [having, *walked, *others], order=order, rest=rest)

    def _meets_all(self) -> bool:
        """Whether the walk passes only records that meet the conditions."""
        first, *others = self.conditions
        by_order = self.order == "id" if first.in_order else first.order == self.order
        return not others and by_order

    def _find_rarest(self, conditions: list[Condition], max_records: int) -> Condition | None:
        """The condition that the fewest records meet, if these are at most `max_records`."""
        fewest = None
        for condition in conditions:
            sql = f"SELECT count(*) FROM ({self._select_ids(condition)} LIMIT ?) AS few"
            # Of all users: among many of others, those that the actor may read would be far.
            record_count = value_of_all(sql, [*condition.params, max(0, max_records + 1)])
            if record_count <= max_records:
                fewest, max_records = condition, record_count - 1
        return fewest

    def _plan_few(self, few: Condition) -> Plan:
        """Read the records of one condition by their ids."""
        others = [condition for condition in self.conditions if condition is not few]
        return Plan(by_id(self.table), others, Condition(self._select_ids(few), few.params))

    def _meets_matches_soon(self, walk: Plan) -> bool:
        """Whether enough of some records of a walk are in the list, or none are so far on."""
        order = self.order
        aggregate, sign, direction = ("max", "<=", "-") if self.descends else ("min", ">=", "+")
        begin = Condition(f"(SELECT {aggregate}({order}) FROM {self.table})")
        if self.last is not None:
            begin = Condition("?", [self.last[order == "id"]])
        if walk.table == by_id(self.table):  # the distance is one of ids
            distance, offset = f" {direction} {SAMPLE_DISTANCE}", ""
        else:
            distance, offset = "", f" OFFSET {SAMPLE_DISTANCE}"
        leading = walk.conditions[:1] if walk.table == self.table else []
        behind = begin._replace(sql=f"{order} {sign} {begin.sql}{distance}")
        where, params = join_conditions([Condition(self.live), *leading, behind])
        matches, params_of_walk = join_conditions(walk.conditions)
        ordered = f"WHERE {where} ORDER BY {self.sort.order_by(self.query)}"
        sql = (
            f"SELECT count(*) < {SAMPLE_ROWS}"
            f" OR count(CASE WHEN {matches} THEN 1 END) >= {MIN_SAMPLE_MATCHES}"
            f" FROM {by_id(self.table)} WHERE id IN"
            f" (SELECT id FROM {walk.table} {ordered} LIMIT {SAMPLE_ROWS}{offset})"
        )
        return bool(value_of_all(sql, [*params_of_walk, *params]))

    def _plan_range(self, walk: Plan) -> Plan:
        """The plan for a range that goes along with the order, far behind the walk's begin.

        The newest records have the highest ids: those of the last month, the oldest first, would
        be looked for among all before them. The ids of the page are found in the index of the
        range, at 0.06 µs for each record of it. Where a row must be read for another condition
        they only tell where the walk begins.
        """
        table, order, query, conditions = self.table, self.order, self.query, self.conditions
        sign, far, direction = ("<", "<", "DESC") if self.descends else (">", ">=", "ASC")
        for span in conditions:
            along = order == "id" or (order, span.order) == ("created_at", "updated_at")
            if far in span.sign and along:
                break
        else:
            return walk
        if order == "id" and span.sign == "<" and not self.last:
            older = f"SELECT id FROM {table} WHERE {span.sql} ORDER BY {span.order} DESC, id DESC"
            newer = f"SELECT count(*) FROM {table} WHERE {span.order} >= ? AND id > older.id"
            distance = f"(SELECT max(id) FROM {table}) - older.id"
            sql = (
                f"SELECT max(older.id) FROM ({older} LIMIT 1) AS older"
                f" WHERE CASE WHEN {distance} <= {MAX_WALKED} THEN ({newer}) = {distance} END"
            )
            if begin := value_of_all(sql, [*span.params, span.params[0]]):  # all behind are newer
                return replace(walk, conditions=[*walk.conditions, Condition("id <= ?", [begin])])
        checked = [_checked(one) for one in conditions if one is not span and not one.reads_row]
        is_page = query.limit <= MAX_LIMIT  # unlike a file
        is_page &= len(checked) + 1 == len(conditions) and not query.include_deleted
        if self.last:
            if not is_page:
                return walk
            beyond = [self.last[order == "id"], self.last[1]]
            checked.append(Condition(f"({order}, id) {sign} (?, ?)", beyond))
        where, params = join_conditions([Condition(self.live), span, *checked])
        # The nearest first: of the further ones few take the place of others.
        nearest = (
            f"SELECT id, {order} AS place FROM {table} WHERE {where}"
            f" ORDER BY {span.order} {direction} LIMIT {sys.maxsize}"
        )
        ordered = f"({nearest}) AS nearest ORDER BY place {direction}, id {direction}"
        params.append(min(query.limit, MAX_LIMIT) + 1)
        ids = remembered_rows(f"SELECT id FROM {ordered} LIMIT ?", params, of_all=True)
        first = [id for (id,) in ids]
        if is_page or not first:
            return Plan(
                by_id(table), [Condition(among("id"), [dumps(first).decode()]), *conditions]
            )
        if order == "id" and abs(first[-1] - first[0]) > MAX_WALKED:  # some are far from others
            return self._plan_few(span)
        begins = f"{order} {sign}= (SELECT {order} FROM {table} WHERE id = ?)"
        return replace(walk, conditions=[*walk.conditions, Condition(begins, first[:1])])

    def _has_index(self, condition: Condition) -> bool:
        """Only the indexes of times and of custom fields have the deleted too."""
        has_deleted = condition.order or condition.ids_head != OF_LIST
        return bool(condition.ids) and (bool(has_deleted) or not self.query.include_deleted)

    def _select_ids(self, condition: Condition) -> str:
        return condition.ids.format(table=self.table, live=self.live)


def _checked(condition: Condition) -> Condition:
    """A condition by whose index nothing is read."""
    return condition._replace(sql=without_index(f"({condition.sql})"))


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
