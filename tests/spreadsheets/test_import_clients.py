"""Clients with their contacts by CSV: one row per contact (D6, D9)."""

from typing import Any

import pytest

from crm.resources.clients.record import CLIENT, Client
from tests.csv_helpers import counts, errors, exported, load, said, send

ROMASHKA = """external_id,type,name,phone,tags,contact_name,contact_position,contact_phone
C-1,company,ТОВ Ромашка,0441234567,опт,Олена,директорка,0671234567
C-1,,,,,Ігор,,0671234568
C-2,person,Марія,,,,,
"""


def client(external_id: str) -> dict[str, Any]:
    return CLIENT.one(Client.first("external_id = ?", external_id).id)


def people(external_id: str) -> list[tuple[str, str | None, bool]]:
    """(name, phone, is_primary) of a client's contacts."""
    return [(c["name"], c["phone"], c["is_primary"]) for c in client(external_id)["contacts"]]


# Rows to records


@pytest.mark.parametrize(
    "further",
    ["C-1,,,,,Ігор,,0671234568", ",,,,,Ігор,,0671234568"]
    + ["C-1,company,ТОВ Ромашка,0441234567,опт,Ігор,,0671234568"],
    ids=["key", "empty", "repeated"],
)
def test_further_rows_are_further_contacts_of_one_client(acme, api, further):
    lines = ROMASHKA.splitlines()
    lines[2] = further
    assert counts(load("clients", "\n".join(lines))) == (2, 0, 0, 0)
    assert people("C-1") == [("Олена", "+380671234567", True), ("Ігор", "+380671234568", False)]
    assert (client("C-1")["version"], client("C-1")["tags"]) == (1, ["опт"])
    assert client("C-2")["contacts"] == []
    assert api.kinds() == ["client.created"] * 2


def test_without_keys_rows_with_the_same_cells_are_one_client(acme):
    text = "name,phone,contact_name\nА,0441234567,x\nА,0441234567,y\nА,,z\nБ,,\nБ,,\n"
    assert counts(load("clients", text)) == (4, 0, 0, 0)
    clients = CLIENT.every("TRUE ORDER BY id")
    results = [(c["name"], [p["name"] for p in c["contacts"]]) for c in clients]
    assert results == [("А", ["x", "y"]), ("А", ["z"]), ("Б", []), ("Б", [])]


def test_a_further_row_may_tell_what_the_first_did_not(acme):
    text = "external_id,name,email,contact_name\nC-1,А,,x\nC-1,,a@example.com,y\n"
    assert counts(load("clients", text)) == (1, 0, 0, 0)
    assert client("C-1")["email"] == "a@example.com"


def test_rows_of_one_client_must_not_contradict_each_other(acme):
    text = ROMASHKA.replace("C-1,,,", "C-1,,ТОВ Липа,")
    result = load("clients", text)
    assert errors(result) == [(3, "name", "contradiction")]
    assert counts(result) == (1, 0, 0, 1)
    assert result.errors[0]["message"] == "name: differs from line 2 of the same client"


def test_rows_of_one_client_stand_together(acme):
    result = load("clients", ROMASHKA + "C-1,,,,,Тарас,,\n")
    assert errors(result) == [(5, "external_id", "duplicate_in_file")]
    assert counts(result) == (2, 0, 0, 1)


def test_a_row_of_contacts_needs_a_client_above(acme):
    result = load("clients", "name,contact_name\n,Олена\n")
    assert errors(result) == [(2, "name", "required")]


# Known clients


def test_known_contacts_change_and_new_ones_come_and_the_others_stay(acme, api, clock):
    load("clients", ROMASHKA)
    clock.tick(60)
    text = (
        "external_id,comment,contact_name,contact_phone,contact_is_primary\n"
        "C-1,Постійний,ІГОР,0671111111,так\n,,Тарас,,\n"
    )
    assert counts(load("clients", text)) == (0, 1, 0, 0)
    assert people("C-1") == [
        ("Олена", "+380671234567", False),
        ("ІГОР", "+380671111111", True),
        ("Тарас", None, False),
    ]
    assert client("C-1")["version"] == 2
    assert api.kinds() == ["client.created", "client.created", "client.updated"]
    (change,) = api.read("/clients/1/changes")
    assert set(change["after"]) == {"comment", "contacts"}
    assert counts(load("clients", text)) == (0, 0, 1, 0)


def test_a_client_without_a_primary_contact_stays_so(acme):
    text = "external_id,name,contact_name,contact_is_primary\nC-1,А,Олена,ні\nC-1,,Ігор,false\n"
    load("clients", text)
    assert [is_primary for *_, is_primary in people("C-1")] == [False, False]
    assert counts(load("clients", text)) == (0, 0, 1, 0)


# Bad rows


@pytest.mark.parametrize(
    ("cells", "line", "column", "code"),
    [
        ("C-1,А,,ніякий,,\nC-1,,Ігор,,,", 2, "contact_phone", "invalid_phone"),
        ("C-1,А,Олена,,,так\nC-1,,Ігор,,,так", 3, "contact_is_primary", "second_primary"),
        ("C-1,А,Олена,,,\nC-1,,,0671234567,,", 3, "contact_name", "required"),
        ("C-1,А,Олена,,7,", 2, "contact_id", "unknown_id"),
    ],
)
def test_a_bad_contact_rejects_its_client_whole(acme, cells, line, column, code):
    header = "external_id,name,contact_name,contact_phone,contact_id,contact_is_primary"
    result = load("clients", f"{header}\n{cells}\nC-2,Б,,,,\n")
    assert (errors(result), counts(result)) == ([(line, column, code)], (1, 0, 0, 1))
    assert [record.name for record in Client.every("TRUE")] == ["Б"]


def test_another_clients_contact_is_unknown(acme):
    load("clients", ROMASHKA)
    result = load("clients", "external_id,contact_id,contact_name\nC-2,1,Олена\n")
    assert errors(result) == [(2, "contact_id", "unknown_id")]
    result = load("clients", "external_id,contact_id\nC-1,1\nC-1,1\n")
    assert errors(result) == [(3, "contact_id", "repeated")]


def test_rejected_clients_are_mended_with_all_their_rows(api):
    text = ROMASHKA.replace("0671234568", "ніякий")
    assert send(api, "clients", text).json["skipped"] == 1
    report = api.read("/imports/1")
    assert (report["noun"], report["rows"], report["rejected"]) == ("client", 3, 1)
    repair = api.get("/imports/1/errors.csv").text
    reasons = [line.partition(",")[0] for line in repair.splitlines()]
    assert reasons[:2] == ["error", ""] and reasons[2].startswith('"contact_phone')
    answer = send(api, "clients", repair.replace("ніякий", "0671234568"))
    assert said(answer) == (1, 0, 0)
    (result,) = api.read("/clients?external_id=C-1&expand=contacts")
    assert [contact["name"] for contact in result["contacts"]] == ["Олена", "Ігор"]


# Exporting


def test_an_export_has_a_row_for_each_contact(api):
    send(api, "clients", ROMASHKA.replace("C-2", ""))
    first, second, alone = exported(api, "clients")
    assert (first["external_id"], first["name"], first["contact_name"]) == (
        *("C-1", "ТОВ Ромашка"),
        "Олена",
    )
    assert (first["contact_is_primary"], second["contact_is_primary"]) == ("true", "false")
    assert (second["id"], second["external_id"], second["name"]) == ("1", "C-1", "")
    assert (second["contact_name"], second["contact_phone"]) == ("Ігор", "+380671234568")
    assert second["source_tenant"] == first["source_tenant"]
    assert (alone["name"], alone["contact_id"]) == ("Марія", "")
