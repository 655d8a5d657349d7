"""Proposals: a change that a program asks for and a person decides."""

import pytest

from crm.access import api_keys
from crm.errors import Conflict, Forbidden
from crm.resources import proposals, users
from crm.resources.proposals import Proposal
from crm.resources.users import User
from crm.storage.session import current_session, execute, transaction
from crm.storage.sweeps import run as sweep
from tests.cases import loop_over
from tests.concurrency import run_in_threads
from tests.conftest import OLENA, TARAS, Api, key_for

TO_TARAS = {"assigned_to": str(TARAS)}
WHY = "Ніхто не відповів"
RIGHTS = "leads:read,leads:write"


@pytest.fixture
def leads(api) -> list[str]:
    return [api.create("/leads", name=name, phone="+380671234567") for name in ("А", "Б", "В")]


@pytest.fixture
def assistant(crm) -> Api:
    """A key of Taras, with the rights to leads alone."""
    return Api(crm, "acme", key_for(crm, "acme", RIGHTS, TARAS))


def propose(api, status=201, **sent):
    answer = api.post("/proposals", {"resource": "leads", "why": WHY, **sent})
    assert answer.status_code == status, answer.text
    return answer.json


def accept(crm, id, expect, user_id=OLENA):
    with crm.tenants.session("acme") as session:
        session.user_id = user_id
        done = Proposal.find_open(id).accept(expect)
        assert session.scopes is None  # the rights of the key end with the change
        return done


def test_a_proposal_changes_nothing_and_tells_what_it_would_do(api, assistant, leads):
    before = len(api.events())
    answer = propose(assistant, ids=leads[:2], set=TO_TARAS)
    assert (answer["count"], answer["refused"]) == (2, 0)
    assert [one["name"] for one in answer["samples"]] == ["А", "Б"]
    proposal = api.read(f"/proposals/{answer['proposal_id']}")
    key = assistant.read("/users/me")["key"]
    shown = {"resource": "leads", "state": "open", "why": WHY, "count": 2, "user_id": "2"}
    shown |= {"key_id": key["id"], "batch_id": None, "decided_by": None}
    shown["change"] = {"ids": leads[:2], "set": TO_TARAS}
    assert {name: proposal[name] for name in shown} == shown
    assert api.read("/proposals") == [proposal]
    assert len(api.events()) == before and api.read("/batches") == []
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] is None


def test_an_accepted_one_is_a_batch_of_the_person_that_can_be_undone(crm, api, assistant, leads):
    id = propose(assistant, where={"status": "new"}, set=TO_TARAS)["proposal_id"]
    answer, goes_on = accept(crm, id, 3)
    assert (answer["changed"], goes_on) == (3, False)
    proposal = api.read(f"/proposals/{id}")
    batch = api.read(f"/batches/{answer['batch_id']}")
    assert (proposal["state"], proposal["batch_id"]) == ("applied", batch["id"])
    assert (proposal["decided_by"], proposal["decided_at"]) == ("1", "2026-03-02T09:00:00Z")
    assert (batch["kind"], batch["user_id"], batch["key_id"]) == ("bulk", "1", None)
    (change,) = api.read(f"/leads/{leads[0]}/changes")
    assert (change["user_id"], change["key"]) == ("1", None)
    api.post(f"/batches/{batch['id']}/undo")
    assert api.read(f"/leads/{leads[0]}")["assigned_to"] is None


def test_it_is_decided_once_however_often_it_is_accepted_at_once(crm, api, assistant, leads):
    id = propose(assistant, where={}, action="add_tag", tag="vip")["proposal_id"]

    def try_to_accept(_):
        try:
            return accept(crm, id, 3) and "done"
        except Conflict as error:
            return error.code

    assert sorted(run_in_threads(4, try_to_accept)) == ["done"] + ["proposal_decided"] * 3
    assert len(api.read("/batches")) == 1
    with crm.tenants.session("acme"), pytest.raises(Conflict):
        proposals.decline(id)


def test_a_declined_one_is_not_done(crm, api, assistant, leads):
    id = propose(assistant, ids=leads, action="delete")["proposal_id"]
    with crm.tenants.session("acme") as session:
        session.user_id = OLENA
        proposals.decline(id)
    proposal = api.read(f"/proposals/{id}")
    assert (proposal["state"], proposal["decided_by"]) == ("declined", "1")
    with pytest.raises(Conflict):
        accept(crm, id, 3)
    assert len(api.read("/leads")) == 3


# Rights


def test_the_rights_of_the_key_bound_what_an_accepted_change_may_do(crm, api, leads):
    """Its own scopes at the time of the decision: here it has none for the leads any more."""
    assistant = Api(crm, "acme", key_for(crm, "acme", RIGHTS, TARAS))
    id = propose(assistant, ids=leads, set=TO_TARAS)["proposal_id"]
    with crm.tenants.session("acme"):
        key = api_keys.list_all()[-1]
        with transaction():
            execute("UPDATE api_key SET scopes = 'leads:read' WHERE id = ?", (key.id,))
    with pytest.raises(Forbidden, match="leads:write"):
        accept(crm, id, 3)


@loop_over("ends", ["revoked", "user"])
def test_a_key_that_has_ended_changes_nothing(crm, api, ends):
    id = api.create("/leads", name=ends, phone="+380671234567")
    assistant = Api(crm, "acme", key_for(crm, "acme", RIGHTS, TARAS))
    proposal_id = propose(assistant, ids=[id], set=TO_TARAS)["proposal_id"]
    with crm.tenants.session("acme"):
        if ends == "revoked":
            api_keys.list_all()[-1].revoke()
        else:
            with transaction():
                User.find(TARAS).save_changes({"active": 0})
    with pytest.raises(Conflict) as raised:
        accept(crm, proposal_id, 1)
    assert raised.value.code == "proposal_key_ended"
    with crm.tenants.session("acme"):
        assert current_session().scopes is None


@loop_over("scopes", ["leads:read", "leads:write", "clients:read,clients:write", "leads:create"])
def test_a_key_proposes_what_it_could_do_itself(crm, api, scopes):
    api.create("/leads", name="А", phone="+380671234567")
    assistant = Api(crm, "acme", key_for(crm, "acme", scopes))
    assert propose(assistant, 403, ids=["1"], set=TO_TARAS)["code"] == "missing_scope"
    assert api.read("/proposals") == []


def test_a_key_sees_proposals_of_what_it_may_read(crm, api, assistant, leads):
    id = propose(assistant, ids=leads, set=TO_TARAS)["proposal_id"]
    other = Api(crm, "acme", key_for(crm, "acme", "clients:read"))
    assert other.read("/proposals") == []
    assert other.get(f"/proposals/{id}").status_code == 403
    assert other.get("/proposals/77").status_code == 404
    none = Api(crm, "acme", key_for(crm, "acme", "users:read"))
    assert none.get("/proposals").status_code == none.get(f"/proposals/{id}").status_code == 403


# Applying by a key


@pytest.fixture
def applying(crm) -> Api:
    return Api(crm, "acme", key_for(crm, "acme", f"{RIGHTS},agents:apply", TARAS))


def test_a_key_that_may_applies_few_records_itself(api, applying, leads):
    answer = propose(applying, ids=leads, set=TO_TARAS, apply=True)
    assert answer["changed"] == 3
    proposal = api.read(f"/proposals/{answer['proposal_id']}")
    assert (proposal["state"], proposal["batch_id"]) == ("applied", answer["batch_id"])
    assert (proposal["decided_by"], proposal["key_id"]) == ("2", proposal["key_id"])
    assert api.read(f"/leads/{leads[2]}")["assigned_to"] == str(TARAS)
    applying.post(f"/batches/{answer['batch_id']}/undo")
    assert api.read(f"/leads/{leads[2]}")["assigned_to"] is None


def test_more_records_wait_for_a_person(api, applying, leads, monkeypatch):
    monkeypatch.setattr(proposals, "MAX_APPLIED", len(leads) - 1)
    answer = propose(applying, 409, where={}, set=TO_TARAS, apply=True)
    assert answer["code"] == "too_many_records"
    assert api.read("/proposals") == api.read("/batches") == []
    api.delete("/leads/1")
    assert propose(applying, where={}, set=TO_TARAS, apply=True)["changed"] == len(leads) - 1


# What may be proposed, and for how long


@loop_over(
    ("sent", "pointer"),
    [
        ({"set": TO_TARAS}, "/where"),
        ({"ids": ["1"], "set": {"status": "lost"}}, "/set/status"),
        ({"ids": ["1"], "set": TO_TARAS, "why": " "}, "/why"),
        ({"ids": ["1"], "set": TO_TARAS, "expect": 1}, "/expect"),
    ],
)
def test_what_cannot_be_done_is_not_proposed(api, sent, pointer):
    assert propose(api, 422, **sent)["errors"][0]["pointer"] == pointer
    assert api.read("/proposals") == []


def test_a_loop_does_not_fill_the_list(crm, assistant, leads, monkeypatch):
    monkeypatch.setattr(proposals, "MAX_OPEN", 1)
    id = propose(assistant, ids=leads, set=TO_TARAS)["proposal_id"]
    answer = propose(assistant, 409, ids=leads, set=TO_TARAS)
    assert answer["code"] == "too_many_proposals"
    with crm.tenants.session("acme"):
        proposals.decline(id)
    propose(assistant, ids=leads, set=TO_TARAS)


def test_a_proposal_is_kept_for_30_days(crm, api, assistant, leads, clock):
    propose(assistant, ids=leads, set=TO_TARAS)
    for days, kept in ((30, 1), (1, 0)):
        clock.tick(days * 86_400)
        with crm.tenants.session("acme", sweeps_expired=False):
            sweep()
            assert len(Proposal.every("TRUE")) == kept


def test_a_proposal_that_names_an_erased_person_is_deleted(api, assistant, leads):
    id = api.create("/clients", name="Zinaida Qvitkova", phone="+380509876543")
    named = propose(assistant, where={"q": "Zinaida Qvitkova"}, set=TO_TARAS)["proposal_id"]
    why = "Zinaida Qvitkova asked for it"
    also_named = propose(assistant, ids=leads, set=TO_TARAS, why=why)["proposal_id"]
    other = propose(assistant, ids=leads, set=TO_TARAS)["proposal_id"]
    assert [one["id"] for one in api.read("/proposals")] == [other, also_named, named]
    answer = api.post(f"/clients/{id}/erase")
    assert answer.status_code == 200, answer.text
    assert answer.json["erased"]["proposals"] == 2
    assert [one["id"] for one in api.read("/proposals")] == [other]


def test_who_sees_own_records_only_proposes_nothing(crm, api, assistant, leads):
    with crm.tenants.session("acme"), transaction():
        _, secret = api_keys.create("own", RIGHTS, TARAS, own=True)
    limited = Api(crm, "acme", secret)
    sent = {"resource": "leads", "why": WHY, "ids": leads, "set": TO_TARAS}
    answer = limited.post("/proposals", sent)
    assert (answer.status_code, answer.json["code"]) == (403, "own_records_only")
    other = propose(api, ids=leads, set=TO_TARAS)["proposal_id"]
    assert limited.get(f"/proposals/{other}").status_code == 404
    before = propose(assistant, ids=leads, set=TO_TARAS)["proposal_id"]
    with crm.tenants.session("acme"):
        users.update(str(TARAS), {"role": "seller"})
    with pytest.raises(Conflict, match="has ended"):
        accept(crm, before, len(leads))
