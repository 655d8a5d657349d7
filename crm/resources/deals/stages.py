"""The stage and the status of a deal, which go together (D7).

The stage's type (open, won, lost) goes before the status: in a closed stage a deal has the status
of the stage. A status sent alone moves the deal to the pipeline's stage of that type: won and lost
to the first such stage, open to the last one. Without a stage for won or lost deals they stay in
their open stage. An open stage that is sent together with the status takes the deal, whatever the
status.
"""

from typing import Any

from crm.errors import Invalid
from crm.records.record import require_reference
from crm.resources.pipelines.record import Pipeline, Stage


def resolve_next_stage(deal: Any, data: dict[str, Any]) -> tuple[Stage, str]:
    """The stage and the status that the sent fields lead a deal to. Raises Invalid."""
    if "stage_id" in data or data.get("pipeline_id", deal.pipeline_id) != deal.pipeline_id:
        return resolve_stage(data, deal)
    stage, status = Stage.find(deal.stage_id), data.get("status", deal.status)
    # A deal may have been won in an open stage: sending its own status again must not move it.
    if status in (stage.type, deal.status):
        return stage, status
    stages = [
        candidate
        for candidate in _pipeline(deal.pipeline_id).list_stages()
        if candidate.type == status
    ]
    if stages:
        return stages[-1 if status == "open" else 0], status
    if stage.type == "open":
        return stage, status
    raise Invalid.field(
        "status", "no_such_stage", f"the deal's pipeline has no stage of the type {status}"
    )


def resolve_stage(data: dict[str, Any], deal: Any = None) -> tuple[Stage, str]:
    """The stage and the status of a new deal, or of one whose stage or pipeline is sent.

    Raises Invalid `stage_of_another_pipeline` or `stage_status_conflict`.
    """
    status = data.get("status")
    if "stage_id" in data:
        require_reference(Stage, data["stage_id"], "stage_id")
        stage = Stage.find(data["stage_id"])
        if data.get("pipeline_id", stage.pipeline_id) != stage.pipeline_id:
            raise Invalid.field(
                "stage_id", "stage_of_another_pipeline", "this stage is of another pipeline"
            )
    else:
        stages = _pipeline(data.get("pipeline_id")).list_stages()
        first_of_type = {stage.type: stage for stage in reversed(stages)}
        stage = first_of_type.get(status or "open") or first_of_type["open"]
    if stage.type == "open":
        if not status and deal is not None and deal.stage_id == stage.id:
            return stage, deal.status
        return stage, status or "open"
    if status not in (None, stage.type):
        raise Invalid.field(
            "status", "stage_status_conflict", "a deal in this stage has another status"
        )
    return stage, stage.type


def _pipeline(id: int | None) -> Pipeline:
    require_reference(Pipeline, id, "pipeline_id")
    return Pipeline.default() if id is None else Pipeline.find(id)
