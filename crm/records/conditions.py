"""SQL conditions of lists, which the parameters of a request make (D3)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

EVERY_ROW = "TRUE"  # the condition of a list that hides nothing
OF_LIST = "SELECT id FROM {table} WHERE {live} AND "


class Condition(NamedTuple):
    """An SQL condition of a list with its parameters, and how the records that meet it are found.

    ids: a SELECT of their ids by an index, with `{table}` and the condition `{live}` to be
    formatted; empty if there is no such index.
    in_order: whether that index has them in order of id.
    names_ids: whether the condition itself lists a few ids, by which the records are read.
    order, sign: of a range by an order of the list, such as `updated_at` and `>=`.
    reads_row: whether no index of the table alone can check it.
    span: the column of any range; ranges of one column are read as one.
    for_all: the same condition, where all records are checked by it. Its `ids` may select further
    ones too, by as many of its parameters as they need.
    walks: an index that has, in the order of the list, few records but those of the list.
    ids_head: what `ids` of a range have before the comparison.
    """

    sql: str
    params: Sequence[Any] = ()
    ids: str = ""
    in_order: bool = False
    names_ids: bool = False
    order: str = ""
    sign: str = ""
    reads_row: bool = False
    span: str = ""
    for_all: "Condition | None" = None
    walks: str = ""
    ids_head: str = OF_LIST

    @property
    def of_all(self) -> "Condition":
        """The condition as it is checked of all records."""
        return self.for_all or self


def with_joined_ranges(conditions: list[Condition]) -> list[Condition]:
    """The same conditions, with the two ends of a range as one.

    Of a day in the middle of a year, either end alone leaves half of all records; both together
    are found in the index as what they are, a few.
    """
    joined: dict[str, Condition] = {}
    others = []
    for condition in conditions:
        other = joined.get(condition.span)
        if not condition.span:
            others.append(condition)
        elif other is None:
            joined[condition.span] = condition
        else:
            joined[condition.span] = other._replace(
                sql=f"{other.sql} AND {condition.sql}",
                params=[*other.params, *condition.params],
                ids=f"{other.ids} AND {condition.ids.removeprefix(condition.ids_head)}",
                sign=other.sign + condition.sign,
            )
    return [*joined.values(), *others]


def ordered(expression: str, descends: bool, id: str = "id") -> str:
    """What follows ORDER BY for an expression, with ties broken by id."""
    direction = "DESC" if descends else "ASC"
    order = "" if expression == id else f"{expression} {direction}, "
    return f"{order}{id} {direction}"
