"""kill -9 of the whole server while it delivers: what was committed arrives, and nothing else.

Several kills, sixteen clients that write, a receiver that fails half of the time. Afterwards the
receiver is well, and what still waits for its next attempt is recovered by the product's own means.
"""

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from crm.installation.tenants import Tenants
from crm.outbox import deliveries as deliveries_of_outbox
from tests.faults.killing import killed
from tests.faults.traffic import Caller, Stopped
from tests.installations import config_for, on_postgres
from tests.server_process import run_server
from tests.tables import assert_whole, read_rows
from tests.waiting import wait_for
from tests.webhook_receiver import Received, WebhookReceiver

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", 8))  # of servers with two workers and with one in turn
WRITERS = 16
GROWTH = 48  # answers between two kills at least,
LINGER = 0.4  # and seconds more at most: a kill may come at any moment of a delivery
FIRST_DELAY = 5  # seconds between the first attempt and the second (D15)
PATIENCE = 60  # seconds
# What a killed sender had claimed is claimed again at once by the next one of its data folder. Of a
# database, nobody knows whether the sender of another node lives, until its lease has ended.
LEASES_END = deliveries_of_outbox.LEASE_SECONDS if on_postgres() else 0
SETTINGS = {"CRM_PLANS": "business=0", "CRM_WEBHOOK_ALLOW": "127.0.0.0/8"}
LONG_AGO = "2020-01-01T00:00:00Z"


class ClientWriter(threading.Thread):
    """A client of the API: again and again a new client, changed twice."""

    def __init__(self, number: int, caller: Caller) -> None:
        super().__init__(daemon=True)
        self.number, self.caller = number, caller
        self.answers = 0
        self.made: list[str] = []  # ids of clients with all of their changes
        self.strange: list[tuple[int, Any]] = []

    def run(self) -> None:
        with contextlib.suppress(Stopped):
            for number in count():
                name = f"{self.number}-{number}"
                key = {"Idempotency-Key": name}
                id = self.answer(201, "POST", "/clients", {"name": name}, key)["client_id"]
                for comment in ("first", "second"):
                    self.answer(200, "PATCH", f"/clients/{id}", {"comment": comment})
                self.made.append(id)

    def answer(self, wanted: int, *request: Any) -> Any:
        status, said = self.caller.call(*request)
        if status != wanted:
            self.strange.append((status, said))
            raise Stopped
        self.answers += 1
        return said


class Moody:
    """How the receiver answers: well, with 500, or not at all."""

    def __init__(self) -> None:
        self.well = False
        self.goes_on = threading.Event()  # while it is not set, nothing is answered
        self.goes_on.set()
        self.counts: dict[str, int] = defaultdict(int)
        self._dice = random.Random(20)

    def __call__(self, received: Received) -> int:
        self.goes_on.wait(PATIENCE)
        mood = 1.0 if self.well else self._dice.random()
        if mood < 0.25:
            self.counts["dropped"] += 1
            raise ConnectionAbortedError  # closes the connection
        self.counts["refused" if mood < 0.5 else "taken"] += 1
        return 500 if mood < 0.5 else 204


def read(caller: Caller, path: str) -> Any:
    status, said = caller.call("GET", path)
    assert status == 200, said
    return said


def feed(caller: Caller) -> Iterator[dict[str, Any]]:
    """All events of GET /events."""
    after = 0
    while (page := read(caller, f"/events?limit=200&after={after}"))["data"]:
        yield from page["data"]
        after = page["meta"]["next_after"]


def deliveries(caller: Caller, webhook: str, query: str = "") -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        page = read(caller, f"/webhooks/{webhook}/deliveries?limit=200{query}{cursor}")
        yield from page["data"]
        following = page["meta"]["next_cursor"]
        cursor = following and f"&cursor={following}"


def by_itself(delivery: dict[str, Any]) -> bool:
    """Was it taken at its second attempt, for which nobody had asked?"""
    attempts = delivery["attempts"]
    causes = [attempt["cause"] for attempt in attempts]
    if causes != ["event", "event"] or attempts[1]["status_code"] != 204:
        return False
    first, second = (datetime.fromisoformat(attempt["at"]) for attempt in attempts)
    assert second - first >= timedelta(seconds=FIRST_DELAY)
    return True


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.deep)])
def test_every_committed_event_arrives_through_kills(tmp_path, key, hook, kills):
    caller = Caller(key)
    writers = [ClientWriter(number, caller) for number in range(WRITERS)]
    dice = random.Random(16)
    hook.answer = moody = Moody()

    def answers() -> int:
        assert [writer.strange for writer in writers] == [[]] * WRITERS
        return sum(writer.answers for writer in writers)

    def write_on(port: int) -> None:
        """Until there are more answers, and writers and deliveries in the midst of their next."""
        caller.port = port
        wanted = answers() + GROWTH
        for writer in writers:
            if not writer.ident:
                writer.start()
        wait_for(lambda: answers() >= wanted, PATIENCE, "the writers get no answers")
        time.sleep(LINGER * dice.random())

    try:
        with run_server(tmp_path, **SETTINGS) as port:
            caller.port = port
            status, said = caller.call("POST", "/webhooks", {"url": hook.url})
            assert status == 201, said
            webhook, secret = said["webhook_id"], said["secret"]
        for number in range(kills):
            with killed(tmp_path, workers=2 - number % 2, **SETTINGS) as port:
                write_on(port)
                if not number:  # this kill comes between a delivery and its note
                    moody.goes_on.clear()
                    hook.wait_for(len(hook.received) + 1)
            moody.goes_on.set()
        with run_server(tmp_path, **SETTINGS) as port:
            write_on(port)
            caller.stopped.set()
            for writer in writers:
                writer.join(PATIENCE)
                assert not writer.is_alive()
            caller.stopped.clear()
            if kills > 1:
                wait_for_retry(caller, webhook, moody)
            finish(caller, webhook, moody)
            events = check(caller, hook, secret)
            stored = list(deliveries(caller, webhook))
    finally:
        caller.stopped.set()

    assert [item["status"] for item in stored] == ["delivered"] * len(events)
    assert sorted(item["sequence"] for item in stored) == [event["sequence"] for event in events]
    assert any(map(by_itself, stored)) or kills == 1
    came = Counter(received.event["id"] for received in hook.received)
    cut = [item for item in stored if came[item["event_id"]] > len(item["attempts"])]
    assert cut  # arrived, and killed before it was noted: sent once more
    results = defaultdict(list)
    for event in events:
        results[event["data"]["client"]["id"]].append((event["type"], event["previous"]))
    for id in (id for writer in writers for id in writer.made):
        assert [kind for kind, _ in results[id]] == ["client.created", *["client.updated"] * 2]
        assert [was.get("comment") for _, was in results[id]] == [None, None, "first"]
    tenants = Tenants(config_for(tmp_path))
    assert_whole(tenants, "acme")
    leased = read_rows(tenants, "acme", "SELECT count(*) FROM delivery WHERE lease IS NOT NULL")
    assert leased == [(0,)]


def wait_for_retry(caller: Caller, webhook: str, moody: Moody) -> None:
    """The first retries come by themselves."""
    wait_for(
        lambda: any(map(by_itself, deliveries(caller, webhook, "&status=delivered"))),
        FIRST_DELAY + PATIENCE + LEASES_END,
        "nothing is tried again by itself",
    )
    assert min(moody.counts[name] for name in ("dropped", "refused", "taken")) > 1


def finish(caller: Caller, webhook: str, moody: Moody) -> None:
    """All goes well from now on, and the rest is asked for."""
    moody.well = True

    def is_all_delivered() -> bool:
        # Again, because what is just being sent isn't hurried, and may fail yet.
        status, said = caller.call("POST", f"/webhooks/{webhook}/recover", {"since": LONG_AGO})
        assert status == 202, said
        time.sleep(0.1)
        return said["count"] == 0

    # In less than the lease of what the killed sender had in flight.
    wait_for(is_all_delivered, PATIENCE + LEASES_END, "not everything is delivered")


def check(caller: Caller, hook: WebhookReceiver, secret: str) -> list[dict[str, Any]]:
    """What arrived is the feed; gives its events."""
    bodies: dict[str, bytes] = {}
    last: dict[str, int] = defaultdict(int)
    for received in list(hook.received):
        event = Webhook(secret).verify(received.body, received.headers)
        assert bodies.setdefault(event["id"], received.body) == received.body
        assert received.headers["webhook-id"] == event["id"]
        # In order for each record; the same once more is all that at least once allows.
        assert event["sequence"] >= last[event["data"]["client"]["id"]]
        last[event["data"]["client"]["id"]] = event["sequence"]
    events = list(feed(caller))
    assert [json.loads(bodies[event["id"]]) for event in events] == events
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert len(bodies) == len(events)
    return events
