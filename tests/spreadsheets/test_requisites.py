"""The requisites of clients in files: a column for each; and the rates of products."""

import pytest

from crm.resources.clients.record import CLIENT
from tests.csv_helpers import counts, errors, exported, load, said, send
from tests.spreadsheets.test_guesses import guesses_of

IBAN = "UA213223130000026007233566001"
FILE = f"""external_id,name,requisites.legal_name,requisites.edrpou,requisites.iban
C-1,Ромашка,ТОВ «Ромашка»,14360570,UA21 3223 1300 0002 6007 2335 66001
C-2,Липа,,,
C-3,Дуб,,14360571,{IBAN}0
"""


def requisites(external_id):
    (client,) = CLIENT.every("external_id = ?", external_id)
    return client["requisites"]


def test_each_requisite_is_a_cell_whose_faults_name_it(acme):
    result = load("clients", FILE)
    assert counts(result) == (2, 0, 0, 1)
    assert [error[1:3] for error in errors(result)] == [
        ("requisites.edrpou", "invalid_edrpou"),
        ("requisites.iban", "invalid_iban"),
    ]
    stored = {"legal_name": "ТОВ «Ромашка»", "edrpou": "14360570", "iban": IBAN}
    assert (requisites("C-1"), requisites("C-2")) == (stored, {})


def test_a_file_changes_the_requisites_that_it_has(acme):
    load("clients", FILE)
    changed = "external_id,requisites.bank,requisites.iban\nC-1,ПриватБанк,\n"
    assert counts(load("clients", changed)) == (0, 1, 0, 0)
    assert {"bank", "iban", "edrpou"} < requisites("C-1").keys()
    assert counts(load("clients", changed)) == (0, 0, 1, 0)


def test_an_empty_cell_clears_one_if_it_shall(api):
    client = api.create("/clients", name="А", requisites={"bank": "Б", "director": "Коваль"})
    sent = send(api, "clients", f"id,requisites.bank\n{client},\n", "?on_empty=clear")
    assert said(sent) == (0, 1, 0)
    assert api.read(f"/clients/{client}")["requisites"] == {"director": "Коваль"}


def test_exports_have_them_by_name_or_for_people(api):
    api.create("/clients", name="А", requisites={"edrpou": "14360570"})
    (row,) = exported(api, "clients")
    assert (row["requisites.edrpou"], row["requisites.iban"]) == ("14360570", "")
    text = api.get("/clients/export?for=people").data.decode("utf-8-sig")
    assert "ЄДРПОУ" in text.splitlines()[0] and "14360570" in text


@pytest.mark.parametrize(
    ("plural", "header", "field"),
    [
        ("clients", "р/р", "requisites.iban"),
        ("clients", "IBAN", "requisites.iban"),
        ("clients", "Директор", "requisites.director"),
        ("clients", "ІПН", "tax_number"),
        ("products", "ПДВ", "vat"),
    ],
)
def test_headers_of_other_programs_are_known(plural, header, field):
    assert guesses_of(plural, [header]) == {header: field}


def test_the_rate_of_vat_of_a_product_is_in_files(api):
    sent = send(api, "products", "sku,name,price,vat\nA,А,1,7\nB,Б,1,19\nC,В,1,20%\n")
    report = api.get(sent.headers["Location"].partition("/api/v1")[2]).json
    assert report["created"] == 1
    assert {error["column"] for error in report["errors"]} == {"vat"}
    assert exported(api, "products")[0]["vat"] == "7"
