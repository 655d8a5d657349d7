"""Every kind of event from the change to the receiver (spec: Events; D12, D15).

The changes come over the API, the POSTs go to a real receiver, and what it checks them by is the
independent library of the Standard Webhooks.
"""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from crm.api import idempotency
from crm.outbox import events
from tests.conftest import Api
from tests.waiting import wait_for
from tests.webhook_receiver import TIMEOUT_SECONDS, Received, WebhookReceiver, receive_webhooks

MARIA = {"name": "Марія", "phone": "+380671234567"}
CHAIR = {"name": "Крісло «Марс»", "price": 1250.5}
PRICES = "sku,name,price\nCH-1,Крісло,990.1234\nT-1,Стіл,4300\n"
QUIET = 0.3  # seconds in which what must not come would come

MAKERS: dict[str, Callable[[Api], dict[str, Any]]] = {}


def kind(name: str) -> Callable:
    """The function that follows makes an event of this kind come last, and gives its `data` as the
    API shows the same records then."""

    def note(make: Callable[[Api], dict[str, Any]]) -> Callable[[Api], dict[str, Any]]:
        MAKERS[name] = make
        return make

    return note


@kind("lead.created")
def lead_created(api):
    return {"lead": api.read(f"/leads/{api.create('/leads', **MARIA, extra={'б': [1.5, None]})}")}


@kind("lead.converted")
def lead_converted(api):
    lead = api.create("/leads", **MARIA, company="ТОВ Ромашка")
    made = api.post(f"/leads/{lead}/convert").json
    names = ("lead", "deal", "client")
    return {name: api.read(f"/{name}s/{made[f'{name}_id']}") for name in names}


@kind("deal.created")
def deal_created(api):
    return {"deal": api.read(f"/deals/{api.create('/deals', title='Крісла', amount=12500.55)}")}


@kind("deal.stage_changed")
def deal_stage_changed(api):
    deal = api.create("/deals", title="Крісла")
    first, second = api.read("/pipelines/1/stages")[:2]
    shown = api.patch(f"/deals/{deal}", {"stage_id": second["id"]}).json
    return {"deal": shown, "from_stage": first, "to_stage": second}


@kind("deal.won")
def deal_won(api):
    deal = api.create("/deals", title="Крісла")
    return {"deal": api.patch(f"/deals/{deal}", {"status": "won"}).json}


@kind("deal.lost")
def deal_lost(api):
    deal = api.create("/deals", title="Крісла")
    lost = {"status": "lost", "lost_reason": "задорого"}
    return {"deal": api.patch(f"/deals/{deal}", lost).json}


@kind("deal.items_changed")
def deal_items_changed(api):
    deal = api.create("/deals", title="Крісла")
    api.create(f"/deals/{deal}/items", name="Доставка", price=99.9999, quantity=2.5)
    return {"deal": api.read(f"/deals/{deal}"), "items": api.read(f"/deals/{deal}/items")}


@kind("product.created")
def product_created(api):
    return {"product": api.read(f"/products/{api.create('/products', **CHAIR)}")}


@kind("product.updated")
def product_updated(api):
    id = api.create("/products", **CHAIR)
    return {"product": api.patch(f"/products/{id}", {"price": 0.0001}).json}


@kind("product.imported")
def product_imported(api):
    file = (io.BytesIO(PRICES.encode()), "prices.csv")
    answer = api.call("POST", "/products/import", data={"file": file})
    kept = api.read(answer.headers["Location"].partition("/api/v1")[2])
    assert [kept[name] for name in ("created", "updated", "skipped")] == [2, 0, 0]
    return {"import": {name: kept[name] for name in ("id", "created", "updated", "skipped")}}


@kind("client.created")
def client_created(api):
    contacts = [{"name": "Олена", "email": "olena@client.example"}]
    client = api.create("/clients", type="company", name="ТОВ Ромашка", contacts=contacts)
    return {"client": api.read(f"/clients/{client}")}


@kind("client.updated")
def client_updated(api):
    client = api.create("/clients", name="Марія")
    return {"client": api.patch(f"/clients/{client}", {"tags": ["опт"]}).json}


@kind("task.created")
def task_created(api):
    return {"task": api.read(f"/tasks/{api.create('/tasks', title='Дзвінок', type='call')}")}


@kind("task.completed")
def task_completed(api):
    task = api.create("/tasks", title="Дзвінок")
    return {"task": api.post(f"/tasks/{task}/complete", {"result": "домовились"}).json}


def add(api: Api, url: str, **fields: Any) -> tuple[str, str]:
    """A new endpoint; gives its id and its secret."""
    answer = api.post("/webhooks", {"url": url, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json["webhook_id"], answer.json["secret"]


def verified(received: Received, *secrets: str) -> dict[str, Any]:
    """The event, if its signature is good by each of the secrets."""
    results = [Webhook(secret).verify(received.body, received.headers) for secret in secrets]
    assert results == [received.event] * len(secrets)
    return received.event


def kinds(came: list[Received]) -> list[str]:
    return [received.event["type"] for received in came]


def by_sequence(came: list[Received]) -> list[Received]:
    """Events of different records come in any order."""
    return sorted(came, key=lambda received: received.event["sequence"])


def all_that_came(hook: WebhookReceiver, count: int) -> list[Received]:
    """So many, and after a while still no more."""
    hook.wait_for(count)
    time.sleep(QUIET)
    assert len(hook.received) == count, kinds(hook.received)
    return list(hook.received)


def delivered(api: Api, webhook: str) -> str:
    """The id of its one delivery, as soon as its arrival is noted."""
    path = f"/webhooks/{webhook}/deliveries?status=delivered"
    (one,) = wait_for(lambda: api.read(path), TIMEOUT_SECONDS)
    return one["id"]


# The fourteen kinds


@pytest.mark.parametrize("kind", events.KINDS)
def test_a_change_is_told_as_the_api_shows_it(sending, api, hook, kind):
    _, secret = add(api, hook.url)
    shown = MAKERS[kind](api)
    feed = api.get("/events").data
    count = len(json.loads(feed)["data"])
    came = by_sequence(hook.wait_for(count))
    bodies = b",".join(received.body for received in came)
    assert feed == b'{"data":[%s],"meta":{"next_after":%d}}' % (bodies, count)
    for received in came:
        event = verified(received, secret)
        assert received.headers["webhook-id"] == event["id"]
        assert event["tenant"] == "acme"
    assert (event["type"], event["data"]) == (kind, shown)


# To whom


def test_a_tenants_endpoints_get_nothing_of_another_tenant(sending, api, ivan, hook):
    with receive_webhooks() as ivans:
        secrets = [add(api, hook.url)[1], add(ivan, ivans.url)[1]]
        for number in range(5):
            api.create("/leads", name=f"Of acme {number}", email="a@client.example")
            ivan.create("/leads", name=f"Of globex {number}", email="g@client.example")
        for at, label, secret, caller in (
            (hook, "acme", secrets[0], api),
            (ivans, "globex", secrets[1], ivan),
        ):
            results = [verified(received, secret) for received in by_sequence(all_that_came(at, 5))]
            assert results == caller.events()
            assert [event["tenant"] for event in results] == [label] * 5
            names = [event["data"]["lead"]["name"] for event in results]
            assert names == [f"Of {label} {number}" for number in range(5)]
        for received in (*hook.received, *ivans.received):
            assert received.headers["webhook-id"] == received.event["id"]


def test_an_endpoint_gets_the_kinds_it_chose_and_no_other(sending, api, hook):
    add(api, f"{hook.url}/all")
    add(api, f"{hook.url}/won", events=["deal.won", "task.completed"])
    add(api, f"{hook.url}/off", active=False)
    client_created(api)
    deal_won(api)
    task_completed(api)
    lead_created(api)
    came = all_that_came(hook, 9)  # the deal that is won is moved, too
    at = {path: [item for item in came if item.path == f"/hook/{path}"] for path in ("all", "won")}
    assert [received.event for received in by_sequence(at["all"])] == api.events()
    assert kinds(by_sequence(at["won"])) == ["deal.won", "task.completed"]


# With the change, or not at all


def planned(api: Api) -> list[str]:
    """The kinds of all deliveries there are, the newest first."""
    return [
        delivery["type"]
        for webhook in api.read("/webhooks")
        for delivery in api.read(f"/webhooks/{webhook['id']}/deliveries")
    ]


def test_a_request_refused_after_its_first_event_sends_nothing(sending, api, hook, monkeypatch):
    """The client is made, and told of, before the deal turns out to be impossible."""
    add(api, hook.url)
    lead = api.create("/leads", **MARIA)
    results = []
    emit = events.emit
    monkeypatch.setattr(events, "emit", lambda *event: results.append(event[0]) or emit(*event))
    answer = api.post(f"/leads/{lead}/convert", {"stage_id": "99"})
    assert (answer.status_code, results) == (422, ["client.created"])
    assert planned(api) == ["lead.created"]
    assert kinds(all_that_came(hook, 1)) == ["lead.created"]


def test_a_change_whose_answer_could_not_be_kept_is_not_told(sending, api, hook, monkeypatch):
    """The answer to an idempotent request is a part of its transaction."""
    add(api, hook.url)
    headers = {"Idempotency-Key": "form-1"}
    with monkeypatch.context() as broken:
        broken.setattr(idempotency, "store_response", lambda *_: 1 / 0)
        assert api.post("/leads", MARIA, headers=headers).status_code == 500
    assert (api.read("/leads"), planned(api)) == ([], [])
    answers = [api.post("/leads", MARIA, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    (received,) = all_that_came(hook, 1)
    assert received.event["data"]["lead"]["id"] == answers[0].json["lead_id"]


def test_a_dry_run_and_a_patch_that_changes_nothing_send_nothing(sending, api, hook):
    product = api.create("/products", **CHAIR, sku="CH-1")
    add(api, hook.url)
    assert api.patch(f"/products/{product}", {"price": 1250.5}).status_code == 200
    file = (io.BytesIO(PRICES.encode()), "prices.csv")
    answer = api.call("POST", "/products/import?dry_run=true", data={"file": file})
    assert answer.json["updated"] == 1
    assert planned(api) == []
    assert api.patch(f"/products/{product}", {"price": 1}).status_code == 200
    assert kinds(all_that_came(hook, 1)) == ["product.updated"]
