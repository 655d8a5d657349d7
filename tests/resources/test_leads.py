"""Leads (spec: Leads; D4, D5)."""

import pytest

from crm.errors import Conflict
from crm.resources.leads.conversion import update
from crm.resources.leads.record import Lead, create
from crm.storage.session import transaction
from tests.cases import loop_over
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


def test_an_empty_lead_is_told_all_that_it_needs_and_one_with_a_phone_of_its_name_only(api):
    assert faults(api.post("/leads", {})) == [
        ("/name", "required"),
        ("/phone", "phone_or_email"),
        ("/email", "phone_or_email"),
    ]
    for phone in ("067 123 45 67", "12"):
        codes = {code for _, code in faults(api.post("/leads", {"phone": phone}))}
        assert "phone_or_email" not in codes and "required" in codes


@loop_over(
    ("sent", "shown"),
    [
        ({"amount": "many", "floor": 3}, {"amount": None, "extra": {"amount": "many", "floor": 3}}),
        # For nobody known it is kept unassigned.
        ({"assigned_to": "77"}, {"assigned_to": None, "extra": {"assigned_to": "77"}}),
        ({"assigned_to": "abc"}, {"assigned_to": None, "extra": {"assigned_to": "abc"}}),
        ({"status": None, "currency": None}, {"status": "new", "currency": "UAH", "extra": {}}),
    ],
)
def test_a_lead_loses_nothing_that_was_sent(api, sent, shown):
    id = api.create("/leads", name="Марія", phone="067 123 45 67", **sent)
    lead = api.read(f"/leads/{id}")
    assert {name: lead[name] for name in ("phone", *shown)} == {"phone": "+380671234567"} | shown
