"""The pages of clients: the list, the card with contacts and deals, refusals told kindly (D6)."""

import html

from crm.resources.clients.record import CLIENT, create
from crm.resources.deals import record as deals

ROMASHKA = {"name": "ТОВ Ромашка", "type": "company", "phone": "+380441234567"}


def client(crm, **fields):
    with crm.tenants.session("acme"):
        return str(create({**ROMASHKA, **fields}))


def deal(crm, **fields):
    with crm.tenants.session("acme"):
        return str(deals.create({"client_id": 1, **fields}))


def one(crm, id="1"):
    with crm.tenants.session("acme"):
        return CLIENT.one(id)


def plain(page):
    return html.unescape(page).replace("\xa0", " ")


# Undoing a deletion: the rule


# The card


def test_deals_are_shown_with_sums_in_each_currency(crm, olena):
    client(crm)
    for amount, currency in ((12_500_000, "UAH"), (5_000, "UAH"), (30_000, "USD"), (None, "EUR")):
        deal(crm, title="Відкрита угода", amount=amount, currency=currency)
    deal(crm, title="Продано", status="won", amount=70_000_000)
    deal(crm, title="Відмова", status="lost", amount=990_000_000)
    page = plain(olena.sees("/clients/1"))
    opened, _, closed = page.partition('id="closed-head"')
    assert "1 250,50 ₴" in opened and "Відкрита угода" in opened and "Продано" not in opened
    assert "3 USD" in opened.replace("3 $", "3 USD")
    assert "виграно на 7 000 ₴" in closed and "Продано" in closed and "Відмова" in closed
    assert 'href="/deals/1"' in opened and 'href="/deals/5"' in closed


# Contacts


def test_contacts_come_change_and_go(api, crm, olena):
    client(crm)
    path = "/clients/1/contacts"
    sent = {"name": "Ольга", "phone": "050 111 00 01", "position": "бухгалтерка"}
    assert olena.sends(path, sent) == "/clients/1#contacts"
    olena.sends(path, {"name": "Іван"})
    olga, ivan = one(crm)["contacts"]
    assert (olga["phone"], olga["is_primary"], ivan["is_primary"]) == ("+380501110001", True, False)
    assert 'value="бухгалтерка"' in olena.sees(f"{path}/1")
    olena.sends(f"{path}/1", {"name": "Ольга Коваль", "email": "o@example.com"})
    olga, _ = one(crm)["contacts"]
    assert (olga["name"], olga["email"], olga["phone"]) == ("Ольга Коваль", "o@example.com", None)
    assert olga["is_primary"]
    olena.sends(f"{path}/2/primary")
    assert [contact["is_primary"] for contact in one(crm)["contacts"]] == [False, True]
    assert olena.confirms(f"{path}/2/delete") == "/clients/1#contacts"
    assert [contact["name"] for contact in one(crm)["contacts"]] == ["Ольга Коваль"]
    assert api.kinds() == ["client.created", *["client.updated"] * 5]


def test_a_refused_contact_is_shown_again(api, crm, olena):
    client(crm, contacts=[{"name": "Ольга"}])
    for path in ("/clients/1/contacts", "/clients/1/contacts/1"):
        page = olena.post(path, {"name": "Іван", "phone": "12"})
        assert page.status_code == 422, path
        assert 'value="Іван"' in page.text and 'value="12"' in page.text
        assert "phone-fault" in page.text
        page = olena.post(path, {"name": ""})
        assert page.status_code == 422 and "name-fault" in page.text
    assert api.kinds() == ["client.created"]


# Deleted and back


def test_a_client_with_open_deals_stays_and_names_them(crm, olena):
    client(crm)
    deal(crm, title="Крісла")
    deal(crm, title="Столи", status="won")
    page = olena.post("/clients/1/delete")
    assert page.status_code == 409
    item = page.text.partition('id="trouble"')[2].partition("</div>")[0]
    assert "Клієнт має відкриті угоди." in item and "Спочатку закрийте" in item
    assert 'href="/deals/1">Крісла' in item and "Столи" not in item
    assert one(crm)["version"] == 1
