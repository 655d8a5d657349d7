"""Users (spec: Pipelines and users; D11, D12)."""

import pytest

from crm.errors import Conflict, NotFound
from crm.resources import users
from crm.resources.users import USER
from crm.storage.session import transaction
from tests.conftest import OLENA, TARAS
from tests.resources.refusals import refusal


def change(id, **data):
    with transaction():
        users.update(id, data)


# Rules


def test_a_new_user_is_an_active_manager(acme):
    user = USER.one(users.create({"name": "Марія"}).id)
    assert (user["role"], user["active"], user["email"]) == ("manager", True, None)


def test_no_two_users_have_the_same_phone_or_email(acme):
    for taken in ({"phone": "+380501110001"}, {"email": "OLENA@acme.example"}):
        assert refusal(users.create, {"name": "Марія", **taken}) == "duplicate_user"
        assert refusal(change, TARAS, **taken) == "duplicate_user"
    change(OLENA, phone="+380501110001", email="Olena@acme.example")
    assert USER.one(OLENA)["email"] == "Olena@acme.example"


def test_there_is_always_an_active_owner(acme):
    for data in ({"role": "manager"}, {"active": 0}):
        assert refusal(change, OLENA, **data) == "last_owner"
    change(TARAS, role="owner")
    change(OLENA, active=0)
    assert users.owner_id() == TARAS
    with pytest.raises(Conflict):
        change(TARAS, role="viewer")


# Endpoints


def test_filters_and_sorting(crm, api):
    with crm.tenants.session("acme"):
        users.create({"name": "Марія", "role": "viewer"})
        change(TARAS, active=0)
    expected = {
        "": "Olena Taras Марія",
        "active=true": "Olena Марія",
        "active=false": "Taras",
        "role=owner": "Olena",
        "role=owner&role=viewer": "Olena Марія",
        "role=viewer&active=false": "",
        "sort=-name": "Taras Olena Марія",
        "sort=-id": "Марія Taras Olena",
    }
    results = {query: [user["name"] for user in api.read(f"/users?{query}")] for query in expected}
    assert {query: " ".join(names) for query, names in results.items()} == expected


def test_me_is_the_user_of_the_key_with_key_and_tenant(api, taras):
    me = taras.get("/users/me").json
    assert me == {
        **api.read("/users")[1],
        "key": {"id": "2", "name": "tests", "scopes": ["*"], "own": False},
        "tenant": {"name": "Acme", "plan": "business"},
    }


# Finding one


def test_a_user_is_found_by_what_reaches_him(acme):
    for text in ("050 111-00-01", "+380501110001", "OLENA@acme.example "):
        assert users.reached_at(text).id == users.named(text).id == OLENA
    for text in ("", "olena", "1", "+380999999999", "@", "a@b.cd", "\x00", "x" * 999):
        assert users.reached_at(text) is None
    change(TARAS, active=0)
    assert users.reached_at("+380501110002") is None
    for text in ("2", "+380501110002"):
        with pytest.raises(NotFound, match="there is no active user"):
            users.named(text)
