"""Pipelines and their stages: names, order, types, and where deals go when a stage is removed."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import choices, edits
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext, language
from crm.cabinet.records.record_fields import form_names, record_fields
from crm.cabinet.rendering import confirmed, see_other
from crm.cabinet.settings.sections import pages, show
from crm.resources.pipelines import record, removal

PATH = "/settings/pipelines"
PIPELINE_FIELDS = ("name", "lost_reasons")
STAGE_FIELDS = form_names("stage")
GREY = "#6c757d"  # stands for no colour, because a browser's colour input always sends one


@pages.get(PATH)
def list_pipelines(form: Form | None = None) -> Response:
    return show("pipelines.html", pipelines=choices.pipelines(), form=form or Form())


@pages.post(PATH, page=list_pipelines, once=True)
def add_pipeline() -> Response:
    data = load_form(record.PIPELINE_IN, ("name",), stages=record.first_stages(language()))
    id = record.create(data)
    return see_other(f"{PATH}/{id}", gettext("Pipeline added with the default stages"))


@pages.get(f"{PATH}/<id>")
def edit_pipeline(
    id: str, form: Form | None = None, stage: Form | None = None, refused: Form | None = None
) -> Response:
    """Show a pipeline. `form` and `stage` are those for the pipeline and a new stage, `refused` is
    another refused form of the page."""
    pipeline = record.PIPELINE.one(id)
    own_ids = {stage["id"] for stage in pipeline["stages"]}
    reasons = "\n".join(pipeline["lost_reasons"])
    return show(
        "pipeline.html",
        pipeline=pipeline,
        form=form or edits.open_form(pipeline, PIPELINE_FIELDS, refused, lost_reasons=reasons),
        usual=choices.lost_reasons({"lost_reasons": []}),
        stage=stage or Form({"type": "open", "color": GREY}),
        deals={stage.id: stage.deals() for stage in record.Pipeline.find(id).list_stages()},
        fields=record_fields("stage", STAGE_FIELDS),
        takers=[one for one in choices.list_stages() if one[0] not in own_ids],
        grey=GREY,
    )


@pages.post(f"{PATH}/<id>", page=edit_pipeline)
def change_pipeline(id: str) -> Response:
    lines = request.form.get("lost_reasons", "").splitlines()
    # One reason a line, because a reason may have commas, which separate other lists of forms.
    reasons = [line for line in lines if line.strip()]
    data = load_form(record.PIPELINE_PATCH, ("name",), lost_reasons=reasons)
    edits.save(record.PIPELINE, id, data, partial(record.update, id))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/default")
def make_default(id: str) -> Response:
    record.update(id, {"is_default": 1})
    return see_other(PATH, gettext("This is now the default pipeline"))


@pages.post(f"{PATH}/<id>/move")
def move_pipeline(id: str) -> Response:
    record.update(id, load_form(record.PIPELINE_PATCH, ("position",)))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/delete", page=edit_pipeline, form_name="refused")
def delete_pipeline(id: str) -> Response:
    pipeline = record.Pipeline.find(id)
    question = gettext("Delete the pipeline “%(name)s” with its stages?", name=pipeline.name)
    with confirmed(question, gettext("Delete"), f"{PATH}/{id}"):
        removal.delete(id, request.form.get("move_to", type=int))
    return see_other(PATH, gettext("Pipeline deleted"))


@pages.post(f"{PATH}/<id>/stages", page=edit_pipeline, form_name="stage", once=True)
def add_stage(id: str) -> Response:
    record.create_stage(id, _coloured(load_form(record.STAGE_IN, STAGE_FIELDS)))
    return see_other(f"{PATH}/{id}", gettext("Stage added"))


@pages.get(f"{PATH}/<id>/stages/<stage_id>")
def edit_stage(
    id: str, stage_id: str, form: Form | None = None, refused: Form | None = None
) -> Response:
    stage = record.Stage.of(record.Pipeline.find(id), stage_id)
    stage_view = record.STAGE.one(stage.id)
    color = stage_view["color"] or GREY
    pipeline = record.PIPELINE.one(id)
    return show(
        "stage.html",
        pipeline=pipeline,
        stage=stage_view,
        form=form or edits.open_form(stage_view, STAGE_FIELDS, refused, color=color),
        deals=stage.deals(),
        fields=record_fields("stage", STAGE_FIELDS),
        takers=[(s["id"], s["name"]) for s in pipeline["stages"] if s["id"] != stage_view["id"]],
    )


@pages.post(f"{PATH}/<id>/stages/<stage_id>", page=edit_stage)
def change_stage(id: str, stage_id: str) -> Response:
    data = load_form(record.STAGE_PATCH, STAGE_FIELDS)
    edits.save(record.STAGE, stage_id, _coloured(data), partial(record.update_stage, id, stage_id))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/move")
def move_stage(id: str, stage_id: str) -> Response:
    record.update_stage(id, stage_id, load_form(record.STAGE_PATCH, ("position",)))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/delete", page=edit_stage, form_name="refused")
def delete_stage(id: str, stage_id: str) -> Response:
    stage = record.Stage.of(record.Pipeline.find(id), stage_id)
    question = gettext("Delete the stage “%(name)s”?", name=stage.name)
    with confirmed(question, gettext("Delete"), f"{PATH}/{id}/stages/{stage_id}"):
        removal.delete_stage(id, stage_id, request.form.get("move_to", type=int))
    return see_other(f"{PATH}/{id}", gettext("Stage deleted"))


def _coloured(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "color": None} if data.get("color") == GREY else data
