"""Conversion of leads into deals: one rule behind three doors (spec: Leads, Deals; D5)."""

import pytest

from crm.resources.clients import record as clients
from crm.resources.clients.record import CLIENT
from crm.resources.deals import record as deals
from crm.resources.deals.record import DEAL, Deal
from crm.resources.leads import conversion
from crm.resources.leads import record as leads
from crm.resources.leads.record import LEAD
from crm.storage.session import execute, row, transaction
from tests.conftest import TARAS, Api, key_for
from tests.resources.refusals import refusal

NEW, PROPOSAL = 1, 3  # stages of the pipeline Sales
START = "2026-03-02T09:00:00Z"  # by the cast's clock
PHONE, EMAIL = "+380671234567", "maria@example.com"


def a_lead(**more):
    return leads.create({"name": "Марія", "phone": PHONE, "email": EMAIL, **more})


def converted(id, **wanted):
    """(lead, deal, client) after the conversion, as they are shown."""
    lead, is_new = conversion.convert(id, wanted)
    assert is_new
    return LEAD.one(id), DEAL.one(lead.deal_id), CLIENT.one(lead.client_id)


# Rules


def test_a_lead_becomes_a_deal_of_a_new_client(acme):
    unqualified = a_lead(source="site-form", status="unqualified", lost_reason="задорого")
    lead, deal, client = converted(unqualified)
    assert (lead["status"], lead["converted_at"]) == ("converted", START)
    assert lead["lost_reason"] is None
    assert (lead["deal_id"], lead["client_id"]) == (deal["id"], client["id"])
    assert (deal["lead_id"], deal["client_id"]) == (lead["id"], client["id"])
    assert (deal["title"], deal["stage_id"], deal["status"]) == ("Марія", str(NEW), "open")
    assert (client["type"], client["name"]) == ("person", "Марія")
    assert (client["phone"], client["email"], client["contacts"]) == (PHONE, EMAIL, [])
    assert client["source"] == "site-form"


def test_a_lead_of_a_company_becomes_the_companys_contact(acme):
    _, deal, client = converted(a_lead(company="ТОВ Ромашка", position="директорка"))
    assert (client["type"], client["name"]) == ("company", "ТОВ Ромашка")
    assert (client["phone"], client["email"]) == (None, None)
    (contact,) = client["contacts"]
    assert (contact["name"], contact["position"]) == ("Марія", "директорка")
    assert (contact["phone"], contact["email"], contact["is_primary"]) == (PHONE, EMAIL, True)
    assert (deal["title"], deal["contact_id"]) == ("ТОВ Ромашка", contact["id"])


def test_what_the_lead_tells_goes_to_the_deal(acme):
    results = {"amount": 500_5000, "currency": "EUR", "source": "ads", "comment": "Терміново"}
    lead, deal, client = converted(a_lead(**results, tags='["опт"]', assigned_to=TARAS))
    for name in ("amount", "currency", "source", "comment", "tags", "assigned_to"):
        assert deal[name] == lead[name] is not None
    assert client["assigned_to"] == str(TARAS)


def test_what_is_wanted_goes_before_what_the_lead_tells(acme):
    _, deal, _ = converted(
        a_lead(amount=500_0000, assigned_to=TARAS),
        title="Крісла",
        stage_id=PROPOSAL,
        amount=7_0000,
        assigned_to=None,
    )
    assert (deal["title"], deal["stage_id"]) == ("Крісла", str(PROPOSAL))
    assert (deal["amount"], deal["assigned_to"]) == (7, None)


def test_the_client_with_the_same_email_is_used_again(acme):
    by_phone = clients.create({"name": "Телефон", "phone": PHONE})
    by_email = clients.create({"name": "Пошта", "email": EMAIL.upper()})
    _, deal, client = converted(a_lead())
    assert client["id"] == str(by_email)
    assert (deal["title"], deal["contact_id"]) == ("Пошта", None)
    _, _, client = converted(a_lead(email=None))
    assert client["id"] == str(by_phone)
    assert row("SELECT count(*) FROM client") == (2,)


def test_a_clients_contact_counts_too(acme):
    people = [
        {"name": "Петро"},
        {"name": "Марія", "email": EMAIL},
        {"name": "Івга", "phone": PHONE},
    ]
    known = clients.create({"name": "Ромашка", "contacts": people})
    _, deal, client = converted(a_lead(company="ТОВ Ромашка"))
    assert client["id"] == str(known)
    assert deal["contact_id"] == client["contacts"][1]["id"]
    _, deal, client = converted(a_lead(email=None))
    assert deal["contact_id"] == client["contacts"][2]["id"]


@pytest.mark.parametrize("door", ["match", "client_id", "deal_id"])
def test_a_known_company_gets_the_leads_person(acme, door):
    office = {"name": "Ромашка", "type": "company", "extra": '{"a":1}'}
    known = clients.create(office | ({"email": EMAIL} if door == "match" else {}))
    deal = deals.create({"client_id": known}) if door == "deal_id" else None
    wanted = {"match": {}, "client_id": {"client_id": known}, "deal_id": {"deal_id": deal}}[door]
    id = a_lead(position="директорка", extra='{"a":2,"b":3}')
    _, deal, client = converted(id, **wanted)
    (contact,) = client["contacts"]
    assert [contact[name] for name in ("name", "position", "phone", "email")] == [
        *("Марія", "директорка", PHONE, EMAIL)
    ]
    assert (client["id"], client["phone"], client["extra"]) == (str(known), None, {"a": 1, "b": 3})
    assert (deal["contact_id"], deal["extra"]) == (contact["id"], {"a": 2, "b": 3})
    # The next lead from the new phone finds the client, who has all that it says.
    _, deal, again = converted(a_lead(email=None))
    assert (deal["contact_id"], again["version"]) == (contact["id"], client["version"])


def test_a_known_person_is_completed_and_what_differs_comes_with_a_contact(acme):
    known = clients.create({"name": "Марія К.", "email": EMAIL})
    _, deal, client = converted(a_lead())
    assert (client["phone"], client["contacts"], deal["contact_id"]) == (PHONE, [], None)
    _, deal, client = converted(a_lead(phone="+380671234568"))
    (contact,) = client["contacts"]
    assert (client["id"], client["phone"]) == (str(known), PHONE)
    assert (contact["name"], contact["phone"]) == ("Марія", "+380671234568")
    assert deal["contact_id"] == contact["id"]


def test_a_known_contact_is_completed(acme):
    people = [{"name": "Івга", "phone": PHONE}, {"name": "марія"}]
    named = clients.create({"name": "Ромашка", "type": "company", "contacts": people})
    for phone, number in ((PHONE, 0), ("+380671234568", 1)):
        lead = a_lead(phone=phone, email=f"m{number}@example.com", position="кухарка")
        _, deal, client = converted(lead, client_id=named)
        contact = client["contacts"][number]
        assert (deal["contact_id"], len(client["contacts"])) == (contact["id"], 2)
        assert (contact["name"], contact["phone"]) == (people[number]["name"], phone)
        assert (contact["email"], contact["position"]) == (f"m{number}@example.com", "кухарка")


def test_a_joined_deal_keeps_its_contact(acme):
    client = clients.create({"name": "Ромашка", "contacts": [{"name": "Івга"}]})
    contact = int(CLIENT.one(client)["contacts"][0]["id"])
    deal = deals.create({"client_id": client, "contact_id": contact})
    _, joined, shown = converted(a_lead(), deal_id=deal)
    assert joined["contact_id"] == str(contact)
    assert [one["phone"] for one in shown["contacts"]] == [None, PHONE]


def test_extra_that_is_too_much_stays_with_the_lead(acme):
    known = clients.create({"name": "Марія", "email": EMAIL, "extra": '{"a":"%s"}' % ("x" * 9000)})
    lead, _, client = converted(a_lead(extra='{"b":"%s"}' % ("y" * 9000)))
    assert (client["id"], [*client["extra"]], [*lead["extra"]]) == (str(known), ["a"], ["b"])


def test_the_client_may_be_named(acme):
    clients.create({"name": "Пошта", "email": EMAIL})
    named = clients.create({"name": "Ромашка"})
    lead, deal, client = converted(a_lead(), client_id=named)
    assert lead["client_id"] == deal["client_id"] == client["id"] == str(named)


def test_a_lead_may_join_an_open_deal(acme):
    client = clients.create({"name": "Ромашка"})
    deal = deals.create({"title": "Крісла", "client_id": client, "amount": 5_0000})
    lead, joined, shown = converted(a_lead(amount=9_0000), deal_id=deal)
    assert (lead["deal_id"], lead["client_id"]) == (str(deal), str(client))
    assert (joined["title"], joined["amount"]) == ("Крісла", 5)
    assert joined["lead_id"] == lead["id"]
    assert [one["name"] for one in shown["contacts"]] == ["Марія"]
    another, joined, _ = converted(a_lead(), deal_id=deal, client_id=client)
    assert (another["deal_id"], joined["lead_id"]) == (str(deal), lead["id"])
    assert row("SELECT count(*) FROM deal") == (1,)


def test_a_deal_without_a_client_gets_the_leads(acme):
    for client in (None, clients.create({"name": "Ромашка"})):
        deal = deals.create({"title": "Крісла"})
        _, joined, shown = converted(a_lead(), deal_id=deal, client_id=client)
        assert (joined["client_id"], joined["client_name"]) == (shown["id"], shown["name"])


def test_a_deal_whose_client_was_deleted_gets_the_leads(acme):
    client = clients.create({"name": "Ромашка"})
    deal = deals.create({"client_id": client})
    with transaction():  # as earlier releases may have left it
        execute("UPDATE client SET deleted_at = updated_at WHERE id = ?", (client,))
    assert converted(a_lead(), deal_id=deal)[1]["client_name"] == "Марія"


def test_a_refused_conversion_leaves_nothing(acme):
    won, gone = deals.create({"status": "won"}), deals.create({})
    with transaction():
        Deal.find(gone).remove()
    id = a_lead()
    events = row("SELECT count(*) FROM event")
    assert refusal(converted, id, deal_id=won) == "deal_closed"
    for name, unknown in (("deal_id", gone), ("deal_id", 99), ("client_id", 99), ("stage_id", 99)):
        assert refusal(converted, id, **{name: unknown}) == [(f"/{name}", "unknown_id")]
    assert LEAD.one(id)["status"] == "new"
    assert row("SELECT count(*) FROM client") == (0,)
    assert row("SELECT count(*) FROM event") == events


# Endpoints


@pytest.fixture
def lead(api):
    """The id of Марія's lead."""
    return api.create("/leads", name="Марія", phone=PHONE, email=EMAIL)


CONVERTED = ["lead.created", "client.created", "deal.created", "lead.converted"]


def test_convert_answers_ok_and_the_ids_also_when_repeated(api, lead):
    answer = api.post(f"/leads/{lead}/convert")
    assert answer.status_code == 201
    assert answer.json == {"status": "ok", "lead_id": lead, "deal_id": "1", "client_id": "1"}
    assert api.read(answer.headers["Location"].partition("/api/v1")[2])["lead_id"] == lead
    again = api.post(f"/leads/{lead}/convert", {"title": "Інша", "client_id": "9"})
    assert (again.status_code, again.json) == (200, answer.json)
    assert api.patch(f"/leads/{lead}", {"status": "converted"}).status_code == 200
    assert api.kinds() == CONVERTED
    unset = dict.fromkeys(("client_id", "deal_id", "converted_at"))
    assert [event["previous"] for event in api.events()] == [{}, {}, {}, unset | {"status": "new"}]
    # A lead and the client it became are no duplicates.
    assert api.read(f"/leads/{lead}?expand=possible_duplicates")["possible_duplicates"] == []


def test_a_known_client_has_an_event_of_what_is_new(api, lead):
    api.create("/clients", name="Марія", email=EMAIL)
    api.post(f"/leads/{lead}/convert")
    assert api.kinds()[2:] == ["client.updated", "deal.created", "lead.converted"]
    again = api.create("/leads", name="Марія", phone=PHONE, email=EMAIL)
    api.post(f"/leads/{again}/convert")
    assert api.kinds()[6:] == ["deal.created", "lead.converted"]


def test_joining_a_deal_only_tells_of_the_lead(api, lead):
    deal = api.create("/deals", title="Крісла")
    answer = api.post(f"/leads/{lead}/convert", {"deal_id": deal})
    assert (answer.status_code, answer.json["deal_id"]) == (201, deal)
    assert api.kinds()[2:] == ["client.created", "lead.converted"]


def test_patch_status_converted_is_the_same_rule(api, lead):
    answer = api.patch(f"/leads/{lead}", {"status": "converted", "company": "ТОВ Ромашка"})
    assert answer.status_code == 200
    assert (answer.json["status"], answer.json["company"]) == ("converted", "ТОВ Ромашка")
    assert (answer.json["deal_id"], answer.json["client_id"]) == ("1", "1")
    assert api.read("/clients/1")["name"] == "ТОВ Ромашка"
    assert api.kinds() == CONVERTED


def test_a_new_deals_own_words_go_before_the_leads(api):
    lead = api.create("/leads", name="Марія", phone=PHONE, amount=5, assigned_to=1, source="ads")
    sent = {"lead_id": int(lead), "manager": {"id": "2"}, "currency": "EUR", "source": None}
    deal = api.read(f"/deals/{api.create('/deals', **sent)}")
    assert (deal["assigned_to"], deal["source"]) == ("2", None)
    assert (deal["currency"], deal["amount"]) == ("EUR", None)  # 5 hryvnias are not 5 euros


def test_conversion_needs_the_rights_of_leads_and_deals(api, crm, lead):
    of_leads = Api(crm, "acme", key_for(crm, "acme", "leads:write"))
    of_deals = Api(crm, "acme", key_for(crm, "acme", "deals:write"))
    for answer, scope in (
        (of_leads.post(f"/leads/{lead}/convert"), "deals:write"),
        (of_leads.patch(f"/leads/{lead}", {"status": "converted"}), "deals:write"),
        (of_deals.post(f"/leads/{lead}/convert"), "leads:write"),
        (of_deals.post("/deals", {"lead_id": lead}), "leads:write"),
    ):
        assert (answer.status_code, answer.json["code"]) == (403, "missing_scope")
        assert answer.json["scope"] == scope
    assert api.kinds() == ["lead.created"]
    assert of_leads.patch(f"/leads/{lead}", {"status": "qualified"}).status_code == 200
    both = Api(crm, "acme", key_for(crm, "acme", "leads:write,deals:write"))
    assert both.post(f"/leads/{lead}/convert").status_code == 201
    # A converted lead sent back as it was is no conversion.
    assert of_leads.patch(f"/leads/{lead}", {"status": "converted"}).status_code == 200
