"""Pipelines and stages (spec: Pipelines and users; D7, D11)."""

import pytest

from crm.errors import Conflict, Invalid
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL, Deal
from crm.resources.pipelines.record import (
    MAX_COUNT,
    PIPELINE,
    STAGE,
    Pipeline,
    Stage,
    create,
    create_stage,
    update,
    update_stage,
)
from crm.resources.pipelines.removal import delete, delete_stage
from crm.storage.session import row, transaction
from tests.conftest import TARAS, Api, key_for
from tests.csv_helpers import send

NEW, QUALIFIED, PROPOSAL, NEGOTIATION, WON, LOST = range(1, 7)  # stage ids of Sales
OPEN = {"name": "Запит"}


def names(pipeline_id=1):
    """The stages' names in the order of the board; their positions must be 1, 2, 3 …"""
    stages = PIPELINE.one(pipeline_id)["stages"]
    assert [stage["position"] for stage in stages] == list(range(1, len(stages) + 1))
    return " ".join(stage["name"] for stage in stages)


def boards():
    """The pipelines' names in order; their positions must be 1, 2, 3 …"""
    pipelines = PIPELINE.every("TRUE ORDER BY position, id")
    assert [pipeline["position"] for pipeline in pipelines] == list(range(1, len(pipelines) + 1))
    assert sum(pipeline["is_default"] for pipeline in pipelines) == 1
    return " ".join(pipeline["name"] for pipeline in pipelines)


def change(record, id, **data):
    if record is Pipeline:
        return update(id, data)
    return update_stage(Stage.find(id).pipeline_id, id, data)


def refusal(attempt, *arguments):
    """The code of the refusal, after which nothing has changed."""
    before = PIPELINE.every("TRUE ORDER BY id")
    with pytest.raises((Conflict, Invalid)) as refused, transaction():
        attempt(*arguments)
    assert PIPELINE.every("TRUE ORDER BY id") == before
    error = refused.value
    return error.faults[0].code if isinstance(error, Invalid) else error.code


# Rules of pipelines


def test_a_new_tenant_has_sales(acme):
    (sales,) = PIPELINE.every("TRUE")
    assert (sales["name"], sales["is_default"], sales["position"]) == ("Sales", True, 1)
    assert names() == "New Qualified Proposal Negotiation Won Lost"
    stages = sales["stages"]
    assert [stage["type"] for stage in stages] == ["open"] * 4 + ["won", "lost"]
    assert [stage["probability"] for stage in stages] == [10, 25, 50, 75, 100, 0]
    assert {stage["version"] for stage in stages} == {sales["version"]} == {1}


def test_a_new_pipeline_has_the_stages_of_the_first_unless_it_brings_its_own(acme):
    id = create({"name": "Wholesale"})
    assert names(id) == names(1)
    shown = PIPELINE.one(id)
    assert (shown["is_default"], shown["version"]) == (False, 1)
    own = create({"name": "Repairs", "stages": [{"name": "In", "color": "#1f6feb"}]})
    (stage,) = PIPELINE.one(own)["stages"]
    assert (stage["type"], stage["color"], stage["probability"]) == ("open", "#1f6feb", None)


def test_a_pipeline_without_an_open_stage_is_refused(acme):
    for stages in ([], [{"name": "Won", "type": "won"}]):
        refused = refusal(create, {"name": "Wholesale", "stages": stages})
        assert refused == "open_stage_required"


def test_a_new_default_takes_the_place_of_the_old(acme):
    first = create({"name": "Wholesale", "is_default": 1})
    assert Pipeline.default().id == first
    second = create({"name": "Repairs"})
    change(Pipeline, second, is_default=1)
    assert Pipeline.default().id == second
    assert boards() == "Sales Wholesale Repairs"


def test_the_default_stays_until_another_is(acme):
    sales = Pipeline.default()
    assert refusal(update, sales.id, {"is_default": 0}) == "default_pipeline"
    assert refusal(delete, sales.id) == "default_pipeline"
    other = create({"name": "Wholesale"})
    change(Pipeline, other, is_default=0)  # it wasn't
    change(Pipeline, other, is_default=1)
    delete(1)
    assert boards() == "Wholesale"


def test_pipelines_keep_their_positions_close(acme):
    for name in "ABC":
        create({"name": name})
    assert boards() == "Sales A B C"
    change(Pipeline, 4, position=1)
    assert boards() == "C Sales A B"
    change(Pipeline, 4, position=3)
    assert boards() == "Sales A C B"
    change(Pipeline, 1, position=MAX_COUNT)
    assert boards() == "A C B Sales"
    create({"name": "D", "position": 2})
    assert boards() == "A D C B Sales"
    delete(4)
    assert boards() == "A D B Sales"


def test_there_is_an_end_to_pipelines_and_stages(acme):
    assert refusal(create, {"name": "A", "stages": [OPEN] * (MAX_COUNT + 1)}) == "too_many_stages"
    full = create({"name": "A", "stages": [OPEN] * MAX_COUNT})
    assert refusal(create_stage, full, OPEN) == "too_many_stages"
    for _ in range(MAX_COUNT - 2):
        create({"name": "B", "stages": [OPEN]})
    assert refusal(create, {"name": "C"}) == "too_many_pipelines"


# Rules of stages


def test_a_new_stage_is_open_and_before_won_and_lost_unless_it_says_otherwise(acme):
    last = create_stage(1, {"name": "Later"})
    create_stage(1, {"name": "Contract", "position": 5, "probability": 90})
    assert names() == "New Qualified Proposal Negotiation Contract Later Won Lost"
    assert STAGE.one(last)["type"] == "open"


def test_a_stage_changed_is_a_pipeline_changed(acme, clock):
    clock.tick(60)
    change(Stage, NEW, name="Fresh")
    sales = PIPELINE.one(1)
    assert (sales["version"], sales["updated_at"]) == (2, "2026-03-02T09:01:00Z")
    change(Stage, NEW, name="Fresh", position=1)
    assert PIPELINE.one(1)["version"] == 2


def test_a_pipeline_keeps_an_open_stage(acme):
    id = create({"name": "A", "stages": [OPEN, {"name": "Won", "type": "won"}]})
    stage, won = Pipeline.find(id).list_stages()
    assert refusal(update_stage, id, stage.id, {"type": "lost"}) == "last_open_stage"
    assert refusal(delete_stage, id, stage.id) == "last_open_stage"
    assert refusal(delete_stage, id, stage.id, won.id) == "last_open_stage"
    change(Stage, won.id, type="open")
    change(Stage, stage.id, type="lost")
    assert [item.type for item in Pipeline.find(id).list_stages()] == ["lost", "open"]


def test_the_type_of_a_stage_with_deals_stays(acme):
    deal = deals.create({"title": "Chairs", "stage_id": PROPOSAL})
    assert refusal(update_stage, 1, PROPOSAL, {"type": "won"}) == "stage_in_use"
    change(Stage, PROPOSAL, type="open", name="Offer")
    with transaction():
        Deal.find(deal).remove()
    change(Stage, PROPOSAL, type="won")
    assert STAGE.one(PROPOSAL)["type"] == "won"


# Removal


def test_a_stage_in_use_stays_unless_its_deals_move_by_their_own_rule(api, acme):
    for title in ("Chairs", "Tables"):
        deals.create({"title": title})
    with pytest.raises(Conflict) as refused, transaction():
        delete_stage(1, NEW)
    assert (refused.value.code, refused.value.more) == ("stage_in_use", {"deals": 2})
    assert names().startswith("New ")
    delete_stage(1, NEW, WON)
    assert [deal["status"] for deal in DEAL.every("TRUE")] == ["won", "won"]
    assert api.kinds()[2:] == ["deal.stage_changed", "deal.won"] * 2
    moved = api.events()[2]
    assert moved["data"]["from_stage"]["name"] == "New"
    assert moved["data"]["to_stage"]["id"] == str(WON)
    moves = row(
        "SELECT from_stage_id, from_name, to_name FROM stage_move WHERE deal_id = 1"
        " ORDER BY id DESC LIMIT 1"
    )
    assert moves == (None, "New", "Won")


def test_what_was_won_in_an_open_stage_stays_won(api, acme, clock):
    id = deals.create({"title": "Chairs", "status": "won", "stage_id": PROPOSAL})
    before = DEAL.one(id)
    clock.tick(60)
    delete_stage(1, PROPOSAL, NEGOTIATION)
    after = DEAL.one(id)
    assert (after["status"], after["closed_at"]) == ("won", before["closed_at"])
    assert (after["stage_id"], api.kinds()[2:]) == (str(NEGOTIATION), ["deal.stage_changed"])


def test_deleted_deals_go_along_without_a_word(api, acme):
    ids = [deals.create({"title": "Chairs", "stage_id": PROPOSAL}) for _ in range(2)]
    with transaction():
        Deal.find(ids[0]).remove()
        delete_stage(1, PROPOSAL, NEGOTIATION)
    assert row("SELECT stage_id, version FROM deal WHERE id = ?", (ids[0],)) == (NEGOTIATION, 2)
    assert api.kinds() == ["deal.created", "deal.created", "deal.stage_changed"]
    with transaction():
        Deal.find(ids[1]).remove()
        delete_stage(1, NEGOTIATION)
    assert row("SELECT min(stage_id), max(stage_id) FROM deal") == (NEW, NEW)


def test_a_pipeline_in_use_stays_unless_its_deals_move_to_a_stage_of_another(api, acme):
    id = create({"name": "A"})
    open_deal = deals.create({"title": "Chairs", "pipeline_id": id})
    deleted = deals.create({"title": "Tables", "pipeline_id": id, "status": "lost"})
    assert refusal(delete, id) == "pipeline_in_use"
    own = Pipeline.find(id).list_stages()[1].id
    assert refusal(delete, id, own) == "invalid_stage"
    with transaction():
        Deal.find(deleted).remove()
        delete(id, QUALIFIED)
    deal = DEAL.one(open_deal)
    assert (deal["pipeline_id"], deal["stage_id"]) == ("1", str(QUALIFIED))
    assert row("SELECT pipeline_id, stage_id FROM deal WHERE id = ?", (deleted,)) == (1, QUALIFIED)
    assert api.kinds()[3:] == ["deal.stage_changed"]
    assert api.events()[3]["previous"]["pipeline_id"] == str(id)


# Endpoints


def test_creating_answers_ok_and_the_id(api):
    answer = api.post("/pipelines", {"name": "Опт", "is_default": True, "stages": [OPEN]})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "pipeline_id": "2"})
    assert answer.headers["Location"] == "/api/v1/pipelines/2"
    assert api.read("/pipelines/1")["is_default"] is False
    answer = api.post("/pipelines/2/stages", {"name": "Угода", "type": "won", "probability": 100})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "stage_id": "8"})
    assert answer.headers["Location"] == "/api/v1/pipelines/2/stages/8"
    assert api.read("/pipelines/2/stages/8") == api.read("/pipelines/2")["stages"][1]


UNFIT = [
    ("/pipelines", {"name": "A", "stages": []}, "/stages"),
    ("/pipelines", {"name": "A", "stages": [{"type": "won"}]}, "/stages/0/name"),
    ("/pipelines", {"name": "A", "stages": [{"name": "B", "id": "1"}]}, "/stages/0/id"),
    ("/pipelines/1/stages", {"name": "A", "probability": 101}, "/probability"),
    ("/pipelines/1/stages", {"name": "A", "color": "red"}, "/color"),
    ("/pipelines/1/stages", {"name": "A", "pipeline_id": "1"}, "/pipeline_id"),
]


def test_what_does_not_fit_is_refused(api):
    for path, body, pointer in UNFIT:
        answer = api.post(path, body)
        assert answer.status_code == 422
        assert [fault["pointer"] for fault in answer.json["errors"]] == [pointer]
    assert len(api.read("/pipelines")) == 1
    assert len(api.read("/pipelines/1/stages")) == 6


def test_whole_records_may_be_sent_back_but_not_with_other_stages(api):
    (pipeline,) = api.read("/pipelines")
    assert api.read("/pipelines/1") == api.patch("/pipelines/1", pipeline).json == pipeline
    stage = pipeline["stages"][0]
    assert api.patch("/pipelines/1/stages/1", stage).json == stage
    answer = api.patch("/pipelines/1", {"stages": []})
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (422, "read_only")
    answer = api.patch("/pipelines/1/stages/1", {"pipeline_id": "2"})
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (422, "read_only")


def test_where_deals_go_must_be_a_stage_that_takes_them(api):
    api.create("/pipelines", name="Опт")
    for path, stage in (
        ("/pipelines/1/stages/1", "7"),
        ("/pipelines/1/stages/1", "1"),
        ("/pipelines/1/stages/1", "abc"),
        ("/pipelines/1/stages/1", ""),
        ("/pipelines/2", "8"),
        ("/pipelines/2", "99"),
    ):
        answer = api.delete(f"{path}?move_to={stage}")
        assert answer.status_code == 422
        assert answer.json["errors"][0]["parameter"] == "move_to"
    assert api.delete("/pipelines/1/stages/1?moveto=2").status_code == 422
    assert len(api.read("/pipelines/1/stages")) == 6


def test_deleting_a_stage_moves_its_deals_with_the_right_to_change_them(crm, api):
    deal = api.create("/deals", title="Крісла")
    writer = Api(crm, "acme", key_for(crm, "acme", "pipelines:write", TARAS))
    answer = writer.delete("/pipelines/1/stages/1?move_to=3")
    assert (answer.status_code, answer.json["scope"]) == (403, "deals:write")
    assert writer.delete("/pipelines/1/stages/2").status_code == 204
    answer = api.delete("/pipelines/1/stages/1?move_to=3")
    assert (answer.status_code, answer.data) == (204, b"")
    assert api.read(f"/deals/{deal}")["stage_id"] == "3"
    assert api.delete("/pipelines/1/stages/1").status_code == 404
    assert api.kinds() == ["deal.created", "deal.stage_changed"]


def test_a_deal_that_comes_to_a_stage_gets_its_task_once(api):
    stages = api.read("/pipelines/1")["stages"]
    stage, other = (f"/pipelines/1/stages/{one['id']}" for one in stages[:2])
    assert api.patch(stage, {"task_title": "Дзвінок", "task_type": "call"}).status_code == 200
    api.patch(other, {"task_title": "Замір", "task_within_days": 0})
    deal = f"/deals/{api.create('/deals', title='Кухня', assigned_to=str(TARAS))}"
    (call,) = api.read("/tasks")
    assert [call[name] for name in ("title", "type", "deal_id", "assigned_to", "due_at")] == [
        *("Дзвінок", "call", "1", str(TARAS), "2026-03-03T21:59:59Z")
    ]
    for one in (1, 0, 1):
        api.patch(deal, {"stage_id": stages[one]["id"]})
    measure = api.read("/tasks")[0]
    assert (measure["title"], measure["due_at"]) == ("Замір", "2026-03-02T21:59:59Z")
    assert len(api.read("/tasks")) == 2
    assert api.kinds()[1:4] == ["task.created", "deal.stage_changed", "task.created"]
    file = "title,stage\nШафа,{}\n".format(stages[0]["name"])
    assert send(api, "deals", file).json["created"] == 1
    assert len(api.read("/tasks")) == 2
    for wrong in ({"task_within_days": 366}, {"task_type": "fax"}, {"task_title": "x" * 256}):
        assert api.patch(stage, wrong).status_code == 422
