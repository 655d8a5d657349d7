"""Phones at every way in: all digits are there, or nothing is stored (D2).

Older releases stored a Ukrainian number with too few or too many digits as if it were one. Such a
record stays as it is, until its number is corrected.
"""

import pytest

from crm.storage.session import execute, one_row, transaction
from tests.csv_helpers import counts, errors, load
from tests.resources.refusals import faults

WRONG = ["067 123 45 6", "067 12", "12345", "+380 67 123 45 678", "38067123456", "00671234567"]
FORMER = "+38006712"  # what an older release stored for "067 12"


@pytest.fixture
def former(crm, api) -> dict[str, str]:
    """Paths of records whose phone an older release has stored: {noun: path}."""
    lead = api.create("/leads", name="Ліда", phone="0671110001")
    client = api.create(
        "/clients", name="Клим", phone="0671110001", contacts=[{"name": "К", "phone": "0671110001"}]
    )
    with crm.tenants.session("acme"), transaction():
        for table in ("lead", "client", "contact"):
            execute(f"UPDATE {table} SET phone = ?", (FORMER,))
        (contact,) = one_row("SELECT id FROM contact")
    paths = {"lead": f"/leads/{lead}", "client": f"/clients/{client}"}
    return {**paths, "contact": f"/clients/{client}/contacts/{contact}"}


# New records


def test_a_mistyped_phone_is_refused_by_the_api(api, former):
    for phone in ("067 12", FORMER):  # nor is a new record's number that of an older release
        wrong = {"name": "А", "phone": phone}
        for path in ("/leads", "/clients", former["contact"].rpartition("/")[0]):
            assert faults(api.post(path, wrong)) == [("/phone", "invalid_phone")]
        contacts = {"name": "А", "contacts": [{"name": "Б"}, wrong]}
        assert faults(api.post("/clients", contacts)) == [("/contacts/1/phone", "invalid_phone")]
    for path in former.values():
        assert faults(api.patch(path, {"phone": "067 12"})) == [("/phone", "invalid_phone")]
        assert api.read(path)["phone"] == FORMER


def test_beside_an_email_a_new_lead_keeps_it_as_typed(api, form):
    for who in (api, form):
        answer = who.post("/leads", {"name": "А", "phone": "067 12", "email": "a@example.com"})
        lead = api.read(f"/leads/{answer.json['lead_id']}")
        assert (lead["phone"], lead["extra"]) == (None, {"phone": "067 12"})


# Records of older releases


@pytest.mark.parametrize("noun", ["lead", "client", "contact"])
def test_its_other_fields_change_and_its_phone_is_corrected(api, former, noun):
    path = former[noun]
    assert api.patch(path, {"comment": "x"}).json["phone"] == FORMER
    assert faults(api.patch(path, {"phone": FORMER})) == [("/phone", "invalid_phone")]
    assert api.patch(path, {"phone": "067 123 45 67"}).json["phone"] == "+380671234567"


def test_the_filter_finds_what_is_stored_and_else_nothing(api, former):
    for plural in ("leads", "clients"):
        assert len(api.read(f"/{plural}?phone=%2B38006712")) == 1
        for sent in (*WRONG, "abc", "+", ""):
            assert api.read(f"/{plural}?phone={sent.replace('+', '%2B')}") == [], sent


def test_a_lead_with_it_is_converted(api, former):
    answer = api.post(f"{former['lead']}/convert")
    assert answer.status_code == 201
    assert api.read(f"/clients/{answer.json['client_id']}")["phone"] == FORMER


# Files


def test_a_mistyped_phone_is_an_error_of_its_row_that_names_the_column(crm):
    with crm.tenants.session("acme"):
        rows = "".join(f"{sent},a@example.com,\n" for sent in WRONG)
        leads = load("leads", "phone,email,name\n" + rows.replace(",\n", ",А\n"))
        assert errors(leads) == [
            (line, "phone", "invalid_phone") for line in range(2, 2 + len(WRONG))
        ]
        clients = load("clients", "name,contact_name,contact_phone\nА,Б,067 12\nВ,Г,0671110009\n")
        assert errors(clients) == [(2, "contact_phone", "invalid_phone")]
        assert counts(clients) == (1, 0, 0, 1)


def test_an_export_with_it_changes_nothing_and_adds_no_record(crm, api, former):
    leads, clients = (api.get(f"/{plural}/export").text for plural in ("leads", "clients"))
    assert FORMER in leads and clients.count(FORMER) == 2
    with crm.tenants.session("acme"):
        assert errors(load("leads", leads)) == [(2, "phone", "invalid_phone")]
        assert counts(load("clients", clients)) == (0, 0, 0, 1)
        new = load("leads", f"name,phone\nА,{FORMER}\n")
        assert errors(new) == [(2, "phone", "invalid_phone")]
        new = load("clients", f"name,contact_name,contact_phone\nА,Б,{FORMER}\n")
        assert errors(new) == [(2, "contact_phone", "invalid_phone")]
