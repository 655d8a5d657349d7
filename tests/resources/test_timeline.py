"""The timeline of a record: what happened with it, the newest first, in pages."""

import io
import re

import pytest
from werkzeug.datastructures import MultiDict

from crm.resources import AUDITED_VIEWS, timeline
from crm.storage.session import rows
from tests.conftest import OLENA, Api, key_for


def entries(api, path, **parameters):
    """(kind, and what tells it) of all entries, page by page."""
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return api.walk(f"{path}/timeline?{query}")


def told(found):
    return [
        (entry["kind"], entry["text"] or entry["title"] or entry["after"].get("stage"))
        for entry in found
    ]


@pytest.fixture
def deal(api, clock):
    """The id of a deal made of a lead; something happens with it each minute."""

    def minute():
        clock.tick(60)

    lead = api.create(
        "/leads", name="Марія", phone="+380501234567", comment="Хочу кухню", extra={"колір": "дуб"}
    )
    minute()
    api.create(f"/leads/{lead}/notes", text="Не відповіла")
    minute()
    deal = api.post(f"/leads/{lead}/convert", {}).json["deal_id"]
    minute()
    api.create(f"/deals/{deal}/notes", text="Просить знижку")
    minute()
    task = api.create("/tasks", title="Замір", type="call", deal_id=deal)
    minute()
    api.patch(f"/deals/{deal}", {"stage_id": "2"})
    minute()
    api.post(f"/tasks/{task}/complete", {"result": "Чекає у четвер"})
    minute()
    api.patch(f"/deals/{deal}", {"comment": "Поверх 3"})
    return deal


def test_a_deal_shows_all_that_happened_with_it_and_its_lead(api, deal):
    found = entries(api, f"/deals/{deal}")
    assert [kind for kind, _ in told(found)] == [
        *("change", "task", "stage", "change", "note", "stage", "note", "lead")
    ]
    change, task, stage, _, note, first, of_lead, lead = found
    assert change["after"] == {"comment": "Поверх 3"} and change["before"] == {
        "comment": "Хочу кухню"
    }
    assert (task["title"], task["text"], task["status"]) == ("Замір", "Чекає у четвер", "done")
    assert (stage["before"], stage["after"]) == ({"stage": "New"}, {"stage": "Qualified"})
    told_note = (note["text"], note["resource"], note["user_id"])
    assert told_note == ("Просить знижку", "deals", str(OLENA))
    assert (first["before"], first["after"]) == ({}, {"stage": "New"})
    told_note = (of_lead["text"], of_lead["resource"], of_lead["record_id"])
    assert told_note == ("Не відповіла", "leads", "1")
    assert (lead["text"], lead["after"]) == ("Хочу кухню", {"колір": "дуб"})
    notes = entries(api, f"/deals/{deal}", kind="note")
    assert told(notes) == [("note", "Просить знижку"), ("note", "Не відповіла")]
    assert api.get(f"/deals/{deal}/timeline?kind=gone").status_code == 422
    # Its client shows its deals and the notes of its leads.
    client = api.read(f"/deals/{deal}")["client_id"]
    assert told(entries(api, f"/clients/{client}")) == [
        ("deal", "Марія"),
        ("note", "Не відповіла"),
        ("lead", "Хочу кухню"),
    ]


@pytest.mark.parametrize("limit", [1, 3])
def test_pages_lose_and_repeat_nothing_even_in_one_second(api, deal, limit):
    for number in range(4):
        api.create(f"/deals/{deal}/notes", text=f"Нотатка {number}")
        api.patch(f"/deals/{deal}", {"comment": f"Зміна {number}"})
        api.create("/tasks", title=f"Завдання {number}", deal_id=deal)
    whole = entries(api, f"/deals/{deal}", limit=200)
    assert len(whole) == 20
    assert [entry["at"] for entry in whole] == sorted(
        (entry["at"] for entry in whole), reverse=True
    )
    assert entries(api, f"/deals/{deal}", limit=limit) == whole


def test_what_the_key_may_not_read_is_left_out(crm, deal):
    narrow = Api(crm, "acme", key_for(crm, "acme", "deals:read"))
    kinds = {kind for kind, _ in told(entries(narrow, f"/deals/{deal}"))}
    assert kinds == {"change", "stage", "note"}
    assert [entry["resource"] for entry in entries(narrow, f"/deals/{deal}", kind="note")] == [
        "deals"
    ]
    assert narrow.get("/leads/1/timeline").status_code == 403


def test_a_deleted_record_has_none_and_deleted_parts_are_left_out(api, deal):
    api.delete("/tasks/1")
    assert "task" not in {kind for kind, _ in told(entries(api, f"/deals/{deal}"))}
    api.delete("/leads/1")
    assert "lead" not in {kind for kind, _ in told(entries(api, f"/deals/{deal}"))}
    api.delete(f"/deals/{deal}")
    assert api.get(f"/deals/{deal}/timeline").status_code == 404


@pytest.mark.files
def test_each_arm_of_the_timeline_walks_along_an_index(crm, deal, monkeypatch):
    statements = []
    read = timeline.BoundedRows.read

    def noted(page, sql, params):
        statements.append((sql, params))
        read(page, sql, params)

    monkeypatch.setattr(timeline.BoundedRows, "read", noted)
    with crm.tenants.session("acme"):
        for noun in ("leads", "clients", "deals", "tasks"):
            timeline.of_record(AUDITED_VIEWS[noun], 1, timeline.TIMELINE_FILTER.read(MultiDict()))
        plans = [
            step[3]
            for sql, params in statements
            for step in rows(f"EXPLAIN QUERY PLAN {sql}", params)
        ]
    scans = [plan for plan in plans if re.match(r"SCAN (?!\(subquery|entries|arm_)", plan)]
    assert scans == []
    # Only what is of several leads, or of one client or lead, is sorted, besides the whole.
    used = {match[1] for plan in plans if (match := re.search(r"INDEX (\w+)", plan))}
    assert {"note_time", "audit_entry_time", "task_deal_time", "stage_move_time"} <= used


def test_an_import_is_told(api):
    file = (io.BytesIO("name\nРомашка\n".encode()), "clients.csv")
    assert api.call("POST", "/clients/import", data={"file": file}).status_code == 200
    found = entries(api, "/clients/1")
    assert [(entry["kind"], entry["status"]) for entry in found] == [("import", "created")]
