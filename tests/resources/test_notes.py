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
