"""SQL conditions of lists: what the filters of a request come to (D3)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

OF_LIST = "SELECT id FROM {table} WHERE {live} AND "


class Condition(NamedTuple):
    """An SQL condition of a list with its parameters, and how the records that meet it are found.

    `ids` selects their ids by an index, with places for the list's table and its condition `live`;
    empty if there is no such index. `in_order`: that index has them in order of id. `names_ids`:
    the condition itself lists ids, not many, and records are read by them. `order` and `sign` are
    those of a range: `updated_at`, `>=`. `reads_row`: no index of the table alone can check it.
    `span` is the column of any range; ranges of one column are read as one.
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


def with_joined_ranges(conditions: list[Condition]) -> list[Condition]:
    """The same conditions, with the two ends of a range as one.

    Of a day in the middle of a year, either end alone leaves half of all records; both together
    are found in the index as what they are, a few.
    """
    joined: dict[str, Condition] = {}
    others = []
    for each in conditions:
        other = joined.get(each.span)
        if not each.span:
            others.append(each)
        elif other is None:
            joined[each.span] = each
        else:
            joined[each.span] = other._replace(
                sql=f"{other.sql} AND {each.sql}",
                params=[*other.params, *each.params],
                ids=f"{other.ids} AND {each.ids.removeprefix(OF_LIST)}",
                sign=other.sign + each.sign,
            )
    return [*joined.values(), *others]
