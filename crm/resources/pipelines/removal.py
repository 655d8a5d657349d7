"""Deleting stages and pipelines: where their deals go (D11).

One with deals in it can't be deleted without a stage that takes them; each deal then moves there by
the deals' own rule, with its events. Deleted deals move along without events.
"""

from crm.access import rights
from crm.errors import Conflict, Fault, Invalid
from crm.resources.deals.record import Deal
from crm.resources.pipelines import record
from crm.storage.session import execute, transaction


def delete_stage(
    pipeline_id: int | str,
    id: int | str,
    move_to: int | None = None,
    expected_version: int | None = None,
) -> None:
    """Delete a stage; its deals move to `move_to`, another stage of the pipeline.

    Raises NotFound, Stale for the stage's version, Conflict `last_open_stage` or `stage_in_use`,
    and Invalid for a stage that can't take the deals.
    """
    with transaction():
        pipeline = record.Pipeline.find(pipeline_id)
        stage = record.Stage.of(pipeline, id, expected_version)
        stage.require_another_open()
        if move_to is None:
            stage.require_unused()
        remaining = [candidate for candidate in pipeline.list_stages() if candidate.id != stage.id]
        _move_deals([stage], _target(remaining, move_to, "another stage of this pipeline"))
        stage.erase()
        record.number(remaining)
        pipeline.touch()


def delete(id: int | str, move_to: int | None = None, expected_version: int | None = None) -> None:
    """Delete a pipeline with its stages; its deals move to `move_to`, a stage of another pipeline.

    Raises NotFound, Stale, Conflict `default_pipeline` or `pipeline_in_use`, and Invalid for a
    stage that can't take the deals.
    """
    with transaction():
        pipeline = record.Pipeline.find(id, expected_version)
        if pipeline.is_default:
            raise Conflict("make another pipeline the default first", "default_pipeline")
        stages = pipeline.list_stages()
        deals = sum(stage.deals() for stage in stages)
        if deals and move_to is None:
            raise record.make_in_use_conflict("pipeline", deals)
        candidates = record.Stage.every("pipeline_id <> ? ORDER BY id", pipeline.id)
        _move_deals(stages, _target(candidates, move_to, "a stage of another pipeline"))
        pipeline.erase()
        record.number(record.list_pipelines())


def _target(stages: list[record.Stage], move_to: int | None, requirement: str) -> record.Stage:
    """The stage that takes the deals: the one that is sent, else an open one for the deleted."""
    if move_to is not None:
        rights.require(["deals:write"])
    for stage in stages:
        if stage.id == move_to or (move_to is None and stage.type == "open"):
            return stage
    raise Invalid(Fault("move_to", "invalid_stage", f"must be {requirement}", "parameter"))


def _move_deals(stages: list[record.Stage], target: record.Stage) -> None:
    for stage in stages:
        for deal in Deal.every("stage_id = ? ORDER BY id", stage.id):
            # Deleting an open stage must not reopen the deals that were won or lost in it.
            keeps_status = stage.type == target.type == "open"
            status = {"status": deal.status} if keeps_status else {}
            deal.update_fields({"stage_id": target.id, **status})
        execute(
            "UPDATE deal SET pipeline_id = ?, stage_id = ? WHERE stage_id = ?",
            (target.pipeline_id, target.id, stage.id),
        )
