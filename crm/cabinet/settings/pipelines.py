"""Pipelines and their stages: names, order, types, and where deals go when a stage is removed."""

from functools import partial
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import edits, labels, languages
from crm.cabinet.deals import choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.record_fields import form_names, record_fields
from crm.cabinet.rendering import confirmed, flash, rerender_on_error, see_other
from crm.cabinet.settings.sections import pages, show, with_refusal
from crm.records import fields
from crm.resources import pipelines
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
    first_stages,
)

PATH = "/settings/pipelines"
PIPELINE_FIELDS = ("name", "lost_reasons")
STAGE_FIELDS = form_names("stage")
GREY = "#6c757d"  # stands for no colour, because a browser's colour input always sends one


@pages.get(PATH)
def list_pipelines(form: Form | None = None) -> Response:
    every = PIPELINE.every("TRUE ORDER BY position, id")
    return show("pipelines.html", pipelines=every, form=form or Form())


@pages.post(PATH)
@rerender_on_error(lambda form: list_pipelines(form))
def add_pipeline() -> Response:
    data = load_form(
        PIPELINE_IN, request.form, ("name",), stages=first_stages(languages.language())
    )
    id = pipelines.create(data)
    flash(gettext("Pipeline added with the default stages"))
    return see_other(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>")
def edit_pipeline(
    id: str, form: Form | None = None, stage: Form | None = None, refused: Form | None = None
) -> Response:
    """Show a pipeline. `form` and `stage` are those for the pipeline and a new stage, `refused` is
    another refused form of the page."""
    pipeline = PIPELINE.one(id)
    reasons = "\n".join(pipeline["lost_reasons"])
    other_pipelines = PIPELINE.every("id <> ? ORDER BY position", int(id))
    return show(
        "pipeline.html",
        pipeline=pipeline,
        form=form
        or with_refusal(
            edits.with_digests(pipeline, PIPELINE_FIELDS, lost_reasons=reasons), refused
        ),
        usual=choices.lost_reasons({"lost_reasons": []}),
        stage=stage or Form({"type": "open", "color": GREY}),
        deals={stage.id: stage.deals() for stage in Pipeline.find(id).list_stages()},
        fields=record_fields("stage", STAGE_FIELDS),
        types=labels.stage_types(),
        takers=[
            (stage["id"], f"{other_pipeline['name']}: {stage['name']}")
            for other_pipeline in other_pipelines
            for stage in other_pipeline["stages"]
        ],
        grey=GREY,
    )


@pages.post(f"{PATH}/<id>")
@rerender_on_error(lambda form, id: edit_pipeline(id, form))
def change_pipeline(id: str) -> Response:
    lines = request.form.get("lost_reasons", "").splitlines()
    # One reason a line, because a reason may have commas, which separate other lists of forms.
    reasons = [line for line in lines if line.strip()]
    data = load_form(PIPELINE_PATCH, request.form, ("name",), lost_reasons=reasons)
    edits.flash_saved(edits.save(PIPELINE, id, data, partial(pipelines.update, id)))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/default")
def make_default(id: str) -> Response:
    pipelines.update(id, {"is_default": 1})
    flash(gettext("This is now the default pipeline"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/move")
def move_pipeline(id: str) -> Response:
    data = load_form(PIPELINE_PATCH, request.form, ("position",))
    pipelines.update(id, data)
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/delete")
@rerender_on_error(lambda form, id: edit_pipeline(id, refused=form))
def delete_pipeline(id: str) -> Response:
    pipeline = Pipeline.find(id)
    question = gettext("Delete the pipeline “%(name)s” with its stages?", name=pipeline.name)
    with confirmed(question, gettext("Delete"), f"{PATH}/{id}"):
        removal.delete(id, _move_to())
    flash(gettext("Pipeline deleted"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/stages")
@rerender_on_error(lambda form, id: edit_pipeline(id, stage=form))
def add_stage(id: str) -> Response:
    data = load_form(STAGE_IN, request.form, STAGE_FIELDS)
    pipelines.create_stage(id, _coloured(data))
    flash(gettext("Stage added"))
    return see_other(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>/stages/<stage_id>")
def edit_stage(
    id: str, stage_id: str, form: Form | None = None, refused: Form | None = None
) -> Response:
    stage = Stage.of(id, stage_id)
    stage_view = STAGE.one(stage.id)
    color = stage_view["color"] or GREY
    pipeline = PIPELINE.one(id)
    return show(
        "stage.html",
        pipeline=pipeline,
        stage=stage_view,
        form=form
        or with_refusal(edits.with_digests(stage_view, STAGE_FIELDS, color=color), refused),
        deals=stage.deals(),
        fields=record_fields("stage", STAGE_FIELDS),
        takers=[(s["id"], s["name"]) for s in pipeline["stages"] if s["id"] != stage_view["id"]],
    )


@pages.post(f"{PATH}/<id>/stages/<stage_id>")
@rerender_on_error(lambda form, id, stage_id: edit_stage(id, stage_id, form))
def change_stage(id: str, stage_id: str) -> Response:
    data = load_form(STAGE_PATCH, request.form, STAGE_FIELDS)
    update = partial(pipelines.update_stage, id, stage_id)
    edits.flash_saved(edits.save(STAGE, stage_id, _coloured(data), update))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/move")
def move_stage(id: str, stage_id: str) -> Response:
    data = load_form(STAGE_PATCH, request.form, ("position",))
    pipelines.update_stage(id, stage_id, data)
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/delete")
@rerender_on_error(lambda form, id, stage_id: edit_stage(id, stage_id, refused=form))
def delete_stage(id: str, stage_id: str) -> Response:
    stage = Stage.of(id, stage_id)
    question = gettext("Delete the stage “%(name)s”?", name=stage.name)
    with confirmed(question, gettext("Delete"), f"{PATH}/{id}/stages/{stage_id}"):
        removal.delete_stage(id, stage_id, _move_to())
    flash(gettext("Stage deleted"))
    return see_other(f"{PATH}/{id}")


def _coloured(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "color": None} if data.get("color") == GREY else data


def _move_to() -> int | None:
    """The stage that takes the deals, if one was chosen."""
    chosen = request.form.get("move_to")
    return fields.Id().read(chosen) if chosen else None
