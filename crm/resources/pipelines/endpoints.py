"""Endpoints of pipelines and stages, in the specification's order (spec: Pipelines and users).

Writing is additive (D11). Only what moves deals on the way needs `deals:write` too.
"""

from typing import Any

from flask import g

from crm.access import rights
from crm.api.envelopes import page_of
from crm.api.operations import Blueprint
from crm.records import fields, pagination, parameters, queries
from crm.records.columns import N_
from crm.records.pagination import Page
from crm.records.parameters import Query
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines import removal
from crm.resources.pipelines.record import (
    PIPELINE,
    PIPELINE_IN,
    PIPELINE_PATCH,
    STAGE,
    STAGE_IN,
    STAGE_PATCH,
    Pipeline,
    Stage,
)


class BoardFilter(queries.Filter):
    sort = parameters.Sort("position", position="position")


class RemovalFilter(queries.Filter):
    move_to = parameters.Option(fields.Id(), "The stage that takes the deals; needs `deals:write`.")


BOARD_FILTER = BoardFilter()
REMOVAL_FILTER = RemovalFilter(only=("move_to",))

blueprint = Blueprint("pipelines", "Funnels and their stages.", N_("Pipelines"))


@blueprint.get("/pipelines")
@blueprint.arguments(BOARD_FILTER, location="query")
@blueprint.page(page_of(PIPELINE.schema))
def list_pipelines(query: Query) -> Page:
    """List pipelines with their stages."""
    return pagination.page(PIPELINE, query, BOARD_FILTER.fields["sort"])


@blueprint.get("/pipelines/<id>/stages")
@blueprint.arguments(BOARD_FILTER, location="query")
@blueprint.page(page_of(STAGE.schema))
def list_stages(query: Query, id: str) -> Page:
    """List the stages of one pipeline."""
    pipeline = Pipeline.find(id)
    sort = BOARD_FILTER.fields["sort"]
    return pagination.page(STAGE, query, sort, "pipeline_id = ?", (pipeline.id,))


@blueprint.post("/pipelines")
@blueprint.arguments(
    PIPELINE_IN,
    example={
        "name": "Опт",
        "stages": [{"name": "Запит"}, {"name": "Угода", "type": "won", "probability": 100}],
    },
)
@blueprint.created("pipeline", PIPELINE)
@blueprint.conflicts()
def create_pipeline(data: dict[str, Any]) -> int:
    """Create a pipeline, with its stages if they are sent."""
    return pipelines.create(data)


@blueprint.get("/pipelines/<id>")
@blueprint.one(PIPELINE)
def get_pipeline(id: str) -> dict[str, Any]:
    """Get one pipeline with its stages."""
    return PIPELINE.one(id)


@blueprint.patch("/pipelines/<id>")
@blueprint.arguments(PIPELINE_PATCH)
@blueprint.one(PIPELINE)
@blueprint.conflicts()
def change_pipeline(
    data: dict[str, Any], id: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a pipeline."""
    return PIPELINE.one(pipelines.update(id, data, expected_version).id)


@blueprint.delete("/pipelines/<id>")
@blueprint.arguments(REMOVAL_FILTER, location="query")
@blueprint.empty()
@blueprint.conflicts()
def delete_pipeline(query: Query, id: str, expected_version: int | None = None) -> None:
    """Delete a pipeline with its stages; its deals move to a stage of another."""
    removal.delete(id, _move_to(query), expected_version)


@blueprint.post("/pipelines/<id>/stages")
@blueprint.arguments(STAGE_IN, example={"name": "Договір", "probability": 90, "position": 5})
@blueprint.created("stage", STAGE)
@blueprint.conflicts()
def create_stage(data: dict[str, Any], id: str) -> int:
    """Add a stage to a pipeline."""
    return pipelines.create_stage(id, data)


@blueprint.get("/pipelines/<id>/stages/<stageId>")
@blueprint.one(STAGE)
def get_stage(id: str, stageId: str) -> dict[str, Any]:
    """Get one stage."""
    return STAGE.one(Stage.of(id, stageId).id)


@blueprint.patch("/pipelines/<id>/stages/<stageId>")
@blueprint.arguments(STAGE_PATCH)
@blueprint.one(STAGE)
@blueprint.conflicts()
def change_stage(
    data: dict[str, Any], id: str, stageId: str, expected_version: int | None = None
) -> dict[str, Any]:
    """Change the sent fields of a stage."""
    return STAGE.one(pipelines.update_stage(id, stageId, data, expected_version).id)


@blueprint.delete("/pipelines/<id>/stages/<stageId>")
@blueprint.arguments(REMOVAL_FILTER, location="query")
@blueprint.empty()
@blueprint.conflicts()
def delete_stage(query: Query, id: str, stageId: str, expected_version: int | None = None) -> None:
    """Delete a stage; its deals move to another one of the pipeline."""
    removal.delete_stage(id, stageId, _move_to(query), expected_version)


def _move_to(query: Query) -> int | None:
    """The stage that takes the deals, for a key that may change deals."""
    if "move_to" in query.options:
        rights.require(g.caller.scopes, ["deals:write"])
    return query.options.get("move_to")
