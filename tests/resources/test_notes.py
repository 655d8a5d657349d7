"""Notes of leads, clients and deals (D17)."""

import pytest

from crm.resources.deals import record as deals

LEAD, CLIENT, DEAL = "/leads/1", "/clients/1", "/deals/1"


@pytest.fixture
def acme(crm, api):
    """A lead, a client and a deal at acme, each with the id 1."""
    api.create("/leads", name="Марія", phone="0671110001")
    api.create("/clients", name="Ромашка")
    with crm.tenants.session("acme"):
        deals.create({"client_id": 1})


@pytest.mark.parametrize("path", [LEAD, CLIENT, DEAL])
def test_a_note_is_written_read_and_deleted(acme, api, taras, clock, path):
    version = api.read(path)["version"]
    answer = taras.post(f"{path}/notes", {"text": " Передзвонити\r\nпісля 15:00 "})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "note_id": "1"})
    note = {
        "id": "1",
        "text": "Передзвонити\nпісля 15:00",
        "user_id": "2",
        "pinned": False,
        "former_texts": [],
        "created_at": "2026-03-02T09:00:00Z",
        "updated_at": "2026-03-02T09:00:00Z",
        "version": 1,
    }
    assert api.read(answer.headers["Location"].removeprefix("/api/v1")) == note
    assert api.read(f"{path}/notes") == [note]
    for other in {LEAD, CLIENT, DEAL} - {path}:
        assert api.read(f"{other}/notes") == []
        assert api.get(f"{other}/notes/1").status_code == 404
        assert api.delete(f"{other}/notes/1").status_code == 404
    assert (api.read(path)["version"], api.read(f"{path}/changes")) == (version, [])
    assert api.delete(f"{path}/notes/1").status_code == 204
    assert api.delete(f"{path}/notes/1").status_code == 404
    assert api.read(f"{path}/notes") == []
    assert not [kind for kind in api.kinds() if not kind.endswith("created")]


def test_notes_of_a_deleted_record_are_not_there(acme, api):
    note = f"{LEAD}/notes/{api.create(f'{LEAD}/notes', text='x')}"
    assert api.delete(LEAD).status_code == 204
    for answer in (
        api.get(f"{LEAD}/notes"),
        api.post(f"{LEAD}/notes", {"text": "y"}),
        api.get(note),
        api.delete(note),
    ):
        assert answer.status_code == 404


def test_a_changed_note_keeps_its_former_texts(acme, api, taras, clock):
    path = f"{LEAD}/notes/{api.create(f'{LEAD}/notes', text='Дзвонити')}"
    version = api.read(LEAD)["version"]
    clock.tick(60)
    changed = taras.patch(path, {"text": "Дзвонити о 15:00"}).json
    former = {"text": "Дзвонити", "user_id": "2", "at": "2026-03-02T09:01:00Z"}
    assert (changed["text"], changed["user_id"]) == ("Дзвонити о 15:00", "1")
    assert (changed["former_texts"], changed["version"]) == ([former], 2)
    pinned = api.patch(path, {"pinned": True}).json
    assert (pinned["pinned"], pinned["former_texts"], pinned["version"]) == (True, [former], 3)
    entry = api.read(f"{LEAD}/timeline?kind=note")[0]
    assert (entry["text"], entry["status"]) == ("Дзвонити о 15:00", "edited")
    assert (api.read(LEAD)["version"], api.read(f"{LEAD}/changes")) == (version, [])
    for sent in ({"text": ""}, {"text": None}, {"pinned": None}, {"former_texts": []}):
        assert api.patch(path, sent).status_code == 422
    assert api.patch(f"{CLIENT}/notes/1", {"text": "Чуже"}).status_code == 404
