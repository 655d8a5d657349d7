"""Load for nodes that fail: writers that retry, followers of the event feed, single requests."""

import threading
import time
from collections import Counter
from typing import Any

from tests.faults.losses import losses
from tests.faults.traffic import Caller, Writer
from tests.http_calls import Answer, ask
from tests.nodes import Node
from tests.waiting import wait_for

RETRIED = (502, 503, 504)  # nginx found no node, or the node no database
RETRY_SECONDS = 0.05  # less than Retry-After says: to see how soon it goes on
PATIENCE_SECONDS = 30
PAUSE_SECONDS = 0.05  # of a writer, and of a follower that has read all: clients do not spin
PAGE_EVENTS = 100
LEAD = {"name": "Марія", "phone": "+380671234567"}


def milliseconds() -> int:
    """Return the moment by the monotonic clock."""
    return time.monotonic_ns() // 1_000_000


class RetryingCaller(Caller):
    """A client that sends each request, with its Idempotency-Key, until it is done."""

    def __init__(self, port: int, key: str, label: str):
        super().__init__(key, label)
        self.port = port
        self.refused: Counter[int] = Counter()  # by status
        self.without_retry_after = 0  # of the service's own 503

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        status, fields, data = super().send(method, path, body, headers)
        if status in RETRIED:
            self.refused[status] += 1
            self.without_retry_after += status == 503 and not fields["Retry-After"]
            time.sleep(RETRY_SECONDS)
            raise ConnectionError(status)
        return status, fields, data


class Follower(threading.Thread):
    """Reads the event feed on and on; an event that it misses is never read."""

    def __init__(self, caller: Caller):
        super().__init__(daemon=True)
        self.caller = caller
        self.over = threading.Event()
        self.ids: list[str] = []
        self.sequences: list[int] = []
        self.error: Exception | None = None

    def run(self) -> None:
        after = 0
        try:
            while True:
                is_last = self.over.is_set()
                path = f"/events?after={after}&limit={PAGE_EVENTS}"
                status, page = self.caller.call("GET", path)
                assert status == 200, page
                self.ids += [event["id"] for event in page["data"]]
                self.sequences += [event["sequence"] for event in page["data"]]
                after = page["meta"]["next_after"]
                if not page["data"]:
                    if is_last:
                        return
                    self.over.wait(PAUSE_SECONDS)
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        """Read to the end, then stop."""
        self.over.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive() and self.error is None, self.error


class Load:
    """Writers of all kinds of records of several tenants, with a follower of each tenant."""

    def __init__(self, port: int, keys: dict[str, str], writers: dict[str, int]):
        """`port` is nginx's; `writers` are how many of each tenant."""
        self.callers = {label: RetryingCaller(port, keys[label], label) for label in writers}
        self.writers = {
            label: [
                Writer(number, caller, milliseconds, PAUSE_SECONDS)
                for number in range(writers[label])
            ]
            for label, caller in self.callers.items()
        }
        self.followers = {label: Follower(caller) for label, caller in self.callers.items()}

    @property
    def all_writers(self) -> list[Writer]:
        return [writer for writers in self.writers.values() for writer in writers]

    @property
    def count(self) -> int:
        """How many changes were acknowledged. Raises the error of a writer."""
        for thread in (*self.all_writers, *self.followers.values()):
            if thread.error:
                raise thread.error
        return sum(len(writer.operations) for writer in self.all_writers)

    def __enter__(self) -> "Load":
        for thread in (*self.all_writers, *self.followers.values()):
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for caller in self.callers.values():
            caller.stopped.set()
        for thread in (*self.all_writers, *self.followers.values()):
            thread.over.set()
            thread.join(PATIENCE_SECONDS)

    def go_on(self, count: int) -> None:
        """Wait until so many more changes are acknowledged."""
        wanted = self.count + count
        wait_for(
            lambda: self.count >= wanted,
            PATIENCE_SECONDS,
            lambda: f"no {count} more changes: {self.refused}",
        )

    def finish(self) -> None:
        """Let the writers end their requests, and the followers read to the end."""
        for writer in self.all_writers:
            writer.over.set()
        for writer in self.all_writers:
            writer.join(PATIENCE_SECONDS)
            assert not writer.is_alive()
        for follower in self.followers.values():
            follower.stop()
        assert self.count

    @property
    def refused(self) -> Counter[int]:
        """The answers that were retried, by status."""
        return sum((caller.refused for caller in self.callers.values()), Counter())

    def silence_seconds(self, since: int, label: str) -> float:
        """Return after how long a tenant's first change was done that was begun after a moment."""

        def ends() -> list[int]:
            operations = [op for writer in self.writers[label] for op in writer.operations]
            return [operation.ended for operation in operations if operation.begun > since]

        wait_for(ends, PATIENCE_SECONDS, lambda: f"no change of {label}: {self.refused}")
        return (min(ends()) - since) / 1000

    def losses(self) -> list[str]:
        """Describe what was acknowledged and is not there, and numbers that followers missed."""
        lost = [
            f"{label}: {loss}"
            for label, writers in self.writers.items()
            for writer in writers
            for loss in losses(writer.operations, self.callers[label].look)
        ]
        for label, follower in self.followers.items():
            if follower.sequences != list(range(1, len(follower.sequences) + 1)):
                lost.append(f"{label}: the follower missed or repeated events")
        return lost


def ask_node(node: Node, key: str, method: str, path: str, body: Any = None) -> Answer:
    """The answer of one node, asked directly."""
    return ask(node.port, method, f"/api/v1{path}", body if method == "POST" else None, key)


def seconds_until_works(node: Node, key: str) -> float:
    """Return after how long a node, asked directly, takes a new record again."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        if ask_node(node, key, "POST", "/leads", LEAD).status == 201:
            return time.monotonic() - began
        time.sleep(RETRY_SECONDS)
    raise AssertionError("the node does not work again")
