"""Pipelines and their stages: names, order, types, and where deals go when a stage is removed."""

from typing import Any

from flask import request
from werkzeug.wrappers import Response

from crm.cabinet import languages
from crm.cabinet.deals import choices
from crm.cabinet.forms import Form, load_form
from crm.cabinet.languages import gettext
from crm.cabinet.record_fields import form_names, record_fields
from crm.cabinet.rendering import confirm, flash, rerender_on_error, see_other
from crm.cabinet.settings.sections import beside, pages, show
from crm.records import fields
from crm.resources.pipelines import record, removal
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
from crm.tenancy.database import transaction

PATH = "/settings/pipelines"
STAGE_FIELDS = form_names("stage")
GREY = "#6c757d"  # how a stage without a colour looks: a browser's field always sends one


@pages.get(PATH)
def list_pipelines(form: Form | None = None) -> Response:
    found = PIPELINE.every("1 ORDER BY position, id")
    return show("pipelines.html", pipelines=found, form=form or Form())


@pages.post(PATH)
@rerender_on_error(lambda form: list_pipelines(form))
def add_pipeline() -> Response:
    data = load_form(
        PIPELINE_IN, request.form, ("name",), stages=first_stages(languages.language())
    )
    id = record.create(data)
    flash(gettext("Pipeline added with the default stages"))
    return see_other(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>")
def edit_pipeline(
    id: str, form: Form | None = None, stage: Form | None = None, refused: Form | None = None
) -> Response:
    """`form`, `stage`: the forms for the pipeline and a new stage; `refused` was another one."""
    pipeline = PIPELINE.one(id)
    types = stage_types()
    reasons = "\n".join(pipeline["lost_reasons"])
    others = (other for other in PIPELINE.every("id <> ? ORDER BY position", int(id)))
    return show(
        "pipeline.html",
        pipeline=pipeline,
        form=form or beside({**pipeline, "lost_reasons": reasons}, refused),
        usual=choices.lost_reasons({"lost_reasons": []}),
        stage=stage or Form({"type": "open", "color": GREY}),
        deals={stage.id: stage.deals() for stage in Pipeline.find(id).list_stages()},
        fields=record_fields("stage", STAGE_FIELDS, type=[*types.items()]),
        types=types,
        takers=[
            (stage["id"], f"{other['name']}: {stage['name']}")
            for other in others
            for stage in other["stages"]
        ],
        grey=GREY,
    )


@pages.post(f"{PATH}/<id>")
@rerender_on_error(lambda form, id: edit_pipeline(id, form))
def change_pipeline(id: str) -> Response:
    lines = request.form.get("lost_reasons", "").splitlines()
    reasons = [line for line in lines if line.strip()]
    data = load_form(PIPELINE_PATCH, request.form, ("name",), lost_reasons=reasons)
    with transaction():
        Pipeline.find(id).change(data)
    flash(gettext("Saved."))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/default")
def make_default(id: str) -> Response:
    with transaction():
        Pipeline.find(id).change({"is_default": 1})
    flash(gettext("This is now the default pipeline"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/move")
def move_pipeline(id: str) -> Response:
    data = load_form(PIPELINE_PATCH, request.form, ("position",))
    with transaction():
        Pipeline.find(id).change(data)
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/delete")
@rerender_on_error(lambda form, id: edit_pipeline(id, refused=form))
def delete_pipeline(id: str) -> Response:
    with transaction():
        pipeline = Pipeline.find(id)
        removal.remove_pipeline(pipeline, _move_to())
        question = gettext("Delete the pipeline “%(name)s” with its stages?", name=pipeline.name)
        confirm(question, gettext("Delete"), f"{PATH}/{id}")
    flash(gettext("Pipeline deleted"))
    return see_other(PATH)


@pages.post(f"{PATH}/<id>/stages")
@rerender_on_error(lambda form, id: edit_pipeline(id, stage=form))
def add_stage(id: str) -> Response:
    data = load_form(STAGE_IN, request.form, STAGE_FIELDS)
    with transaction():
        Pipeline.find(id).add_stage(_coloured(data))
    flash(gettext("Stage added"))
    return see_other(f"{PATH}/{id}")


@pages.get(f"{PATH}/<id>/stages/<stage_id>")
def edit_stage(
    id: str, stage_id: str, form: Form | None = None, refused: Form | None = None
) -> Response:
    stage = Stage.of(id, stage_id)
    shown = STAGE.one(stage.id)
    pipeline = PIPELINE.one(id)
    return show(
        "stage.html",
        pipeline=pipeline,
        stage=shown,
        form=form or beside({**shown, "color": shown["color"] or GREY}, refused),
        deals=stage.deals(),
        fields=record_fields("stage", STAGE_FIELDS, type=[*stage_types().items()]),
        takers=[(s["id"], s["name"]) for s in pipeline["stages"] if s["id"] != shown["id"]],
    )


@pages.post(f"{PATH}/<id>/stages/<stage_id>")
@rerender_on_error(lambda form, id, stage_id: edit_stage(id, stage_id, form))
def change_stage(id: str, stage_id: str) -> Response:
    data = load_form(STAGE_PATCH, request.form, STAGE_FIELDS)
    with transaction():
        Stage.of(id, stage_id).change(_coloured(data))
    flash(gettext("Saved."))
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/move")
def move_stage(id: str, stage_id: str) -> Response:
    data = load_form(STAGE_PATCH, request.form, ("position",))
    with transaction():
        Stage.of(id, stage_id).change(data)
    return see_other(f"{PATH}/{id}")


@pages.post(f"{PATH}/<id>/stages/<stage_id>/delete")
@rerender_on_error(lambda form, id, stage_id: edit_stage(id, stage_id, refused=form))
def delete_stage(id: str, stage_id: str) -> Response:
    with transaction():
        stage = Stage.of(id, stage_id)
        removal.remove_stage(stage, _move_to())
        question = gettext("Delete the stage “%(name)s”?", name=stage.name)
        confirm(question, gettext("Delete"), f"{PATH}/{id}/stages/{stage_id}")
    flash(gettext("Stage deleted"))
    return see_other(f"{PATH}/{id}")


def stage_types() -> dict[str, str]:
    """The types of stages, each with its label."""
    return {
        "open": gettext("Open stage"),
        "won": gettext("Won stage"),
        "lost": gettext("Lost stage"),
    }


def _coloured(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "color": None} if data.get("color") == GREY else data


def _move_to() -> int | None:
    """The stage that takes the deals, if one was chosen."""
    chosen = request.form.get("move_to")
    return fields.Id().read(chosen) if chosen else None
