"""Endpoints of pipelines and stages, in the specification's order (spec: Pipelines and users).

Writing is additive (D11). Only what moves deals on the way needs `deals:write` too.
"""

from crm.api.blueprints import Blueprint, Endpoints
from crm.records import fields, parameters, queries
from crm.records.columns import N_
from crm.records.parameters import Query
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines import removal
from crm.resources.pipelines.record import PIPELINE, STAGE, Pipeline, Stage


class RemovalFilter(queries.Filter):
    move_to = parameters.Option(fields.Id(), "The stage that takes the deals; needs `deals:write`.")


BOARD_FILTER = queries.sorted_by("position", position="position")
REMOVAL_FILTER = RemovalFilter(only=("move_to",))

blueprint = Blueprint("pipelines", "Funnels and their stages.", N_("Pipelines"))


def delete_pipeline(id: str, query: Query, expected_version: int | None = None) -> None:
    """Delete a pipeline; its deals move as the query says."""
    removal.delete(id, query.options.get("move_to"), expected_version)


def delete_stage(id: str, one: str, query: Query, expected_version: int | None = None) -> None:
    """Delete a stage; its deals move as the query says."""
    removal.delete_stage(id, one, query.options.get("move_to"), expected_version)


all_pipelines = Endpoints(blueprint, "/pipelines", PIPELINE)
stages = Endpoints(blueprint, "/pipelines/<id>/stages", STAGE, id="stageId")
all_pipelines.list(BOARD_FILTER, "List pipelines with their stages.")
stages.list(
    BOARD_FILTER,
    "List the stages of one pipeline.",
    where=lambda id: ("pipeline_id = ?", [Pipeline.find(id).id]),
)
all_pipelines.create(
    pipelines.create,
    "Create a pipeline, with its stages if they are sent.",
    example={
        "name": "Опт",
        "stages": [{"name": "Запит"}, {"name": "Угода", "type": "won", "probability": 100}],
    },
    conflicts=True,
)
all_pipelines.get("Get one pipeline with its stages.")
all_pipelines.change(pipelines.update, conflicts=True)
all_pipelines.delete(
    delete_pipeline,
    "Delete a pipeline with its stages; its deals move to a stage of another.",
    query=REMOVAL_FILTER,
    conflicts=True,
)
stages.create(
    pipelines.create_stage,
    "Add a stage to a pipeline.",
    example={"name": "Договір", "probability": 90, "position": 5},
    conflicts=True,
)
stages.get(show=lambda id, one: STAGE.one(Stage.of(Pipeline.find(id), one).id))
stages.change(pipelines.update_stage, conflicts=True)
stages.delete(
    delete_stage,
    "Delete a stage; its deals move to another one of the pipeline.",
    query=REMOVAL_FILTER,
    conflicts=True,
)
