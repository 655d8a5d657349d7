"""What verbs share: a transaction of their own, and an expected version.

The versions of leads, clients, deals, products and tasks: tests/resources/test_common.py.
"""

from functools import partial
from typing import Any

import pytest

from crm.errors import Invalid, Stale
from crm.outbox.subscriptions import Webhook
from crm.records import verbs
from crm.records.record import Record
from crm.resources import deals, leads, notes, users, webhooks
from crm.resources.clients import record as clients
from crm.resources.deals import deal_with_items, items
from crm.resources.pipelines import record as pipelines
from crm.resources.pipelines import removal
from crm.storage.session import current_session, row
from tests.conftest import TARAS
from tests.resources.refusals import refusal

PHONE = "+380671234567"


@pytest.fixture
def acme(acme):
    """A session at acme in Olena's name, with one record of each kind, whose id is 1."""
    leads.create({"name": "Марія", "phone": PHONE})
    clients.create({"name": "Ромашка", "contacts": [{"name": "Петро"}]})
    deals.create({"title": "Крісла"})
    items.create(1, {"name": "Стіл", "price": 100_0000})
    pipelines.create({"name": "Опт"})
    notes.create("lead", 1, {"text": "Дзвонила"})
    webhooks.create({"url": "https://erp.example.com/crm"})
    return acme


SERVICE = 2  # the pipeline that is not the default; its first stage is 7
Verb = tuple[type[Record], tuple[Any, ...], Any]  # the record, its ids in the path, the verb
UPDATES: dict[str, tuple[Verb, dict[str, Any]]] = {
    "item": ((items.DealItem, (1, 1), items.update), {"name": "Шафа"}),
    "user": ((users.User, (TARAS,), users.update), {"name": "Тарас"}),
    "pipeline": ((pipelines.Pipeline, (SERVICE,), pipelines.update), {"name": "Роздріб"}),
    "stage": ((pipelines.Stage, (SERVICE, 7), pipelines.update_stage), {"name": "Запит"}),
    "webhook": ((Webhook, (1,), webhooks.update), {"description": "ERP"}),
}
DELETIONS: dict[str, Verb] = {
    "item": (items.DealItem, (1, 1), items.delete),
    "pipeline": (pipelines.Pipeline, (SERVICE,), removal.delete),
    "stage": (pipelines.Stage, (SERVICE, 7), removal.delete_stage),
    "note": (notes.Note, ("lead", 1, 1), notes.delete),
    "webhook": (Webhook, (1,), partial(verbs.erase, Webhook)),
}


@pytest.mark.parametrize("noun", UPDATES)
def test_an_update_of_another_version_than_expected_is_refused(acme, noun):
    (record, ids, update), data = UPDATES[noun]
    version = record.find(ids[-1]).version
    for other in (version - 1, version + 1):
        with pytest.raises(Stale):
            update(*ids, data, other)
    assert record.find(ids[-1]).version == version
    assert update(*ids, data, version).version == version + 1
    with pytest.raises(Stale):
        update(*ids, {name: f"{value}!" for name, value in data.items()}, version)
    ((name, value),) = data.items()
    assert getattr(record.find(ids[-1]), name) == value
    assert update(*ids, data, None).version == version + 1  # nothing differs
    assert not current_session().in_transaction


@pytest.mark.parametrize("noun", DELETIONS)
def test_a_deletion_of_another_version_than_expected_is_refused(acme, noun):
    record, ids, delete = DELETIONS[noun]
    version = record.find(ids[-1]).version
    with pytest.raises(Stale):
        delete(*ids, expected_version=version + 1)
    assert record.find(ids[-1]).version == version
    delete(*ids, expected_version=version)
    assert not current_session().in_transaction


def test_a_contact_and_the_list_of_items_expect_a_version_too(acme):
    contact = clients.Client.find(1).list_contacts()[0]
    with pytest.raises(Stale):
        clients.update_contact(1, contact.id, {"name": "Павло"}, contact.version + 1)
    with pytest.raises(Stale):
        clients.delete_contact(1, contact.id, contact.version + 1)
    changed = clients.update_contact(1, contact.id, {"name": "Павло"}, contact.version)
    assert (changed.name, changed.version) == ("Павло", contact.version + 1)
    version = deals.Deal.find(1).version
    with pytest.raises(Stale):
        items.replace(1, [], version + 1)
    assert items.replace(1, [], version).version == version + 1


def test_a_refused_verb_leaves_nothing(acme):
    with pytest.raises(Invalid):  # the deal is created, then its items are refused
        deal_with_items.create({"title": "Кухня"}, [{"name": "Стіл"}])
    assert row("SELECT count(*) FROM deal") == (1,)


def test_a_deal_with_items_that_names_a_lead_converts_it(acme, api):
    before = len(api.events())
    entries = [{"name": "Стіл", "price": 100_0000}]
    id = deal_with_items.create({"lead_id": 1, "title": "Кухня"}, entries)
    lead, deal = leads.Lead.find(1), deals.Deal.find(id)
    assert (lead.status, lead.deal_id, deal.lead_id) == ("converted", id, 1)
    assert deal.client_id == lead.client_id is not None
    kinds = ["client.created", "deal.created", "lead.converted", "deal.items_changed"]
    assert api.kinds()[before:] == kinds
    assert refusal(deals.create, {"lead_id": 1}) == "lead_already_converted"


def test_a_null_deal_id_is_a_conversion_into_a_new_deal(acme):
    lead, is_new = leads.convert(1, {"deal_id": None, "title": "Кухня"})
    assert is_new and deals.Deal.find(lead.deal_id).title == "Кухня"
