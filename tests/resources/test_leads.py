"""Leads (spec: Leads; D4, D5)."""

import pytest

from crm.errors import Conflict
from crm.resources.leads.conversion import update
from crm.resources.leads.record import Lead, create
from crm.storage.session import transaction
from tests.resources.refusals import faults


def test_converted_is_final(crm):
    with crm.tenants.session("acme"):
        id = create({"name": "Марія", "phone": "+380671234567"})
        with transaction():
            lead = Lead.find(id)
            lead.save_changes({"status": "converted"})
            with pytest.raises(Conflict) as refused:
                update(id, {"status": "new"})
    assert refused.value.code == "lead_already_converted"


def test_the_lost_reason_ends_with_the_loss(crm):
    with crm.tenants.session("acme"):
        lost = {"status": "unqualified", "lost_reason": "задорого"}
        id = create({"name": "Марія", "phone": "+380671234567", **lost})
        assert update(id, {"comment": "дзвонив"}).lost_reason == "задорого"
        # Also if the whole record is sent back.
        assert update(id, {**lost, "status": "new"}).lost_reason is None
        assert update(id, {"status": "unqualified"}).lost_reason is None


def test_an_empty_lead_is_told_all_that_it_needs(api):
    assert faults(api.post("/leads", {})) == [
        ("/name", "required"),
        ("/phone", "phone_or_email"),
        ("/email", "phone_or_email"),
    ]


def test_a_nameless_lead_with_a_phone_is_told_of_its_name_only(api):
    for phone in ("067 123 45 67", "12"):
        codes = {e["code"] for e in api.post("/leads", {"phone": phone}).json["errors"]}
        assert "phone_or_email" not in codes and "required" in codes


def test_a_form_loses_nothing(api):
    answer = api.post(
        "/leads", {"name": "Марія", "phone": "067 123 45 67", "amount": "many", "floor": 3}
    )
    lead = api.read(f"/leads/{answer.json['lead_id']}")
    assert lead["phone"] == "+380671234567"
    assert lead["amount"] is None
    assert lead["extra"] == {"amount": "many", "floor": 3}


def test_a_lead_for_nobody_known_is_kept_unassigned(api):
    for unknown in ("77", "abc"):
        id = api.create("/leads", name="Марія", phone="+380671234567", assigned_to=unknown)
        lead = api.read(f"/leads/{id}")
        assert (lead["assigned_to"], lead["extra"]) == (None, {"assigned_to": unknown})


def test_nothing_sent_is_nothing_kept(api):
    id = api.create("/leads", name="Марія", phone="+380671234567", status=None, currency=None)
    lead = api.read(f"/leads/{id}")
    assert (lead["status"], lead["currency"], lead["extra"]) == ("new", "UAH", {})


def test_a_known_external_id_tells_whose_it_is(api):
    id = api.create("/leads", name="Марія", phone="+380671234567", external_id="A-1")
    answer = api.post("/leads", {"name": "Ганна", "phone": "+380671234568", "external_id": "A-1"})
    assert (answer.status_code, answer.json["code"], answer.json["id"]) == (
        *(409, "duplicate_external_id"),
        id,
    )
