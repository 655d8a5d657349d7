"""Figures of deals: how many are open, won and lost, and their sums; the newest of them. Deleted
deals don't count.

Sums are kept for each currency and never mixed (D2). They are in 1/100, because amounts in 1/10 000
could add up to more than 64 bits. `user_id` is whose deals count, None for those of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crm.records.conditions import Condition
from crm.records.list_plans import join_conditions
from crm.resources.deals.record import DEAL
from crm.resources.spans import Span, owned_by, spans_table
from crm.storage.session import one_row, rows
from crm.values import as_number
from crm.values.ids import integer_id

HUNDREDTHS = 100
MAX_LOST_REASONS = 20
OPEN = "closed_at IS NULL AND deleted_at IS NULL"  # must match the partial index of open deals


@dataclass(slots=True)
class Deals:
    """A number of deals and the sum of their amounts in each currency, in 1/100."""

    count: int = 0
    sums: dict[str, int] = field(default_factory=dict)

    def add(self, currency: str, count: int, sum: int) -> None:
        self.count += count
        if sum:
            self.sums[currency] = self.sums.get(currency, 0) + sum


def open_deals(user_id: int | None = None) -> dict[int, Deals]:
    """The open deals of each stage that has any, by its id."""
    own, params = owned_by(user_id)
    by_stage: dict[int, Deals] = {}
    for stage_id, *deals in rows(
        "SELECT stage_id, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
        f" WHERE {OPEN} AND {own} GROUP BY stage_id, currency ORDER BY stage_id, currency",
        params,
    ):
        by_stage.setdefault(stage_id, Deals()).add(*deals)
    return by_stage


def count_open(limit: int) -> int:
    """How many deals are open, counted up to `limit`."""
    return one_row(
        f"SELECT count(*) FROM (SELECT 1 FROM deal WHERE {OPEN} LIMIT ?) AS counted", [limit]
    )[0]


def count_open_at(moment: str, open_now: int, user_id: int | None = None) -> int:
    """How many deals were open at a past moment."""
    own, params = owned_by(user_id)
    # Open then = open now − created since + closed since: two counts of few rows, where counting
    # all deals that were open then would read each of them.
    begun, closed = one_row(
        f"SELECT (SELECT count(*) FROM deal WHERE created_at > ? AND {OPEN} AND {own}),"
        " (SELECT count(*) FROM deal WHERE closed_at > ? AND created_at <= ?"
        f" AND deleted_at IS NULL AND {own})",
        (moment, *params, moment, moment, *params),
    )
    return open_now - begun + closed


def closed_in(spans: Sequence[Span], user_id: int | None = None) -> list[dict[str, Deals]]:
    """Deals won and lost in each of the spans."""
    closed = [{"won": Deals(), "lost": Deals()} for _ in spans]
    table, params = spans_table(spans)
    own, own_params = owned_by(user_id)
    for place, status, *deals in rows(
        f"{table} SELECT place, status, currency, count(*),"
        # CROSS JOIN: go through the spans, and look up the deals of each by the index.
        " coalesce(sum(amount / 100), 0) FROM span CROSS JOIN deal WHERE closed_at >= begins"
        f" AND closed_at < ends AND deleted_at IS NULL AND {own} GROUP BY place, status, currency"
        " ORDER BY place, status, currency",
        [*params, *own_params],
    ):
        closed[place][status].add(*deals)
    return closed


def of_pipeline(
    pipeline_id: int | str, conditions: Sequence[Condition] = ()
) -> dict[str, list[tuple[str, str, int, int]]]:
    """(status, currency, number of deals, their sum) of each stage by its id."""
    where, params = join_conditions(
        [Condition("pipeline_id = ?", [integer_id(pipeline_id)]), *conditions]
    )
    figures: dict[str, list[tuple[str, str, int, int]]] = {}
    for stage_id, *figure in rows(
        "SELECT stage_id, status, currency, count(*), coalesce(sum(amount / 100), 0) FROM deal"
        f" WHERE deleted_at IS NULL AND {where} GROUP BY stage_id, status, currency"
        " ORDER BY count(*) DESC, currency, status",
        params,
    ):
        figures.setdefault(str(stage_id), []).append(tuple(figure))
    return figures


def open_amounts(client_id: int | str) -> list[dict[str, object]]:
    """The sums of a client's open deals by currency, in the form of its `won_amounts`."""
    sums = rows(
        "SELECT currency, sum(amount / 100) FROM deal WHERE client_id = ? AND status = 'open'"
        " AND deleted_at IS NULL AND amount IS NOT NULL GROUP BY currency ORDER BY currency",
        (integer_id(client_id),),
    )
    return [{"currency": code, "amount": as_number(total, HUNDREDTHS)} for code, total in sums]


def newest_of_clients(
    client_ids: Sequence[int | str], statuses: Sequence[str], limit: int
) -> list[dict[str, Any]]:
    """The newest deals of the clients that have one of the statuses, as they are shown."""
    if not client_ids:
        return []
    return DEAL.every(
        f"client_id IN ({_placeholders(client_ids)}) AND status IN ({_placeholders(statuses)})"
        " AND deleted_at IS NULL ORDER BY id DESC LIMIT ?",
        *map(integer_id, client_ids),
        *statuses,
        limit,
    )


def newest_in_stage(
    stage_id: int | str, limit: int, conditions: Sequence[Condition] = ()
) -> list[dict[str, Any]]:
    """The open deals that came to a stage last, as they are shown."""
    order = "ORDER BY stage_changed_at DESC, id DESC"
    of_stage = Condition("stage_id = ? AND status = 'open'", [integer_id(stage_id)])
    where, params = join_conditions([of_stage, *conditions])
    # Their ids are found first: to read all columns of more deals takes long.
    sql = f"SELECT id FROM deal WHERE deleted_at IS NULL AND {where} {order} LIMIT ?"
    return DEAL.every(f"id IN ({sql}) {order}", *params, limit)


def _placeholders(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def lost_reasons() -> list[str]:
    """Why deals were lost, the most common reasons first."""
    counted = rows(
        "SELECT lost_reason FROM deal WHERE status = 'lost' AND deleted_at IS NULL"
        " AND lost_reason IS NOT NULL GROUP BY lost_reason"
        f" ORDER BY count(*) DESC, lost_reason LIMIT {MAX_LOST_REASONS}"
    )
    return [reason for (reason,) in counted]
