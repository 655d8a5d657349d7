"""vCards: those of phones and mail programs, and ours on their way out and back."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
import vobject

from crm.json import loads
from crm.spreadsheets import find_resource
from crm.spreadsheets.conversion import plain_csv
from tests.conftest import Api
from tests.csv_helpers import said, send

CARDS = (Path(__file__).parents[1] / "data" / "cards.vcf").read_text("utf-8")


def table(text: str | bytes, plural: str) -> list[dict[str, str]]:
    """The cells with content of each row that cards become."""
    data = text if isinstance(text, bytes) else text.encode()
    content, name, _ = plain_csv(data, resource=find_resource(plural))
    assert name == "vcard"
    cards = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return [{key: value for key, value in row.items() if value} for row in cards]


COMMENT = "перший рядок\nдругий; довгий: C:\\new"
ADDRESS = "вул. Хрещатик, 22, Київ, 01001, Україна"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "windows-1251"])
def test_cards_become_leads(encoding: str) -> None:
    data = CARDS.replace("\n", "\r\n").encode(encoding)
    olena, maria, lypa, verba, unnamed = table(data, "leads")
    assert olena == {
        "name": "Олена І Шевченко",
        "phone": "+380501112233",
        "extra": '{"phone 2":"067 123 45 67"}',
    }
    assert loads(maria.pop("extra")) == {
        "phone 2": "+380 67 123 45 68",
        "email 2": "office@example.com",
        "department": "Продажі",
        "website": "https://romashka.example",
        "address": ADDRESS,
        "birthday": "1985-04-12",
    }
    assert maria == {
        "name": "Марія Коваль",
        "phone": "+380 44 123 45 67",
        "email": "maria@example.com",
        "company": "ТОВ Ромашка",
        "position": "Директорка",
        "comment": COMMENT,
        "tags": '"опт, роздріб",vip',
    }
    assert (lypa["name"], lypa["company"]) == ("ТОВ Липа", "ТОВ Липа")
    assert lypa["extra"] == '{"name 2":"Ігор Бондар"}'
    assert (verba["name"], verba["phone"]) == ("ТОВ Верба", "+380-67-765-43-21")
    assert (unnamed["name"], unnamed["extra"]) == ("0671234569", '{"phone 2":"*100#"}')


def test_cards_become_clients_with_contacts(api: Api) -> None:
    assert said(send(api, "clients", CARDS)) == (5, 0, 0)
    olena, maria, lypa, verba, _ = api.get("/clients?sort=id&expand=contacts").json["data"]
    people = [(c["name"], c["phone"], c["email"], c["position"]) for c in maria["contacts"]]
    assert people == [("Марія Коваль", "+380671234568", "office@example.com", None)]
    assert maria["extra"] == {
        "company": "ТОВ Ромашка",
        "department": "Продажі",
        "position": "Директорка",
        "birthday": "1985-04-12",
    }
    texts = [maria[name] for name in ("type", "website", "address", "comment", "tags")]
    website = "https://romashka.example"
    assert texts == ["person", website, ADDRESS, COMMENT, ["опт, роздріб", "vip"]]
    assert (lypa["type"], lypa["name"]) == ("company", "ТОВ Липа")
    assert lypa["extra"] == {"name 2": "Ігор Бондар", "position": "бухгалтер"}
    reach = [(who["phone"], who["email"]) for who in (verba, *verba["contacts"])]
    assert reach == [
        ("+380677654321", "first@example.com"),
        ("+380677654322", "second@example.com"),
    ]


def test_the_preferred_value_is_the_field() -> None:
    card = "BEGIN:VCARD\nFN:A\nTEL:1\nTEL;PREF:2\nTEL:3\nTEL;PREF=2:4\nFN;PREF=1:B\nEND:VCARD\n"
    (lead,) = table(card, "leads")
    phones = {"phone 2": "4", "phone 3": "1", "phone 4": "3"}
    assert (lead["name"], lead["phone"]) == ("B", "2")
    assert loads(lead["extra"]) == {"name 2": "A", **phones}


def test_only_whole_cards_are_read() -> None:
    assert len(table("BEGIN:VCARD\nTEL:1\nEND:VCARD\nEND:VCARD\nTEL:2\nEND:VCARD\n", "leads")) == 2
    assert len(table(CARDS.removesuffix("END:VCARD\n"), "leads")) == 4
    assert table("BEGIN:VCARD\nVERSION:3.0\n", "leads") == []


# Ours


NAME = "ТОВ «Ромашка», Київ; опт"
ROMASHKA = {
    "type": "company",
    "name": NAME,
    "phone": "0441234567",
    "address": ADDRESS,
    "comment": COMMENT * 9,
    "tags": ["опт, роздріб", "vip"],
    "contacts": [
        {"name": NAME, "phone": "0441234568"},
        {"name": "Марія; Коваль", "position": "директорка", "phone": "0671234567"},
    ],
}


def exported(api: Api, plural: str, query: str = "") -> list[Any]:
    """The cards of an export, which another program reads."""
    response = api.get(f"/{plural}/export?format=vcf&vcard_version=3.0{query}")
    assert response.content_type == "text/vcard; charset=utf-8"
    assert response.headers["Content-Disposition"].endswith(f'"{plural}-2026-03-02.vcf"')
    assert max(map(len, response.data.split(b"\r\n"))) <= 75
    return list(vobject.readComponents(response.data.decode()))


def test_a_contact_has_a_card_that_names_the_client(api: Api) -> None:
    api.post("/clients", ROMASHKA)
    company, maria = exported(api, "clients", "&type=company&for=people")
    assert (company.fn.value, company.org.value) == (NAME, [NAME])
    assert company.x_abshowas.value == "COMPANY"
    assert (company.adr.value.street, company.note.value) == (ADDRESS, COMMENT * 9)
    assert company.categories.value == ["опт, роздріб", "vip"]
    assert {tel.value for tel in company.tel_list} == {"+380441234567", "+380441234568"}
    assert company.rev.value == "2026-03-02T09:00:00Z"
    assert (maria.n.value.given, maria.org.value) == ("Марія; Коваль", [NAME])
    assert (maria.title.value, maria.tel.value) == ("директорка", "+380671234567")
    assert maria.uid.value == f"{company.uid.value}-contact-2"
    assert exported(api, "clients", "&type=person") == []
    cards = re.sub(rb"UID.+\r\n", b"", api.get("/clients/export?format=vcf").data)
    assert said(send(api, "clients", cards, "?key=phone&known=skip")) == (0, 0, 2)


def test_at_another_tenant_cards_are_added_once_in_any_order(api: Api, ivan: Api) -> None:
    api.post("/clients", ROMASHKA)
    data = api.get("/clients/export?format=vcf").data
    phones = b"TEL;PREF=1;TYPE=cell:+380441234567\r\n", b"TEL;PREF=2;TYPE=cell:+380441234568\r\n"
    for line in (b"VERSION:4.0\r\n", b"KIND:org\r\n", b"REV:20260302T090000Z\r\n", *phones):
        assert line in data
    first, *others = data.split(b"BEGIN:VCARD\r\n")[1:]
    cards = b"".join(b"BEGIN:VCARD\r\n" + card for card in (*others, first))
    assert said(send(ivan, "clients", cards)) == (1, 0, 0)
    assert said(send(ivan, "clients", cards)) == (0, 0, 1)
    (client,) = ivan.get("/clients?expand=contacts").json["data"]
    assert (client["name"], len(client["contacts"])) == (NAME, 2)


def test_the_card_of_a_lead_names_its_company(api: Api) -> None:
    api.post("/leads", {"name": "Марія", "phone": "0671234567", "company": "Ромашка"})
    (card,) = exported(api, "leads", "&status=new")
    assert (card.fn.value, card.org.value, card.tel.value) == (
        "Марія",
        ["Ромашка"],
        "+380671234567",
    )
    assert exported(api, "leads", "&status=converted") == []
