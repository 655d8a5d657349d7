"""Figures of deals: how many there are and their sums, by stage and other groups; the newest of
them. Deleted deals don't count.

Sums are in 1/100 and kept for each currency, as in Totals.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from crm.json import dumps, integer_id
from crm.records import totals
from crm.records.conditions import EVERY_ROW, Condition
from crm.records.list_plans import join_conditions
from crm.records.totals import HUNDREDTHS
from crm.resources.deals.history import LEFT_BY_DEAL
from crm.resources.deals.record import DEAL
from crm.resources.pipelines.record import Stage
from crm.storage.dialect import among, by_id, by_index, without_index
from crm.storage.session import remembered_rows, rows, value_of_all
from crm.values import as_number

# What sums of deals are of.
SUMS: dict[str, Any] = {"value": "amount / 100", "unit_column": "currency"}
OPEN = "closed_at IS NULL AND deleted_at IS NULL"  # must match the partial index of open deals
# How far a deal in a stage has come: the position of an open stage, RANK_WON of one for won deals.
RANK_WON = 1000
RANK = f"CASE stage.type WHEN 'open' THEN stage.position WHEN 'won' THEN {RANK_WON} END"
# For filters of deals by a stage: that they have come to it or a later one, that they have left it.
REACHED = (
    "SELECT 1 FROM stage AS target JOIN stage ON stage.pipeline_id = target.pipeline_id"
    " JOIN stage_move ON stage_move.to_stage_id = stage.id"
    " WHERE target.id = ? AND target.pipeline_id = deal.pipeline_id"
    f" AND stage_move.deal_id = deal.id AND {RANK} >= {RANK.replace('stage.', 'target.')}"
)
LEFT = f"{LEFT_BY_DEAL} deal.id"
# By the times by which reports select deals: where these are read, and the condition of them.
PERIODS = {
    "created": (by_index("deal", "deal_created_at"), Condition(EVERY_ROW)),
    "closed": (by_index("deal", "deal_closed"), Condition("closed_at IS NOT NULL")),
    "expected": (by_index("deal", "deal_under_way"), Condition("closed_at IS NULL")),
}

OFTEN_SOLD = f"""
    SELECT product_id FROM {by_id("deal_item")} WHERE id > ? AND product_id IS NOT NULL
    GROUP BY product_id ORDER BY count(*) DESC, max(id) DESC LIMIT ?
"""
LATEST_ITEMS = 1000  # that say which products are sold often


def often_sold(count: int) -> list[int]:
    """The ids of the products that the latest items name, the most frequent first."""
    newest = value_of_all("SELECT coalesce(max(id), 0) FROM deal_item", ())
    return [id for (id,) in rows(OFTEN_SOLD, (newest - LATEST_ITEMS, count))]


def rank_of(stage: Stage) -> int:
    """The RANK of a stage; 0: it is for lost deals."""
    return {"open": stage.position, "won": RANK_WON}.get(stage.type, 0)


def furthest_rank(stages: Iterable[Stage]) -> str:
    """The SQL expression of the RANK of the furthest of a pipeline's stages that a deal has come
    to; null if it came to no open or won stage of them.
    """
    # Not a join: to look each stage up costs more than to compare its id with some numbers.
    ranks = "".join(f" WHEN {stage.id} THEN {rank_of(stage)}" for stage in stages if rank_of(stage))
    furthest = f"max(CASE to_stage_id{ranks} END)" if ranks else "max(NULL)"
    return f"(SELECT {furthest} FROM stage_move WHERE deal_id = deal.id)"


def sum_times_in_stages(conditions: Sequence[Condition]) -> dict[int, tuple[int, int]]:
    """(number of deals, seconds of all of them together) of each stage that closed deals have left.

    conditions: of the deals, selected by their time of closing.
    """
    source, condition = PERIODS["closed"]
    where, params = join_conditions([condition, *conditions])
    closed = f"SELECT id FROM {source} WHERE deleted_at IS NULL AND {where}"
    times = rows(
        "SELECT from_stage_id, count(CASE WHEN left_again = 0 THEN 1 END), sum(stayed_seconds)"
        f" FROM stage_move WHERE from_stage_id IS NOT NULL AND deal_id IN ({closed})"
        " GROUP BY from_stage_id",
        params,
    )
    return {stage_id: (count, seconds) for stage_id, count, seconds in times}


def of_pipeline(
    pipeline_id: int | str, conditions: Sequence[Condition] = ()
) -> dict[str, list[tuple[str, str, int, int]]]:
    """(status, currency, number of deals, their sum) of each stage by its id, most deals first."""
    of_pipeline = Condition("pipeline_id = ?", [integer_id(pipeline_id)])
    conditions = [of_pipeline, *(condition.of_all for condition in conditions)]
    counts = totals.count_by_group(
        _source("deal_board", conditions),
        ["stage_id", "status"],
        conditions,
        read=remembered_rows,
        **SUMS,
    )
    figures: dict[str, list[tuple[str, str, int, int]]] = {}
    for stage_id, *figure in sorted(counts, key=lambda row: (-row[3], row[2], row[1])):
        figures.setdefault(str(stage_id), []).append(tuple(figure))
    return figures


def _source(index: str, conditions: Sequence[Condition]) -> str:
    """The FROM text of deals read by an index, or by the ids that a condition lists."""
    names_ids = any(condition.names_ids for condition in conditions)
    return by_id("deal") if names_ids else by_index("deal", index)


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
    has_status = f"{without_index('status')} IN ({', '.join('?' * len(statuses))})"
    return DEAL.every(
        f"{among('client_id')} AND {has_status}"  # a client has fewer deals than a status
        " AND deleted_at IS NULL ORDER BY id DESC LIMIT ?",
        dumps([*map(integer_id, client_ids)]).decode(),
        *statuses,
        limit,
    )


def newest_in_stage(
    stage_id: int | str, limit: int, conditions: Sequence[Condition] = (), is_all: bool = False
) -> list[dict[str, Any]]:
    """The open deals that came to a stage last, as they are shown.

    is_all: whether the stage has no more of them; else they are not far from the newest ones.
    """
    order = "ORDER BY stage_changed_at DESC, id DESC"
    of_stage = Condition("stage_id = ? AND status = 'open'", [integer_id(stage_id)])
    index = "deal_newest"
    if is_all:
        of_pipeline = "pipeline_id = (SELECT pipeline_id FROM stage WHERE id = ?)"
        of_stage = Condition(f"{of_pipeline} AND {of_stage.sql}", [*of_stage.params] * 2)
        conditions, index = [condition.of_all for condition in conditions], "deal_board"
    where, params = join_conditions([of_stage, *conditions])
    # Their ids are found first: to read all columns of more deals takes long.
    source = _source(index, conditions)
    sql = f"SELECT id FROM {source} WHERE deleted_at IS NULL AND {where} {order} LIMIT ?"
    return DEAL.every(f"id IN ({sql}) {order}", *params, limit)
