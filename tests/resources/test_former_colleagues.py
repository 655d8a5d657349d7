"""Records for colleagues who have left: history names them, what is new is nobody's (D11)."""

import pytest

from crm.access import calendar_tokens
from crm.alerts import alerts
from crm.resources import handover, leads, users
from crm.resources.deals.csv_columns import DEALS
from crm.resources.leads.csv_columns import LEADS
from crm.spreadsheets import import_file, read_file
from crm.spreadsheets.options import ImportOptions
from tests.conftest import OLENA, TARAS, key_for
from tests.resources.test_inbound_hooks import LEAD as HOOK
from tests.resources.test_inbound_hooks import Sender

LEAD = {"name": "Марія", "phone": "0501234567"}
NEW = {
    "/leads": LEAD,
    "/clients": {"name": "Ромашка"},
    "/deals": {"title": "Столи"},
    "/tasks": {"title": "Дзвінок"},
}
each = pytest.mark.parametrize


def leave(crm) -> None:
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 0})


def kinds_of_alerts(crm) -> list[tuple[str, int | None]]:
    with crm.tenants.session("acme"):
        return [(alert.kind, alert.record_id) for alert in alerts.list_newest(OLENA)]


@each("path", NEW)
def test_a_new_record_for_a_former_colleague_is_nobodys_and_an_owner_is_alerted(crm, api, path):
    leave(crm)
    ids = [api.create(path, **NEW[path], assigned_to=str(TARAS)) for _ in range(2)]
    assert [api.read(f"{path}/{id}")["assigned_to"] for id in ids] == [None, None]
    assert kinds_of_alerts(crm).count(("without_access", TARAS)) == 1  # until it is seen
    if path == "/leads":
        assert kinds_of_alerts(crm).count(("lead_new", int(ids[0]))) == 1
    with crm.tenants.session("acme"):
        alerts.mark_seen(OLENA)
    api.create(path, **NEW[path], assigned_to=str(TARAS))
    assert kinds_of_alerts(crm).count(("without_access", TARAS)) == 2


@each(
    "path, history",
    [
        ("/leads", {"created_at": "2025-01-01T10:00:00Z"}),
        ("/leads", {"status": "unqualified"}),
        ("/deals", {"status": "won"}),
        ("/tasks", {"status": "done"}),
    ],
)
def test_history_names_a_former_colleague(crm, api, path, history):
    leave(crm)
    id = api.create(path, **NEW[path], **history, assigned_to=str(TARAS))
    assert api.read(f"{path}/{id}")["assigned_to"] == str(TARAS)
    assert ("without_access", TARAS) not in kinds_of_alerts(crm)


@each("path", NEW)
def test_a_change_gives_a_former_colleague_nothing_and_leaves_what_is_theirs(crm, api, path):
    theirs = api.create(path, **NEW[path], assigned_to=str(TARAS))
    other = api.create(path, **NEW[path], assigned_to=str(OLENA))
    leave(crm)
    answer = api.patch(f"{path}/{other}", {"assigned_to": str(TARAS)})
    assert answer.status_code == 422
    (fault,) = answer.json["errors"]
    assert (fault["pointer"], fault["code"]) == ("/assigned_to", "no_access")
    sent = {"assigned_to": str(TARAS), "external_id": "7"}
    assert api.patch(f"{path}/{theirs}", sent).json["assigned_to"] == str(TARAS)
    change = {"ids": [theirs, other], "set": {"assigned_to": str(TARAS)}, "expect": 2}
    refused = api.post(f"{path}/bulk", change).json["refusals"]
    assert refused == [{"code": "no_access", "count": 1, "ids": [other]}]


def test_a_merge_gives_a_former_colleague_nothing(crm, api):
    ids = [api.create("/leads", **LEAD) for _ in range(2)]
    leave(crm)
    sent = {"from_id": ids[1], "fields": {"assigned_to": {"value": str(TARAS)}}}
    answer = api.post(f"/leads/{ids[0]}/merge", sent)
    assert (answer.status_code, answer.json["errors"][0]["code"]) == (422, "no_access")


@each("convert", ["convert", "patch", "deal"])
def test_what_becomes_of_a_former_colleagues_lead_is_nobodys(crm, api, convert):
    id = api.create("/leads", **LEAD, assigned_to=str(TARAS))
    leave(crm)
    if convert == "convert":
        api.post(f"/leads/{id}/convert", {})
    elif convert == "patch":
        api.patch(f"/leads/{id}", {"status": "converted"})
    else:
        api.create("/deals", lead_id=id)
    lead = api.read(f"/leads/{id}")
    made = [api.read(f"/deals/{lead['deal_id']}"), api.read(f"/clients/{lead['client_id']}")]
    assert [lead["assigned_to"], *(one["assigned_to"] for one in made)] == [str(TARAS), None, None]
    assert ("without_access", TARAS) in kinds_of_alerts(crm)


def test_new_leads_of_a_file_are_nobodys_and_its_history_names_who_has_left(crm):
    leave(crm)
    file = (
        "name,phone,assigned_to,status,created_at\nНова,0501234567,Taras,,\n"
        "Закрита,0501234568,Taras,unqualified,\nДавня,0501234569,Taras,,2025-01-01T10:00:00Z\n"
    )
    with crm.tenants.session("acme"):
        import_file(read_file(file.encode(), LEADS))
        assigned = [leads.record.Lead.find(id).assigned_to for id in (1, 2, 3)]
        assert assigned == [None, TARAS, TARAS]
    assert kinds_of_alerts(crm).count(("without_access", TARAS)) == 1


def test_a_colleague_whom_an_import_has_added_keeps_the_records_of_later_files(crm):
    """Who has not come yet has not left: an owner gives them access when all is there."""
    file = b"title,assigned_to\nOne,Halyna\n"
    with crm.tenants.session("acme"):
        halyna = users.create({"name": "Halyna", "active": 0}).id
        import_file(read_file(file, DEALS, ImportOptions()))
        assert handover.count_open(halyna)["deals"] == 1


def test_hooks_pass_to_an_owner_and_their_leads_to_nobody(crm, taras, api):
    mapping = {**HOOK["mapping"], "At": "created_at"}
    defaults = {"assigned_to": "Taras"}
    hook = Sender(taras, **{**HOOK, "mapping": mapping, "defaults": defaults})
    leave(crm)
    body = {"Name": "Марія", "Phone": "0501234567", "At": "02.03.2026 10:00"}
    assert hook.send(body).status_code == 200
    assert ("without_access", TARAS) in kinds_of_alerts(crm)
    with crm.tenants.session("acme"):
        users.update(TARAS, {"active": 1})
    assert hook.send(body).status_code == 200
    made = [(lead["assigned_to"], lead["created_by"]) for lead in api.read("/leads")]
    assert made == [(str(TARAS), str(OLENA)), (None, str(OLENA))]


def test_keys_of_forms_pass_to_an_owner_and_the_calendar_ends(crm, api):
    form = key_for(crm, "acme", "leads:create", TARAS)
    with crm.tenants.session("acme"):
        calendar_tokens.create(TARAS)
        users.update(TARAS, {"active": 0})
        assert not calendar_tokens.exists(TARAS)
    headers = {"Authorization": f"Bearer {form}"}
    assert api.post("/leads", LEAD, headers=headers).status_code == 201
    assert api.read("/leads")[0]["created_by"] == str(OLENA)


def test_what_is_open_is_handed_over_and_the_undo_gives_it_back(crm, api):
    theirs = {path: api.create(path, **NEW[path], assigned_to=str(TARAS)) for path in NEW}
    done = api.create("/tasks", title="Зроблено", status="done", assigned_to=str(TARAS))
    leave(crm)
    with crm.tenants.session("acme"):
        assert handover.count_open(TARAS) == {"leads": 1, "deals": 1, "tasks": 1}
        batches = handover.hand_over(TARAS, OLENA)
        changed = {plural: answer["changed"] for plural, (answer, _) in batches.items()}
        assert changed == {"leads": 1, "deals": 1, "tasks": 1}
        assert set(handover.count_open(TARAS).values()) == {0}

    def assigned() -> dict[str, str]:
        return {path: api.read(f"{path}/{id}")["assigned_to"] for path, id in theirs.items()}

    assert assigned() == {"/leads": "1", "/clients": "2", "/deals": "1", "/tasks": "1"}
    assert api.read(f"/tasks/{done}")["assigned_to"] == str(TARAS)
    for answer, _ in batches.values():
        undone = api.post(f"/batches/{answer['batch_id']}/undo").json
        assert (undone["reversed"], undone["kept"]) == (1, 0)
    assert set(assigned().values()) == {str(TARAS)}


def test_the_undo_of_any_batch_gives_a_client_back_to_who_has_left(crm, api):
    id = api.create("/clients", name="Ромашка", assigned_to=str(TARAS))
    leave(crm)
    change = {"ids": [id], "set": {"assigned_to": None}, "expect": 1}
    batch_id = api.post("/clients/bulk", change).json["batch_id"]
    assert api.post(f"/batches/{batch_id}/undo").json["kept"] == 0
    assert api.read(f"/clients/{id}")["assigned_to"] == str(TARAS)
