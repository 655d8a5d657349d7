"""Removing stages and pipelines: where their deals go (D11).

In use, neither can be removed without a stage that takes its deals; each of them then moves there
by the deal's own rule, with all that follows from it. Deleted deals go along without a word.
"""

from crm.errors import Conflict, Fault, Invalid
from crm.resources.deals.record import Deal
from crm.resources.pipelines import record
from crm.resources.pipelines.record import Pipeline, Stage
from crm.tenancy.database import execute


def remove_stage(stage: Stage, move_to: int | None = None) -> None:
    """Remove a stage, its deals to another of its pipeline; inside a transaction.

    Raises Conflict `last_open_stage` or `stage_in_use`, Invalid for a stage that can't take them.
    """
    stage.is_not_the_last_open()
    pipeline = Pipeline.find(stage.pipeline_id)
    if move_to is None:
        stage.is_unused()
    others = [other for other in pipeline.list_stages() if other.id != stage.id]
    _move_deals([stage], _taker(others, move_to, "another stage of this pipeline"))
    stage.erase()
    pipeline.close_up()


def remove_pipeline(pipeline: Pipeline, move_to: int | None = None) -> None:
    """Remove a pipeline with its stages, its deals to a stage of another; inside a transaction.

    Raises Conflict `default_pipeline` or `pipeline_in_use`, Invalid for a stage that can't take
    them.
    """
    if pipeline.is_default:
        raise Conflict("make another pipeline the default first", "default_pipeline")
    stages = pipeline.list_stages()
    deals = sum(stage.deals() for stage in stages)
    if deals and move_to is None:
        raise record.in_use("pipeline", deals)
    others = (
        Stage.every("pipeline_id <> ?", pipeline.id)
        if move_to
        else Pipeline.default().list_stages()
    )
    _move_deals(stages, _taker(others, move_to, "a stage of another pipeline"))
    pipeline.erase()
    record.close_up()


def _taker(stages: list[Stage], move_to: int | None, what: str) -> Stage:
    """The stage that takes the deals: the one asked for, else an open one for the deleted."""
    for stage in stages:
        if stage.id == move_to or (move_to is None and stage.type == "open"):
            return stage
    raise Invalid(Fault("move_to", "invalid_stage", f"must be {what}", "parameter"))


def _move_deals(stages: list[Stage], taker: Stage) -> None:
    for stage in stages:
        for deal in Deal.every("stage_id = ? ORDER BY id", stage.id):
            # Removing an open stage is no reason to open again what was won or lost in it.
            keeps = stage.type == taker.type == "open"
            deal.change({"stage_id": taker.id, **({"status": deal.status} if keeps else {})})
        execute(
            "UPDATE deal SET pipeline_id = ?, stage_id = ? WHERE stage_id = ?",
            (taker.pipeline_id, taker.id, stage.id),
        )
