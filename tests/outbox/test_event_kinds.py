"""Events from the change to the receivers that are to have them (spec: Events; D12, D15).

The changes come over the API, the POSTs go to a real receiver, and what it checks them by is the
independent library of the Standard Webhooks. Each kind: tests/api/test_specification.py.
"""

import time
from typing import Any

from standardwebhooks.webhooks import Webhook

from tests.conftest import Api
from tests.webhook_receiver import Received, WebhookReceiver, receive_webhooks

QUIET = 0.3  # seconds in which what must not come would come


def add(api: Api, url: str, **fields: Any) -> str:
    """A new endpoint; gives its secret."""
    answer = api.post("/webhooks", {"url": url, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json["secret"]


def kinds(came: list[Received]) -> list[str]:
    return [received.event["type"] for received in came]


def all_that_came(hook: WebhookReceiver, count: int) -> list[Received]:
    """So many, and after a while still no more; events of different records come in any order."""
    hook.wait_for(count)
    time.sleep(QUIET)
    assert len(hook.received) == count, kinds(hook.received)
    return sorted(hook.received, key=lambda received: received.event["sequence"])


def test_a_tenants_endpoints_get_nothing_of_another_tenant(sending, api, ivan, hook):
    with receive_webhooks() as ivans:
        secrets = [add(api, hook.url), add(ivan, ivans.url)]
        for number in range(5):
            api.create("/leads", name=f"Of acme {number}", email="a@client.example")
            ivan.create("/leads", name=f"Of globex {number}", email="g@client.example")
        for at, label, secret, caller in (
            (hook, "acme", secrets[0], api),
            (ivans, "globex", secrets[1], ivan),
        ):
            came = all_that_came(at, 5)
            bodies = b",".join(received.body for received in came)
            feed = caller.get("/events").data
            assert feed == b'{"data":[%s],"meta":{"next_after":5}}' % bodies
            for number, received in enumerate(came):
                event = Webhook(secret).verify(received.body, received.headers)
                assert event["tenant"] == label
                assert event["data"]["lead"]["name"] == f"Of {label} {number}"
                assert received.headers["webhook-id"] == event["id"]


def test_an_endpoint_gets_the_kinds_it_chose_and_no_other(sending, api, hook):
    add(api, f"{hook.url}/all")
    add(api, f"{hook.url}/won", events=["deal.won", "task.completed"])
    add(api, f"{hook.url}/off", active=False)
    api.create("/clients", name="Марія")
    api.create("/deals", title="Крісла", status="won")
    api.create("/tasks", title="Дзвінок", status="done")
    came = all_that_came(hook, 7)
    at = {path: [item for item in came if item.path == f"/hook/{path}"] for path in ("all", "won")}
    assert [received.event for received in at["all"]] == api.events()
    assert kinds(at["won"]) == ["deal.won", "task.completed"]
