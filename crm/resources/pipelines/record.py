"""Pipelines and their stages (spec: Pipelines and users; D7, D11).

Rules look at the type of a stage (open, won or lost), never at its name. Exactly one pipeline is
the default, and every pipeline has at least one open stage. Pipelines, and the stages of a
pipeline, have the positions 1, 2, 3 …: adding, moving or deleting one shifts the others.
"""

from typing import Any, Self

from crm.access import rights
from crm.errors import Conflict, Invalid
from crm.records import columns, nested
from crm.records.columns import N_, Shown
from crm.records.record import Record
from crm.records.schemas import Body
from crm.records.views import RecordView, declare_views
from crm.storage.dialect import json_rows
from crm.storage.session import remembered_rows, transaction

TYPES = ("open", "won", "lost")
TASK_TYPES = ("call", "meeting", "email")
# Of a new tenant (D11), by language: the pipeline and its stages.
FIRST_NAMES = {
    "en": ("Sales", ("New", "Qualified", "Proposal", "Negotiation", "Won", "Lost")),
    "uk": ("Продажі", ("Нова", "Кваліфікація", "Пропозиція", "Переговори", "Виграно", "Програно")),
}
FIRST_TYPES = (("open", 10), ("open", 25), ("open", 50), ("open", 75), ("won", 100), ("lost", 0))
MAX_COUNT = 100  # pipelines of a tenant, and stages of a pipeline


class Pipeline(Record):
    """name, is_default, position, lost_reasons (a JSON text)."""

    noun = "pipeline"

    name = columns.Text(255, required=True, example="Sales", label=N_("Name"))
    is_default = columns.Boolean(default=False, about="Exactly one pipeline is.")
    position = columns.Integer(1, MAX_COUNT, allow_none=False, about="From 1, by default the last.")
    stages = Shown(lambda: nested.NestedList(STAGE.schema, dump_only=True, column=STAGES))
    lost_reasons = columns.Tags(
        example=["Too expensive", "Chose a competitor"],
        about="Proposed when a deal is lost. A deal's `lost_reason` may be any text.",
        label=N_("Why deals are lost"),
    )

    @classmethod
    def default(cls) -> Self:
        pipeline = cls.first("is_default = 1")
        assert pipeline is not None  # a tenant is created with one, and it cannot be deleted
        return pipeline

    def list_stages(self) -> list["Stage"]:
        """In the order of the board."""
        return Stage.every("pipeline_id = ? ORDER BY position, id", self.id)


class Stage(Record):
    """pipeline_id, name, type (open, won or lost), position, probability, color."""

    noun = "stage"

    pipeline_id = columns.Id(dump_only=True)
    name = columns.Text(255, required=True, example="Proposal", label=N_("Name"))
    type = columns.Choice(*TYPES, default="open", label=N_("Type"))
    position = columns.Integer(
        1,
        MAX_COUNT,
        allow_none=False,
        about="From 1. By default an open stage comes before the won and lost ones, others last.",
    )
    probability = columns.Integer(
        0,
        100,
        about="Percent; that of an open stage without one follows from its position.",
        example=50,
        label=N_("Probability, %"),
    )
    color = columns.Color(label=N_("Color"))
    task_title = columns.Text(
        255,
        about="The task that a deal gets when it comes to the stage for the first time.",
        example="Зателефонувати",
        label=N_("Task of a deal that comes here"),
    )
    task_type = columns.Choice(*TASK_TYPES, label=N_("Kind of the task"))
    task_within_days = columns.Integer(
        0,
        365,
        about="By the end of which day it is due: 0 is the same one. By default 1.",
        label=N_("Days for the task"),
    )

    def deals(self) -> int:
        """Count the live deals in the stage."""
        sql = "SELECT count(*) FROM deal WHERE stage_id = ? AND deleted_at IS NULL"
        return remembered_rows(sql, (self.id,))[0][0]

    def require_unused(self) -> None:
        """Raise Conflict `stage_in_use` when deals are in it."""
        if deals := self.deals():
            raise make_in_use_conflict("stage", deals)

    def require_another_open(self) -> None:
        """Raise Conflict `last_open_stage` when its pipeline has no other open stage."""
        another = "pipeline_id = ? AND type = 'open' AND id <> ?"
        if self.type == "open" and not Stage.first(another, self.pipeline_id, self.id):
            raise Conflict("a pipeline keeps at least one open stage", "last_open_stage")


def probabilities() -> dict[int, int]:
    """How probable it is that a deal is won, in percent, by the id of the stage where it is.

    An open stage without a probability of its own has one by its position: of three 25, 50 and 75.
    """
    by_pipeline: dict[int, list[Stage]] = {}
    for stage in Stage.every("type = 'open' ORDER BY position, id"):
        by_pipeline.setdefault(stage.pipeline_id, []).append(stage)
    return {
        stage.id: 100 * place // (len(stages) + 1)
        if stage.probability is None
        else stage.probability
        for stages in by_pipeline.values()
        for place, stage in enumerate(stages, 1)
    }


def create(data: dict[str, Any]) -> int:
    """Add a pipeline with its stages, by default those of a new tenant's, and return its id.

    Raises Conflict `too_many_pipelines`, and Invalid when none of the stages is open.
    """
    data = dict(data)
    stages = [{"type": "open", **stage} for stage in data.pop("stages", first_stages("en"))]
    _require_room(len(stages), "stages")
    if not any(stage["type"] == "open" for stage in stages):
        raise Invalid.field("stages", "open_stage_required", "at least one stage must be open")
    with transaction():
        if data.get("is_default") and (default := Pipeline.first("is_default = 1")):
            # The old default is unset first: an index allows only one at any time.
            default.save_changes({"is_default": 0})
        others = list_pipelines()
        _require_room(len(others) + 1, "pipelines")
        pipeline = Pipeline.add({"is_default": 0, **data, "position": len(others) + 1})
        # Added as the last one, then moved: positions stay 1, 2, 3 … without gaps.
        _arrange([*others, pipeline], pipeline, data.get("position") or pipeline.position)
        for position, stage in enumerate(stages, 1):
            Stage.add({**stage, "pipeline_id": pipeline.id, "position": position})
        return pipeline.id


def update(id: int | str, data: dict[str, Any], expected_version: int | None = None) -> Pipeline:
    """Change the sent fields of a pipeline.

    The default is changed by making another one the default: unsetting it is a Conflict
    `default_pipeline`. Raises NotFound and Stale.
    """
    with transaction():
        pipeline = Pipeline.find(id, expected_version)
        if data.get("is_default") == 0 and pipeline.is_default:
            raise Conflict("make another pipeline the default instead", "default_pipeline")
        if data.get("is_default") and not pipeline.is_default:
            Pipeline.default().save_changes({"is_default": 0})
        pipeline.save_changes({name: value for name, value in data.items() if name != "position"})
        if (position := data.get("position")) is not None:
            _arrange(list_pipelines(), pipeline, position)
        return pipeline


def create_stage(pipeline_id: int | str, data: dict[str, Any]) -> int:
    """Add a stage to a pipeline and return the stage's id.

    By default an open stage is placed before those that are won or lost, another one last. Raises
    NotFound, and Conflict `too_many_stages`.
    """
    with transaction():
        pipeline = Pipeline.find(pipeline_id)
        stages = pipeline.list_stages()
        _require_room(len(stages) + 1, "stages")
        values = {"type": "open", **data, "pipeline_id": pipeline.id, "position": len(stages) + 1}
        stage = Stage.add(values)
        closed = (one.position for one in stages if one.type != "open" == stage.type)
        _arrange([*stages, stage], stage, data.get("position") or next(closed, stage.position))
        stage.note_in_batch("created")
        pipeline.touch()
        return stage.id


def update_stage(
    pipeline_id: int | str, id: int | str, data: dict[str, Any], expected_version: int | None = None
) -> Stage:
    """Change the sent fields of a stage.

    The type decides what its deals are, so changing it while there are any is a Conflict
    `stage_in_use`, and changing that of the last open stage a Conflict `last_open_stage`. Raises
    NotFound, and Stale for the stage's version.
    """
    with transaction():
        pipeline = Pipeline.find(pipeline_id)
        stage = Stage.of(pipeline, id, expected_version)
        if data.get("type", stage.type) != stage.type:
            stage.require_unused()
            stage.require_another_open()
        old_version = stage.version
        stage.save_changes({name: value for name, value in data.items() if name != "position"})
        if (position := data.get("position")) is not None:
            _arrange(pipeline.list_stages(), stage, position)
        # GET of a pipeline shows its stages, so a changed stage is a new version of the pipeline.
        if stage.version > old_version:
            pipeline.touch()
        return stage


def create_first(language: str) -> None:
    """Create the pipeline of a new tenant, in a language of FIRST_NAMES; inside a transaction."""
    name, _ = FIRST_NAMES[language]
    create({"name": name, "is_default": 1, "stages": first_stages(language)})


def first_stages(language: str) -> list[dict[str, Any]]:
    """The stages that a pipeline begins with, in a language of FIRST_NAMES."""
    _, names = FIRST_NAMES[language]
    return [
        {"name": name, "type": kind, "probability": probability}
        for name, (kind, probability) in zip(names, FIRST_TYPES, strict=True)
    ]


def make_in_use_conflict(kind: str, deals: int) -> Conflict:
    """Make the error for a stage or pipeline with deals; their number needs the right to read."""
    more = {"deals": deals} if rights.can_read("deals") else {}
    return Conflict(f"deals sit in this {kind}: move them first", f"{kind}_in_use", **more)


def list_pipelines() -> list[Pipeline]:
    """In the order of their positions."""
    return Pipeline.every("TRUE ORDER BY position, id")


def _arrange(records: list[Any], moved: Any, position: int) -> None:
    """Move one of the records to a position; beyond the last means last."""
    ordered = [record for record in records if record.id != moved.id]
    ordered.insert(position - 1, moved)
    number(ordered)


def number(records: list[Any]) -> None:
    """Give the records the positions 1, 2, 3 …; inside a transaction."""
    for position, record in enumerate(records, 1):
        record.save_changes({"position": position})


def _require_room(count: int, plural: str) -> None:
    if count > MAX_COUNT:
        raise Conflict(f"there can be at most {MAX_COUNT} {plural}", f"too_many_{plural}")


STAGE: RecordView
STAGE, STAGE_IN, STAGE_PATCH = declare_views(Stage)
STAGES: str = json_rows(
    {name: f"stage.{name}" for name in STAGE.fields},
    "stage WHERE stage.pipeline_id = pipeline.id ORDER BY stage.position, stage.id",
)


class WithStages(Body):
    """A new pipeline may bring its stages, in the order of the board."""

    stages = nested.NestedList(
        STAGE_IN, max_items=MAX_COUNT, about="In their order. By default those of a new tenant's."
    )


PIPELINE, PIPELINE_IN, PIPELINE_PATCH = declare_views(Pipeline, WithStages)
