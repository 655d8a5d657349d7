"""Requisites of companies and clients: check digits, and faults that name their field."""

import random
from typing import Any

import pytest

from crm.errors import Invalid
from crm.papers import requisites
from crm.papers.requisites import PaperSettings, Requisites, RequisitesColumn, VatRate
from crm.records.custom.values import merged
from crm.records.schemas import RecordSchema
from tests.cases import loop_over
from tests.values.test_values import code_of


class CompanySchema(RecordSchema):
    requisites = Requisites()
    paper_settings = PaperSettings()


PATCH = CompanySchema.patch("CompanyPatch")
# Of well-known organisations: the National Bank, two state banks, PrivatBank, two foundations.
EDRPOU = ["00032106", "00032129", "00032112", "14360570", "43720363", "39696398"]
# The example of the National Bank's rules, and those of the ISO's registry.
IBANS = ["UA213223130000026007233566001", "DE89370400440532013000", "GB29NWBK60161331926819"]
IBANS += ["PL61109010140000071219812874", "MT84MALT011000012345MTLCAST001S", "NO9386011117947"]


def test_codes_of_known_organisations_are_taken_and_any_wrong_digit_is_found() -> None:
    for code in EDRPOU:
        assert requisites.edrpou(code) == code
        wrong = [code[:-1] + digit for digit in "0123456789" if digit != code[-1]]
        assert {code_of(requisites.edrpou, text) for text in wrong} == {"invalid_edrpou"}


def test_each_beginning_of_a_code_has_one_check_digit() -> None:
    """Of the whole range of codes; a second writing of both algorithms says which it is."""
    chance = random.Random(41)

    def scalar(digits: list[int], weights: list[int]) -> int:
        return sum(digit * weight for digit, weight in zip(digits, weights, strict=True))

    for _ in range(3000):
        digits = [chance.randrange(10) for _ in range(7)]
        number = int("".join(map(str, digits)) + "0")
        weights = (
            [7, 1, 2, 3, 4, 5, 6] if 30_000_000 <= number < 60_000_000 else [1, 2, 3, 4, 5, 6, 7]
        )
        check = scalar(digits, weights) % 11
        if check > 9:
            check = scalar(digits, [weight + 2 for weight in weights]) % 11
        fitting = [n for n in range(10) if not code_of(requisites.edrpou, f"{number // 10:07}{n}")]
        assert fitting == [0 if check > 9 else check], number
        person = [chance.randrange(10) for _ in range(9)]
        check = scalar(person, [-1, 5, 7, 9, 4, 6, 10, 5, 7]) % 11 % 10
        text = "".join(map(str, person))
        assert [n for n in range(10) if not code_of(requisites.rnokpp, f"{text}{n}")] == [check]


@loop_over("text", ["", "1436057", "143605700", "1436057O", "١٤٣٦٠٥٧٠", " 14360570", "-4360570"])
def test_what_is_no_code_is_refused(text: str) -> None:
    assert code_of(requisites.edrpou, text) == "invalid_edrpou"
    assert code_of(requisites.rnokpp, text) == "invalid_rnokpp"
    assert code_of(requisites.iban, text) == "invalid_iban"


def test_an_iban_is_stored_without_spaces_and_no_two_digits_may_change_places() -> None:
    for iban in IBANS:
        spaced = " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))
        assert requisites.iban(spaced.lower()) == iban
        for at in range(len(iban) - 1):
            swapped = iban[:at] + iban[at + 1] + iban[at] + iban[at + 2 :]
            refused = code_of(requisites.iban, swapped) == "invalid_iban"
            assert refused == (swapped != iban), swapped
    # A Ukrainian one of another length, with check digits that fit.
    number = int("".join(str(int(sign, 36)) for sign in "32231300000260072335660UA00"))
    short = f"UA{98 - number % 97:02}32231300000260072335660"
    assert code_of(requisites.iban, short) == "invalid_iban"


def test_each_fault_names_its_field() -> None:
    sent = {"edrpou": "12345679", "iban": "UA00", "kpp": "1", "bank": 5, "address": "а" * 501}
    with pytest.raises(Invalid) as refused:
        settings = {"color": "red", "vat_rate": 19, "number_prefix": "РФ-1"}
        PATCH.parse({"requisites": sent, "paper_settings": settings})
    assert {fault.where: fault.code for fault in refused.value.faults} == {
        "/requisites/edrpou": "invalid_edrpou",
        "/requisites/iban": "invalid_iban",
        "/requisites/kpp": "unknown_field",
        "/requisites/bank": "invalid_type",
        "/requisites/address": "too_long",
        "/paper_settings/color": "invalid_color",
        "/paper_settings/vat_rate": "invalid_choice",
        "/paper_settings/number_prefix": "invalid_prefix",
    }


@loop_over("sent", ["text", 5, [], [{"edrpou": "14360570"}], True])
def test_requisites_are_an_object(sent: Any) -> None:
    with pytest.raises(Invalid) as refused:
        PATCH.parse({"requisites": sent})
    assert [(fault.where, fault.code) for fault in refused.value.faults] == [
        ("/requisites", "invalid_type")
    ]


def test_a_change_sends_some_keys_and_null_clears_one_or_all() -> None:
    def patched(known: str | None, sent: Any) -> str | None:
        return merged(known, PATCH.parse({"requisites": sent})["requisites"])

    field = Requisites()
    known = patched(None, {"legal_name": " ТОВ «Ромашка» ", "edrpou": "14360570", "bank": None})
    known = patched(known, {"iban": "UA21 3223 1300 0002 6007 2335 6600 1", "bank": ""})
    shown = {"legal_name": "ТОВ «Ромашка»", "edrpou": "14360570", "iban": IBANS[0]}
    assert field.show(known) == shown
    assert field.show(patched(known, {"edrpou": None})).keys() == {"legal_name", "iban"}
    assert patched(known, {}) == known
    assert patched(known, None) is None and field.show(None) == {}
    assert patched(known, dict.fromkeys(shown)) is None
    assert RequisitesColumn().null


def test_settings_of_papers_have_defaults_and_bounds() -> None:
    sent = {"vat_mode": "inside", "vat_rate": 7, "signatures": ["Директор", "Бухгалтер"]}
    field = PaperSettings()
    stored = field.deserialize(sent | {"terms": "Рядок\nдругий", "color": "#1F6F5C"})
    expected = {"terms": "Рядок\nдругий", "color": "#1f6f5c", "vat_by": "line", "number_prefix": ""}
    assert field.show(stored) == sent | expected | {"validity_days": 14}
    assert field.show(None)["vat_mode"] == "none"
    for name, value in {
        **{"vat_mode": "both", "vat_by": "deal", "validity_days": 0, "terms": "а" * 4001},
        **{"signatures": list("абвгд"), "number_prefix": "а" * 17, "vat_rate": False},
    }.items():
        with pytest.raises(Invalid) as refused:
            PATCH.parse({"paper_settings": {name: value}})
        assert [fault.where for fault in refused.value.faults] == [f"/paper_settings/{name}"]


def test_the_documentation_names_the_keys() -> None:
    incoming = Requisites().variant(incoming=True, required=False).schema_type()
    shown = Requisites().variant(incoming=False, required=True).schema_type()
    assert incoming["additionalProperties"] is False and "additionalProperties" not in shown
    assert incoming["properties"].keys() == shown["properties"].keys() >= {"iban", "vat_number"}
    assert {"type": "null"} in incoming["properties"]["iban"]["anyOf"]
    assert VatRate().schema_type() == {"type": "integer", "enum": [20, 14, 7, 0]}
