"""Leads (spec: Leads; D4, D5)."""

import pytest

from crm.errors import Conflict, Invalid
from crm.resources.leads.record import LEAD, Lead, create
from crm.tenancy.database import transaction


def test_phone_or_email_is_required(crm):
    with crm.tenants.visit("acme"), pytest.raises(Invalid, match="phone or an email"):
        create({"name": "Марія"})


def test_a_new_lead_is_new_and_unassigned(crm):
    with crm.tenants.visit("acme"):
        lead = LEAD.one(create({"name": "Марія", "phone": "+380671234567"}))
    assert (lead["status"], lead["assigned_to"], lead["source"]) == ("new", None, "api")


def test_converted_is_final(crm):
    with crm.tenants.visit("acme"):
        id = create({"name": "Марія", "phone": "+380671234567"})
        with transaction():
            lead = Lead.find(id)
            lead.put({"status": "converted"})
            with pytest.raises(Conflict) as refused:
                lead.change({"status": "new"})
    assert refused.value.code == "lead_already_converted"


def test_create_answers_ok_and_the_id_as_text(api):
    answer = api.post("/leads", {"name": "Марія", "email": "maria@example.com"})
    assert answer.status_code == 201
    assert answer.json == {"status": "ok", "lead_id": "1"}
    assert answer.headers["Location"] == "/api/v1/leads/1"


def test_a_form_loses_nothing(api):
    answer = api.post(
        "/leads", {"name": "Марія", "phone": "067 123 45 67", "amount": "many", "floor": 3}
    )
    lead = api.read(f"/leads/{answer.json['lead_id']}")
    assert lead["phone"] == "+380671234567"
    assert lead["amount"] is None
    assert lead["extra"] == {"amount": "many", "floor": 3}


def test_each_lead_has_its_event(api):
    id = api.create("/leads", name="Марія", phone="+380671234567")
    (event,) = api.events()
    assert event["type"] == "lead.created"
    assert event["data"] == {"lead": api.read(f"/leads/{id}")}
