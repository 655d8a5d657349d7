"""Clients with their contacts and tags (spec: Clients; D2–D6, D15, D17)."""

import json

import pytest

from crm.records import nested
from crm.resources.clients import record as clients
from crm.resources.clients.record import CLIENT, CLIENT_IN, CLIENT_PATCH, Client, create, match
from crm.resources.deals import record as deals
from crm.resources.deals.client_changes import OPEN_OF_CLIENT
from crm.storage.session import rows, transaction
from tests.resources.refusals import conflict, faults

OLHA = {"name": "Ольга", "position": "бухгалтерка", "phone": "+380671110001"}
PETRO = {"name": "Петро", "email": "Petro@Romashka.example"}


def named(**fields):
    return CLIENT_IN.parse({"name": "Ромашка", **fields})


def deal(crm, **values):
    with crm.tenants.session("acme"):
        return deals.create(values)


def deals_rows(crm, columns):
    with crm.tenants.session("acme"):
        return rows(f"SELECT {columns} FROM deal ORDER BY id")


def primary(client):
    return [contact["name"] for contact in client["contacts"] if contact["is_primary"]]


# Rules


def test_the_first_contact_is_the_primary_one_by_default(acme):
    assert primary(CLIENT.one(create(named(contacts=[OLHA, PETRO])))) == ["Ольга"]
    said = [OLHA, {**PETRO, "is_primary": True}]
    assert primary(CLIENT.one(create(named(contacts=said)))) == ["Петро"]
    refused = [{**OLHA, "is_primary": False}, PETRO]
    assert primary(CLIENT.one(create(named(contacts=refused)))) == ["Петро"]
    nobody = [{**OLHA, "is_primary": False}]
    assert primary(CLIENT.one(create(named(contacts=nobody)))) == []


def test_a_match_is_by_email_before_phone_and_contacts_count(acme):
    by_phone = create(named(phone="0671110001"))
    by_contact = create(named(contacts=[PETRO]))
    assert match("petro@romashka.EXAMPLE", "+380671110001").id == by_contact
    assert match("nobody@romashka.example", "+380671110001").id == by_phone
    assert match(None, "+380671110001").id == by_phone
    assert match("nobody@romashka.example", "+380670000000") is None
    assert match(None, None) is None


def test_the_eldest_live_client_is_the_match(acme):
    eldest = create(named(contacts=[OLHA]))
    younger = create(named(phone="0671110001"))
    assert match(None, "+380671110001").id == eldest
    with transaction():
        clients.delete(eldest)
    assert match(None, "+380671110001").id == younger


# Create


UNFIT = [
    ({}, "/name", "required"),
    ({"name": "A", "assigned_to": "77"}, "/assigned_to", "unknown_id"),
    ({"name": "A", "contacts": "Ольга"}, "/contacts", "invalid_type"),
    ({"name": "A", "contacts": ["Ольга"]}, "/contacts/0", "invalid_type"),
    ({"name": "A", "contacts": [{}]}, "/contacts/0/name", "required"),
    ({"name": "A", "contacts": [OLHA, {"name": None}]}, "/contacts/1/name", "null"),
    ({"name": "A", "contacts": [{**OLHA, "id": "9"}]}, "/contacts/0/id", "unknown_id"),
    ({"name": "A", "contacts": [{**OLHA, "email": "@"}]}, "/contacts/0/email", "invalid_email"),
    ({"name": "A", "contacts": [{**OLHA, "version": 1}]}, "/contacts/0/version", "read_only"),
    (
        {"name": "A", "contacts": [{**person, "is_primary": True} for person in (OLHA, PETRO)]},
        "/contacts/1/is_primary",
        "second_primary",
    ),
]


def test_create_refuses_what_does_not_fit_and_keeps_nothing(api):
    for sent, pointer, code in UNFIT:
        assert faults(api.post("/clients", sent)) == [(pointer, code)], sent
    assert (api.read("/clients"), api.events()) == ([], [])


def test_null_lists_and_texts_are_none_at_all(api):
    nothing = {"contacts": None, "tags": None, "phone": "", "created_at": None, "extra": None}
    client = api.read(f"/clients/{api.create('/clients', name='A', **nothing)}")
    assert (client["contacts"], client["tags"], client["phone"]) == ([], [], None)
    assert (client["created_at"], client["extra"]) == ("2026-03-02T09:00:00Z", {})


# Change


def test_a_card_with_its_duplicates_may_be_sent_back_unchanged(api):
    for _ in "ab":
        id = api.create("/clients", name="A", phone="0671110001")
    card = api.read(f"/clients/{id}?expand=possible_duplicates")
    assert card["possible_duplicates"]
    assert api.patch(f"/clients/{id}", card).status_code == 200
    card["possible_duplicates"] = []
    assert faults(api.patch(f"/clients/{id}", card)) == [("/possible_duplicates", "read_only")]


UNFIT_CHANGES = [
    ({"contacts": [{"id": "1"}, {"id": "2"}, {"id": "3"}]}, "/contacts/2/id", "unknown_id"),
    ({"contacts": [{"id": "1"}, {"id": "1"}]}, "/contacts/1/id", "repeated"),
    ({"contacts": [{"id": "1", "name": None}]}, "/contacts/0/name", "null"),
    ({"contacts": [{"phone": "0671110001"}]}, "/contacts/0/name", "required"),
    ({"contacts": [{"id": "1", "version": 5}]}, "/contacts/0/version", "read_only"),
    (
        {"contacts": [{"id": "2", "is_primary": True}, {"id": "1", "is_primary": True}]},
        "/contacts/1/is_primary",
        "second_primary",
    ),
]


def test_a_change_that_does_not_fit_changes_nothing(api):
    api.create("/clients", name="B", contacts=[OLHA, PETRO])
    api.create("/clients", name="C", contacts=[OLHA])
    before = api.read("/clients/1")
    for sent, pointer, code in UNFIT_CHANGES:
        answer = api.patch("/clients/1", {"comment": "new", **sent})
        assert faults(answer) == [(pointer, code)], sent
        assert api.read("/clients/1") == before


# Contacts


def test_contacts_without_id_are_new_with_one_changed_and_absent_ones_go(api, clock):
    id = api.create("/clients", name="A", contacts=[OLHA, PETRO])
    before = api.read(f"/clients/{id}")
    clock.tick(60)
    card = api.patch(
        f"/clients/{id}", {"contacts": [{"name": "Іра"}, {"id": "1", "comment": "дзвонити"}]}
    ).json
    assert [(c["id"], c["name"], c["version"]) for c in card["contacts"]] == [
        ("1", "Ольга", 2),
        ("3", "Іра", 1),
    ]
    assert card["contacts"][0].items() >= {**OLHA, "comment": "дзвонити"}.items()
    # A change of contacts alone is a change of the client.
    assert (card["version"], card["updated_at"]) == (2, "2026-03-02T09:01:00Z")
    _, event = api.events()
    assert (event["type"], event["previous"]) == (
        "client.updated",
        {"contacts": before["contacts"]},
    )
    (change,) = api.read(f"/clients/{id}/changes")
    assert change["before"] == {"contacts": before["contacts"]}
    assert change["after"] == {"contacts": card["contacts"]}


PRIMARY = [
    ([{"id": 1}, {"id": 2}], ["Ольга"]),
    ([{"id": 1}, {"id": 2, "is_primary": True}], ["Петро"]),
    ([{"id": 1, "is_primary": False}, {"id": 2, "is_primary": True}], ["Петро"]),
    ([{"id": 1}, {"id": 2}, {"name": "Іра", "is_primary": True}], ["Іра"]),
    ([{"id": 1, "is_primary": False}, {"id": 2}], ["Петро"]),
    ([{"id": 2}], ["Петро"]),
    ([{"id": 2, "is_primary": False}], []),
    ([{"name": "Іра", "is_primary": False}], []),
]


def test_there_is_one_primary_contact_or_none(acme):
    for contacts, expected in PRIMARY:
        id = create(named(contacts=[OLHA, PETRO]))
        ids = {
            number: contact.id for number, contact in enumerate(Client.find(id).list_contacts(), 1)
        }
        sent = [entry | ({"id": ids[entry["id"]]} if "id" in entry else {}) for entry in contacts]
        with transaction():
            clients.update(id, CLIENT_PATCH.parse({"contacts": sent}))
        assert primary(CLIENT.one(id)) == expected, contacts


def test_a_contact_is_added_to_its_client(api):
    id = api.create("/clients", name="A", contacts=[OLHA])
    answer = api.post(f"/clients/{id}/contacts", {**PETRO, "is_primary": True})
    assert (answer.status_code, answer.json) == (201, {"status": "ok", "contact_id": "2"})
    contact = api.read(answer.headers["Location"].removeprefix("/api/v1"))
    assert contact == api.read(f"/clients/{id}")["contacts"][1]
    assert primary(api.read(f"/clients/{id}")) == ["Петро"]
    assert api.kinds() == ["client.created", "client.updated"]
    nameless = {"phone": "0671110001"}
    assert faults(api.post(f"/clients/{id}/contacts", nameless)) == [("/name", "required")]
    wrong = {"name": "B", "version": 1}
    assert faults(api.post(f"/clients/{id}/contacts", wrong)) == [("/version", "unknown_field")]


def test_a_contact_is_changed_in_the_sent_fields(api, monkeypatch):
    id = api.create("/clients", name="A", contacts=[OLHA, PETRO])
    got = api.get(f"/clients/{id}/contacts/2")
    match = {"If-Match": got.headers["ETag"]}
    sent = {"position": "директор", "version": 1}
    answer = api.patch(f"/clients/{id}/contacts/2", sent, headers=match)
    assert answer.json == {**got.json, "position": "директор", "version": 2}
    again = api.patch(f"/clients/{id}/contacts/2", answer.json)
    assert (again.status_code, again.json) == (200, answer.json)
    assert api.kinds() == ["client.created", "client.updated"]
    assert faults(api.patch(f"/clients/{id}/contacts/2", {"id": "1"})) == [("/id", "read_only")]
    assert faults(api.patch(f"/clients/{id}/contacts/2", {"name": ""})) == [("/name", "required")]
    assert api.patch(f"/clients/{id}/contacts/2", {}, headers=match).status_code == 412
    monkeypatch.setattr(nested, "MAX_PARTS_BYTES", 10)
    large = api.patch(f"/clients/{id}/contacts/2", {"comment": "x" * 99})
    assert faults(large) == [("", "too_large")]


def test_a_contact_that_goes_leaves_the_first_as_primary(api):
    id = api.create("/clients", name="A", contacts=[OLHA, PETRO, {"name": "Іра"}])
    assert api.delete(f"/clients/{id}/contacts/1").status_code == 204
    assert api.delete(f"/clients/{id}/contacts/1").status_code == 404
    assert primary(api.read(f"/clients/{id}")) == ["Петро"]
    assert api.kinds() == ["client.created", "client.updated"]


def test_a_deal_loses_its_contact_and_tells_so(api, crm, clock):
    id = api.create("/clients", name="A", contacts=[OLHA, PETRO])
    deal(crm, client_id=int(id), contact_id=1)
    deal(crm, client_id=int(id), contact_id=2)
    clock.tick(60)
    api.patch(f"/clients/{id}", {"contacts": [{"id": 2}]})
    assert deals_rows(crm, "contact_id, version, updated_at") == [
        (None, 2, "2026-03-02T09:01:00Z"),
        (2, 1, "2026-03-02T09:00:00Z"),
    ]
    (change,) = api.read("/deals/1/changes")
    assert (change["before"], change["after"]) == ({"contact_id": "1"}, {"contact_id": None})


def test_a_contact_of_another_client_is_not_there(api):
    id = api.create("/clients", name="A")
    api.create("/clients", name="B", contacts=[OLHA])
    path = f"/clients/{id}/contacts/1"
    assert api.get(path).status_code == 404
    assert api.patch(path, {"name": "X"}).status_code == 404
    assert api.delete(path).status_code == 404
    assert [contact["name"] for contact in api.read("/clients/2")["contacts"]] == ["Ольга"]


# Tags


def test_tags_follow_their_changes(api):
    id = api.create("/clients", name="A", tags=["vip", "two  spaces", "two spaces"])
    assert len(api.read("/clients?tag=two spaces")) == 1
    api.patch(f"/clients/{id}", {"tags": ["опт"]})
    assert api.read("/clients?tag=vip") == []
    assert len(api.read("/clients?tag=опт")) == 1
    api.patch(f"/clients/{id}", {"tags": None})
    assert api.read("/clients?tag=опт") == []
    assert api.events()[-1]["previous"] == {"tags": ["опт"]}


# Read


def test_a_list_shows_contacts_only_on_request(api):
    id = api.create("/clients", name="A", contacts=[OLHA])
    card = api.read(f"/clients/{id}")
    assert api.read("/clients?expand=contacts") == [card]
    del card["contacts"]
    assert api.read("/clients") == [card]
    assert faults(api.get("/clients?expand=possible_duplicates")) == [("expand", "invalid_choice")]


FOUND = [
    ("assigned_to=me", "A"),
    ("phone=067 111 00 01", "DA"),
    ("email=PETRO@romashka.example", "CB"),
    ("q=роман петро", "C"),
    ("q=office@", "B"),
    ("q=petro@romashka", "CB"),
    ("q=ольга", "D"),
    ("updated_since=2026-03-02T09:02:00Z", "DCA"),
    ("sort=-updated_at", "ADCB"),
]


def test_filters_and_orders(api, clock):
    api.create("/clients", name="A Марія", phone="0671110001", assigned_to=1)
    clock.tick(60)
    api.create(
        "/clients",
        name="B Ромашка",
        type="company",
        email="office@romashka.example",
        assigned_to=2,
        contacts=[PETRO],
    )
    clock.tick(60)
    email = "petro@romashka.example"
    api.create("/clients", name="C Роман Петрович", type="company", email=email, external_id="1C-7")
    clock.tick(60)
    api.create("/clients", name="D", contacts=[OLHA])
    clock.tick(60)
    api.patch("/clients/1", {"comment": "x"})
    for query, names in FOUND:
        result = "".join(client["name"][0] for client in api.read(f"/clients?{query}"))
        assert result == names, query


def test_a_client_is_found_by_whatever_is_known_of_it(api):
    def found(**query):
        return [client["id"] for client in api.get("/clients", query_string=query).json["data"]]

    known = {"website": "https://romashka.example.com", "address": "Київ, Хрещатик, 1"}
    known |= {"tax_number": "09876543", "external_id": "1C-77", "tags": ["опт", "vip"]}
    contact = {"name": "Олена Петренко", "phone": "0501112233"}
    id = api.create("/clients", name="ТОВ «Ромашка»", contacts=[contact], **known)
    api.create("/clients", name="Марія", tax_number="19876543")
    for q in ("romashka.example", "хрещатик", "09876543", "1c-77", "ОПТ", "050 111-22", "Vip, опт"):
        assert found(q=q) == [id], q
    assert found(q='Петренко; ТОВ "Ромашка"') == found(tax_number="09876543") == [id]
    api.patch(f"/clients/{id}", json={"tags": None, "tax_number": None})
    assert found(q="опт") == found(q="09876543") == found(tax_number="09876543") == []


def test_deals_are_summed_by_currency(api, crm):
    id = api.create("/clients", name="A")
    other = api.create("/clients", name="B")
    for number in (1, 2):
        deal(crm, client_id=int(id), status="won", amount=number * 10_005_000)
    deal(crm, client_id=int(id), status="won", amount=70_000, currency="EUR")
    deal(crm, client_id=int(id), status="won")
    deal(crm, client_id=int(id), status="lost", amount=50_000)
    deal(crm, client_id=int(id), amount=50_000)
    gone = deal(crm, client_id=int(id), amount=50_000)
    deal(crm, client_id=int(other), status="won", amount=10_000)
    with crm.tenants.session("acme"), transaction():
        deals.Deal.find(gone).remove()
    client = api.read(f"/clients/{id}")
    assert client["deals_open"] == 1
    assert client["won_amounts"] == [
        {"currency": "EUR", "amount": 7},
        {"currency": "UAH", "amount": 3001.5},
    ]
    assert api.read("/clients?sort=name")[0]["won_amounts"] == client["won_amounts"]


def test_a_hundred_of_the_largest_deals_are_summed_exactly(api, crm):
    api.create("/clients", name="A")
    with crm.tenants.session("acme"), transaction():
        for _ in range(100):
            deals.create({"client_id": 1, "status": "won", "amount": 99_999_999_999_999_900})
    answer = api.get("/clients/1")
    assert b'"amount":999999999999999' in answer.data
    assert json.loads(answer.data, parse_float=str)["won_amounts"] == [
        {"currency": "UAH", "amount": 999999999999999}
    ]


def test_possible_duplicates_share_a_phone_or_an_email(api):
    api.create("/clients", name="A", phone="0671110001", email="a@romashka.example")
    api.create("/clients", name="B", contacts=[OLHA])
    api.create("/clients", name="C", email="A@Romashka.example")
    api.create("/clients", name="Інша", phone="0679990009", contacts=[PETRO])
    api.create("/leads", name="L", phone="0671110001")
    api.create("/leads", name="Інший", phone="0671110002")
    gone = api.create("/clients", name="D", phone="0671110001")
    api.delete(f"/clients/{gone}")

    def duplicates(path):
        possible_duplicates = api.read(f"{path}?expand=possible_duplicates")["possible_duplicates"]
        return "".join(item["name"] for item in possible_duplicates)

    assert duplicates("/clients/1") == "BCL"
    assert duplicates("/clients/2") == "AL"
    assert duplicates("/clients/3") == "A"
    assert duplicates("/clients/4") == duplicates("/leads/2") == ""
    assert duplicates("/leads/1") == "AB"
    (lead,) = api.read("/clients/2?expand=possible_duplicates")["possible_duplicates"][1:]
    assert lead == {"resource": "lead", "id": "1", "name": "L"}
    # They are told only on request.
    for path in ("/clients/2", "/leads/1", "/clients"):
        assert "possible_duplicates" not in json.dumps(api.read(path))
    assert "possible_duplicates" not in api.patch("/clients/2", {"comment": "y"}).json
    assert "possible_duplicates" not in json.dumps(api.events())


# Deals of a client


def test_a_new_name_goes_to_the_deals(api, crm, clock):
    id = api.create("/clients", name="Ромашка")
    deal(crm, client_id=int(id), title="Двері")
    deal(crm, client_id=int(id), title="Стіл", status="won")
    deal(crm, title="Без клієнта")
    clock.tick(60)
    api.patch(f"/clients/{id}", {"name": "Волошка"})
    assert deals_rows(crm, "client_name, search_text, version, updated_at") == [
        ("Волошка", "двері\nволошка", 2, "2026-03-02T09:01:00Z"),
        ("Волошка", "стіл\nволошка", 2, "2026-03-02T09:01:00Z"),
        (None, "без клієнта", 1, "2026-03-02T09:00:00Z"),
    ]
    assert {deal["id"] for deal in api.read("/deals?q=вол")} == {"1", "2"}
    assert api.read("/deals?q=ром") == []
    (change,) = api.read("/deals/1/changes")
    assert change["before"] == {"client_name": "Ромашка"}
    assert [kind for kind in api.kinds() if kind.startswith("client")] == [
        "client.created",
        "client.updated",
    ]


# Delete


@pytest.mark.files
def test_open_deals_are_found_by_their_client(acme):
    sql = f"SELECT id FROM deal WHERE deleted_at IS NULL AND {OPEN_OF_CLIENT} ORDER BY id"
    assert "deal_client" in str(rows(f"EXPLAIN QUERY PLAN {sql}", (1,)))


def test_a_client_with_open_deals_cannot_be_deleted(api, crm):
    id = api.create("/clients", name="A")
    open_deal = deal(crm, client_id=int(id), title="Двері")
    answer = api.delete(f"/clients/{id}")
    assert conflict(answer) == "client_has_open_deals"
    assert answer.json["deals"] == [{"id": str(open_deal), "title": "Двері"}]
    assert "Двері" in answer.json["detail"]
    assert api.get(f"/clients/{id}").status_code == 200


def test_a_deleted_client_is_gone_and_its_deals_keep_its_name(api, crm):
    id = api.create("/clients", name="Ромашка", phone="0671110001", tags=["vip"], contacts=[OLHA])
    deal(crm, client_id=int(id), status="won")
    assert api.delete(f"/clients/{id}").status_code == 204
    for query in ("tag=vip", "phone=0671110001"):
        assert api.read(f"/clients?{query}") == []
    assert deals_rows(crm, "client_id, client_name, contact_id, version") == [
        (int(id), "Ромашка", None, 1)
    ]
    assert "client.updated" not in api.kinds()
