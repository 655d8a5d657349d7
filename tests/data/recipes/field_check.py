"""What follows from the declaration of `lead.budget`; run in the copy."""

import io
import re

import pytest

from crm import CRM
from crm.cabinet import languages
from crm.errors import Invalid
from tests.installations import settings_for

MARIIA = {"name": "Марія", "phone": "+380671234567"}


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_the_api_takes_and_shows_it(api):
    id = api.create("/leads", **MARIIA, budget="1500.50")
    assert api.read(f"/leads/{id}")["budget"] == 1500.5
    assert api.events()[-1]["data"]["lead"]["budget"] == 1500.5
    assert api.patch(f"/leads/{id}", {"budget": 1800}).json["budget"] == 1800
    assert [lead["budget"] for lead in api.read("/leads")] == [1800]
    (change,) = api.read(f"/leads/{id}/changes")
    assert (change["before"], change["after"]) == ({"budget": 1500.5}, {"budget": 1800})
    assert api.patch(f"/leads/{id}", {"budget": None}).json["budget"] is None


@pytest.mark.parametrize("budget", ["much", -1, True, 1.23456])
def test_a_wrong_value_is_refused_by_name(api, budget):
    id = api.create("/leads", **MARIIA)
    answer = api.patch(f"/leads/{id}", {"budget": budget})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json["errors"]] == ["/budget"]


def test_the_document_has_it(api):
    schemas = api.read("/openapi.json")["components"]["schemas"]
    for name in ("LeadIn", "LeadPatch", "Lead"):
        assert schemas[name]["properties"]["budget"] == schemas[name]["properties"]["amount"]


def test_files_have_it(api):
    file = "name,phone,budget\nМарія,+380671234567,1 500.50\nІван,+380671234568,багато\n"
    answer = api.post("/leads/import", data={"file": (io.BytesIO(file.encode()), "leads.csv")})
    assert (answer.json["created"], answer.json["skipped"]) == (1, 1)
    header, row = api.get("/leads/export").text.splitlines()
    exported = dict(zip(header.split(","), row.split(","), strict=True))
    assert exported["budget"] == "1500.50"
    again = (io.BytesIO(f"{header}\n{row}\n".replace("1500.50", "1600").encode()), "leads.csv")
    assert api.post("/leads/import", data={"file": again}).json["updated"] == 1
    assert [lead["budget"] for lead in api.read("/leads")] == [1600]


def test_pages_have_it_with_its_label(api, olena):
    assert languages.catalog("uk").gettext("Budget") == "Бюджет"
    api.create("/leads", **MARIIA, budget=1500)
    form = olena.sees("/leads/1/edit")
    assert re.search(r'<label[^>]* for="budget">Бюджет</label>', form)
    assert re.search(r'id="budget"\s+name="budget" value="1500"', form)
    sent = {**MARIIA, "currency": "UAH", "budget": "1 800,50"}
    assert olena.sends("/leads/1/edit", sent) == "/leads/1"
    assert api.read("/leads/1")["budget"] == 1800.5
    history, card = olena.sees("/leads/1").split('id="timeline"')[1].split('class="record-side"')
    assert "Бюджет 1 800,50 ₴" in text_of(card).replace("\N{NO-BREAK SPACE}", " ")
    assert "Бюджет" in text_of(history) and "1 800,50" in text_of(history).replace(
        "\N{NO-BREAK SPACE}", " "
    )
    page = olena.post("/leads/1/edit", {**sent, "budget": "багато"})
    assert page.status_code == 422


def test_python_has_it(crm):
    code = CRM(**settings_for(crm.tenants.config.data), sends=False)
    with code.tenant("acme"):
        assert code.leads.create(**MARIIA, budget=1500.5)["budget"] == 1500.5
        with pytest.raises(Invalid) as refused:
            code.leads.update(1, budget="much")
    assert [fault.where for fault in refused.value.faults] == ["/budget"]
    code.app.tenants.forget_idle()
