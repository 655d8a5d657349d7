"""Each request knows the fields of its own tenant, as they were when it began."""

from collections.abc import Iterator

import pytest

from crm.records.custom import fields as custom_fields
from crm.resources.leads.record import LEAD as VIEW
from crm.storage.session import transaction
from tests.concurrency import run_in_threads
from tests.http_calls import ask
from tests.resources.test_custom_fields import BUDGET, LEAD, WOOD
from tests.server_process import run_server

# Two tenants with the same ids and keys, which mean different things.
FIELDS = {
    "acme": (WOOD, BUDGET),
    "globex": (WOOD | {"type": "text", "options": []}, BUDGET | {"label": "Color", "type": "text"}),
}
CUSTOM = {
    "acme": {"wood": "oak", "budget": 12.5},
    "globex": {"wood": "linden", "color": "синій"},
}
THREADS, ROUNDS = 32, 6


@pytest.fixture
def leads(api, ivan) -> Iterator[dict[str, str]]:
    """A lead of each tenant."""
    made = {}
    for label, caller in (("acme", api), ("globex", ivan)):
        for field in FIELDS[label]:
            caller.create("/fields", **field)
        made[label] = caller.create("/leads", **LEAD, custom=CUSTOM[label])
    api.crm.tenants.forget_idle()
    yield made


@pytest.mark.process
def test_no_request_meets_the_fields_of_another_tenant(crm, furnished, leads):
    keys = {"acme": furnished[1]["olena"], "globex": furnished[1]["ivan"]}
    data = crm.tenants.config.data

    def work(number: int) -> None:
        label = [*CUSTOM][number % 2]
        own, (foreign,) = CUSTOM[label], CUSTOM[[*CUSTOM][1 - number % 2]].keys() - CUSTOM[label]
        lead = f"/api/v1/leads/{leads[label]}"

        def call(method: str, path: str, body: object = None) -> tuple[int, dict]:
            answer = ask(port, method, path, body, keys[label], label)
            return answer.status, answer.json

        for count in range(ROUNDS):
            if number < 2:  # the second field comes and goes, by one thread of each tenant
                verb = "restore" if count % 2 else "retire"
                assert call("POST", f"/api/v1/fields/2/{verb}")[0] == 200
            _, shown = call("GET", lead)
            assert shown["custom"] in (own, {"wood": own["wood"]})
            status, found = call("GET", f"/api/v1/leads?custom.wood={own['wood']}")
            assert (status, found["data"][-1]["id"]) == (200, leads[label])
            assert found["data"][-1]["custom"] in (own, {"wood": own["wood"]})
            status, refused = call("PATCH", lead, {"custom": {foreign: None}})
            assert (status, refused["errors"][0]["code"]) == (422, "unknown_field")
            assert call("PATCH", lead, {"custom": {"wood": own["wood"]}})[0] == 200

    with run_server(data, workers=2, CRM_PLANS="business=0") as port:
        run_in_threads(THREADS, work)


def test_a_request_that_has_begun_keeps_its_fields(crm, api, leads):
    id = int(leads["acme"])
    with crm.tenants.session("acme"):
        assert VIEW.one(id)["custom"] == CUSTOM["acme"]
        run_in_threads(1, lambda _: api.post("/fields/1/retire"))
        assert VIEW.one(id)["custom"] == CUSTOM["acme"]
        with transaction():  # a change goes by those that are there
            assert [*custom_fields.of_transaction().of_resource["leads"]] == ["budget"]
    assert api.read(f"/leads/{id}")["custom"] == {"budget": 12.5}
