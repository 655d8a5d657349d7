"""Pipelines and their stages (spec: Pipelines and users; D7, D11).

A stage has a type, open, won or lost, which is what rules look at; its name never matters. Exactly
one pipeline is the default, and every pipeline keeps at least one open stage. Pipelines among each
other, and the stages of one, stand in positions 1, 2, 3 …: one that comes, moves or goes shifts
the others.
"""

from typing import Any, Self

from crm.access import rights
from crm.errors import Conflict, Invalid, NotFound
from crm.records import columns, nested
from crm.records.columns import N_, Shown
from crm.records.record import Record
from crm.records.schemas import Body, schema_of
from crm.records.views import RecordView
from crm.tenancy.database import row, transaction
from crm.tenancy.dialect import json_rows

TYPES = ("open", "won", "lost")
# Of a new tenant (D11), by language: the pipeline and its stages.
FIRST_NAMES = {
    "en": ("Sales", ("New", "Qualified", "Proposal", "Negotiation", "Won", "Lost")),
    "uk": (
        "Продажі",
        ("Нова", "Кваліфікація", "Пропозиція", "Переговори", "Виграно", "Програно"),
    ),
}
FIRST_TYPES = (("open", 10), ("open", 25), ("open", 50), ("open", 75), ("won", 100), ("lost", 0))
MOST = 100  # pipelines of a tenant, and stages of a pipeline


class Pipeline(Record):
    """name, is_default, position, lost_reasons (a JSON text)."""

    noun = "pipeline"

    name = columns.Text(255, required=True, example="Sales", label=N_("Name"))
    is_default = columns.Boolean(allow_none=False, default=False, about="Exactly one pipeline is.")
    position = columns.Integer(
        1, MOST, allow_none=False, null=False, about="From 1, by default the last."
    )
    stages = Shown(lambda: nested.NestedList(STAGE.schema, dump_only=True, column=STAGES))
    lost_reasons = columns.Tags(
        example=["Too expensive", "Chose a competitor"],
        about="Proposed when a deal is lost. A deal's `lost_reason` may be any text.",
        label=N_("Lost reasons"),
    )

    @classmethod
    def default(cls) -> Self:
        return cls.first("is_default = 1")

    def list_stages(self) -> list["Stage"]:
        """In the order of the board."""
        return Stage.every("pipeline_id = ? ORDER BY position, id", self.id)

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction. The default is changed by making another
        one the default: taking it away is a Conflict `default_pipeline`."""
        if data.get("is_default") == 0 and self.is_default:
            raise Conflict("make another pipeline the default instead", "default_pipeline")
        if data.get("is_default") and not self.is_default:
            Pipeline.default().put({"is_default": 0})
        position = data.get("position")
        self.put({name: value for name, value in data.items() if name != "position"})
        if position is not None:
            _arrange(_pipelines(), self, position)

    def add_stage(self, data: dict[str, Any]) -> int:
        """Add a stage at its position and give its id; inside a transaction.

        By default an open stage comes before those that are won or lost, another one last.
        """
        stages = self.list_stages()
        _is_room(len(stages) + 1, "stages")
        values = {"type": "open", **data, "pipeline_id": self.id, "position": len(stages) + 1}
        stage = Stage.add(values)
        last = _before_closed(stages) if stage.type == "open" else stage.position
        _arrange([*stages, stage], stage, data.get("position") or last)
        self.touch()
        return stage.id

    def close_up(self) -> None:
        """Number the stages anew after one has gone."""
        _number(self.list_stages())
        self.touch()


class Stage(Record):
    """pipeline_id, name, type (open, won or lost), position, probability, color."""

    noun = "stage"

    pipeline_id = columns.Id(dump_only=True)
    name = columns.Text(255, required=True, example="Proposal", label=N_("Name"))
    type = columns.Choice(*TYPES, allow_none=False, default="open", label=N_("Type"))
    position = columns.Integer(
        1,
        MOST,
        allow_none=False,
        null=False,
        about="From 1. By default an open stage comes before the won and lost ones, others last.",
    )
    probability = columns.Integer(0, 100, about="Percent.", example=50, label=N_("Probability, %"))
    color = columns.Color(label=N_("Color"))

    @classmethod
    def of(cls, pipeline_id: int | str, id: int | str) -> Self:
        """The stage of that id in that pipeline; raises NotFound, also for another pipeline's."""
        pipeline, stage = Pipeline.find(pipeline_id), cls.find(id)
        if stage.pipeline_id != pipeline.id:
            raise NotFound
        return stage

    def change(self, data: dict[str, Any]) -> None:
        """Change the sent fields; inside a transaction.

        The type tells what its deals are, so it stays while there are any: Conflict
        `stage_in_use`; and that of the last open stage: Conflict `last_open_stage`.
        """
        if data.get("type", self.type) != self.type:
            self.is_unused()
            self.is_not_the_last_open()
        position, version = data.get("position"), self.version
        self.put({name: value for name, value in data.items() if name != "position"})
        pipeline = Pipeline.find(self.pipeline_id)
        if position is not None:
            _arrange(pipeline.list_stages(), self, position)
        if self.version > version:
            pipeline.touch()

    def deals(self) -> int:
        """How many live deals sit in it."""
        (count,) = row(
            "SELECT count(*) FROM deal WHERE stage_id = ? AND deleted_at IS NULL", (self.id,)
        )
        return count

    def is_unused(self) -> None:
        """Raises Conflict `stage_in_use` when deals sit in it."""
        if deals := self.deals():
            raise in_use("stage", deals)

    def is_not_the_last_open(self) -> None:
        """Raises Conflict `last_open_stage` when its pipeline has no other open one."""
        another = "pipeline_id = ? AND type = 'open' AND id <> ?"
        if self.type == "open" and not Stage.first(another, self.pipeline_id, self.id):
            raise Conflict("a pipeline keeps at least one open stage", "last_open_stage")


def create(data: dict[str, Any]) -> int:
    """Add a pipeline with its stages, by default those of a new tenant's first; gives its id.

    Raises Invalid when none of the stages is open.
    """
    data = dict(data)
    stages = _in_order(data.pop("stages", first_stages("en")))
    if not any(stage["type"] == "open" for stage in stages):
        raise Invalid.field("stages", "open_stage_required", "at least one stage must be open")
    with transaction():
        default = Pipeline.default()
        if default and data.get("is_default"):
            default.put({"is_default": 0})
        others = _pipelines()
        _is_room(len(others) + 1, "pipelines")
        pipeline = Pipeline.add({"is_default": 0, **data, "position": len(others) + 1})
        _arrange([*others, pipeline], pipeline, data.get("position") or pipeline.position)
        for position, stage in enumerate(stages, 1):
            Stage.add({**stage, "pipeline_id": pipeline.id, "position": position})
        return pipeline.id


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


def in_use(what: str, deals: int) -> Conflict:
    """Deals sit in a stage or a pipeline; how many, is for who may read deals."""
    more = {"deals": deals} if rights.can_read("deals") else {}
    return Conflict(f"deals sit in this {what}: move them first", f"{what}_in_use", **more)


def close_up() -> None:
    """Number the pipelines anew after one has gone."""
    _number(_pipelines())


def _pipelines() -> list[Pipeline]:
    return Pipeline.every("1 ORDER BY position, id")


def _in_order(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    _is_room(len(stages), "stages")
    found: list[dict[str, Any]] = []
    for stage in stages:
        found.insert(stage.get("position", MOST) - 1, {"type": "open", **stage})
    return found


def _before_closed(stages: list[Stage]) -> int:
    """The position of the first stage that is not open, else the one after the last."""
    return next((each.position for each in stages if each.type != "open"), len(stages) + 1)


def _arrange(records: list[Any], moved: Any, position: int) -> None:
    """Put one of them into a position; beyond the last means last."""
    others = [record for record in records if record.id != moved.id]
    others.insert(position - 1, moved)
    _number(others)


def _number(records: list[Any]) -> None:
    for position, record in enumerate(records, 1):
        record.put({"position": position})


def _is_room(count: int, what: str) -> None:
    if count > MOST:
        raise Conflict(f"there can be at most {MOST} {what}", f"too_many_{what}")


StageSchema = schema_of(Stage)
STAGE = RecordView(StageSchema.out("StageOut"), "stage", live=False)
STAGE_IN = StageSchema.body("StageIn")
STAGE_PATCH = StageSchema.patch("StagePatch")
STAGES = json_rows(
    {name: f"stage.{name}" for name in STAGE.fields},
    "stage WHERE stage.pipeline_id = pipeline.id ORDER BY stage.position, stage.id",
)


class WithStages(Body):
    """A new pipeline may bring its stages, in the order of the board."""

    stages = nested.NestedList(
        STAGE_IN, max_items=MOST, about="By default those of a new tenant's first pipeline."
    )


PipelineSchema = schema_of(Pipeline)
PIPELINE = RecordView(PipelineSchema.out("PipelineOut"), "pipeline", live=False)
PIPELINE_IN = PipelineSchema.body("PipelineIn", WithStages)
PIPELINE_PATCH = PipelineSchema.patch("PipelinePatch")
