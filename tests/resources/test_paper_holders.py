"""Papers of a client whose deal went to another, or is gone: what an erasure finds of them."""

import pytest

from crm.resources.papers import company
from crm.storage import sweeps
from tests.company_papers import REQUISITES

pytestmark = pytest.mark.process


@pytest.mark.parametrize("is_purged", [False, True], ids=["moved", "purged"])
def test_an_offer_is_erased_with_the_client_that_it_was_made_for(crm, api, clock, is_purged):
    with crm.tenants.session("acme"):
        company.update(requisites=REQUISITES)
    person = api.create("/clients", name="Марічка Унікальна", phone="+380671112233")
    other = api.create("/clients", name="Інша")
    deal = api.create("/deals", title="Стіл", client_id=person, amount=5)
    offer, invoice = (
        api.create(f"/deals/{deal}/papers", kind=kind) for kind in ("offer", "invoice")
    )
    if is_purged:
        assert api.delete(f"/deals/{deal}").status_code == 204
        clock.tick(40 * 86_400)
        with crm.tenants.session("acme"):
            while not sweeps.run():
                pass
        assert api.post(f"/deals/{deal}/restore").status_code == 404
    else:
        assert api.patch(f"/deals/{deal}", {"client_id": other}).status_code == 200
    data = api.read(f"/clients/{person}/personal-data")
    assert {paper["id"] for paper in data["papers"]} == {offer, invoice}
    answer = api.post(f"/clients/{person}/erase")
    assert (answer.json["erased"]["offers"], answer.json["erased"]["kept_papers"]) == (1, 1)
    assert "Унікальна" not in api.get(f"/papers/{offer}").text
