"""The sender: a pool of threads that delivers what the outbox holds (D15).

One process of an installation sends, whoever holds the bell. When it begins, scouts look at every
tenant once and ring for those with something to send; its dispatcher looks at those that are rung
for or have something due: a heap of times, no polling. It claims; a thread of the pool calls,
outside of any transaction, and records. Whatever was claimed by a process that died is free again
for the next one.
"""

import atexit
import heapq
import logging
import os
import secrets
import threading
import time
from collections import deque
from queue import SimpleQueue

from crm.errors import Busy, NotFound, StorageFull, TenantUnavailable
from crm.outbox import call, deliveries, signature
from crm.tenancy.database import time_text
from crm.tenancy.tenants import Tenants
from crm.tenancy.wakeup import WakeupListener

MAX_IN_FLIGHT = 32  # deliveries in flight at most; half of them may be to failing endpoints
STARTUP_SCAN_THREADS = 2  # threads that look at every tenant when the sender begins
WRITER_WAIT_SECONDS = (
    0.2  # seconds that the dispatcher waits for a tenant's writer: others wait for it
)
BUSY_RETRY_SECONDS = 0.5  # seconds until it looks again at a tenant that was busy,
UNAVAILABLE_RETRY_SECONDS = 60.0  # and at one whose file cannot be used
BACKLOG_INTERVAL_SECONDS = 1.0  # how often it looks at those that found no thread free
STOP_TIMEOUT_SECONDS = call.CALL_TIMEOUT_SECONDS + 3  # for those in flight to end and be recorded
MAX_SLEEP_SECONDS = 60.0  # a machine that slept, or a clock set forward, is noticed by then
RECORD_DELAYS_SECONDS = (0.0, 1.0, 5.0)  # pauses before each try to record
USER_AGENT = "crm-webhooks/1"

log = logging.getLogger("crm")


class Sender:
    """Delivers for all tenants, from `start()` until `stop()`."""

    def __init__(
        self,
        tenants: Tenants,
        threads: int = MAX_IN_FLIGHT,
        seconds: float = call.CALL_TIMEOUT_SECONDS,
    ):
        self.tenants = tenants
        self.lease = secrets.token_hex(8)
        self._most, self._seconds = threads, seconds
        self._pid = 0
        self._stopped = threading.Event()
        self._lock = threading.Condition()
        self._busy = self._probing = self._threads = 0
        self._jobs: SimpleQueue[tuple[str, deliveries.ClaimedDelivery]] = SimpleQueue()
        self._agenda: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}  # the time of each label that counts in the agenda
        self._crowd: deque[str] = deque()  # labels with more due than could be taken

    @property
    def started(self) -> bool:
        """Was it started in this process? A fork has no threads."""
        return self._pid == os.getpid()

    def start(self) -> None:
        """Send from now on, as soon as no other process does; again has no effect."""
        with self._lock:
            if not self.started:
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="sender", daemon=True).start()
                atexit.register(self.close)

    def stop(self) -> None:
        """Claim nothing more; what is in flight goes on."""
        self._stopped.set()
        self.tenants.bell.ring("")

    def close(self) -> None:
        """Stop, and wait for what is in flight; what doesn't end in time is left to its lease."""
        atexit.unregister(self.close)
        self.stop()
        self._await_those_in_flight()
        for _ in range(self._threads):
            self._jobs.put(None)

    def _await_those_in_flight(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._busy, STOP_TIMEOUT_SECONDS)

    # The dispatcher

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self.tenants.bell.listening() as ear:
                    self._dispatch(ear)
                    self._await_those_in_flight()  # the next one takes their leases for a dead's
            except Exception:
                log.exception("the sender of webhooks begins anew")
                self._stopped.wait(1)

    def _dispatch(self, ear: WakeupListener) -> None:
        self._look_at_all()
        while not self._stopped.is_set():
            rung, lost = ear.hear(self._idle_seconds())
            if lost:
                self._look_at_all()
            for label in rung:
                self._look(label)
            # As many as have ended, or, when nothing ends, as there are threads free.
            turns = len(rung) or max(1, self._most - self._busy)
            for _ in range(min(len(self._crowd), turns)):
                self._look(self._crowd.popleft())
            if self._agenda and self._agenda[0][0] <= self.tenants.steady.now():
                when, label = heapq.heappop(self._agenda)
                if self._due.get(label) == when:
                    self._look(label)

    def _idle_seconds(self) -> float | None:
        found = [BACKLOG_INTERVAL_SECONDS] if self._crowd else []
        if self._agenda:
            seconds = self._agenda[0][0] - self.tenants.steady.now()
            found.append(min(max(0.0, seconds), MAX_SLEEP_SECONDS))
        return min(found, default=None)

    def _look_at_all(self) -> None:
        # What is to be sent is mostly in files that were written to lately.
        unseen = deque(self.tenants.recent_first())
        for _ in range(STARTUP_SCAN_THREADS):
            scout = threading.Thread(target=self._scout, args=(unseen,), name="scout", daemon=True)
            scout.start()

    def _scout(self, unseen: deque[str]) -> None:
        while not self._stopped.is_set():
            try:
                label = unseen.popleft()
            except IndexError:
                return
            if self._has_work(label):
                self.tenants.bell.ring(label)

    def _has_work(self, label: str) -> bool:
        try:
            return bool(self.tenants.peek(label, deliveries.HAS_PENDING)[0])
        except Exception:
            return True  # a closer look tells what is wrong

    def _look_later(self, label: str, when: float) -> None:
        if when < self._due.get(label, float("inf")):
            self._due[label] = when
            heapq.heappush(self._agenda, (when, label))

    def _look(self, label: str) -> None:
        """Hand what is due at the tenant to the pool, and note when to look again."""
        self._due.pop(label, None)
        if self._stopped.is_set():
            return
        with self._lock:
            free = self._most - self._busy
            probes = max(0, self._most // 2 - self._probing)
        claimed, again = [], None
        try:
            with self.tenants.session(label, tidies=False) as here:
                here.wait = WRITER_WAIT_SECONDS
                claimed, again = deliveries.claim_due(self.lease, free, probes)
        except NotFound:
            return
        except (StorageFull, TenantUnavailable):  # it is in the log already
            again = self.tenants.clock() + UNAVAILABLE_RETRY_SECONDS
        except Busy:
            again = self.tenants.steady.now() + BUSY_RETRY_SECONDS
        except Exception:
            log.exception("the deliveries of %s cannot be read", label)
            again = self.tenants.steady.now() + UNAVAILABLE_RETRY_SECONDS
        for delivery in claimed:
            self._hand_over(label, delivery)
        if again is not None and again > self.tenants.steady.now():
            self._look_later(label, again)
        elif again is not None and label not in self._crowd:
            self._crowd.append(label)

    def _hand_over(self, label: str, delivery: deliveries.ClaimedDelivery) -> None:
        with self._lock:
            self._busy += 1
            self._probing += delivery.probes
            if grows := self._busy > self._threads:
                self._threads += 1
        self._jobs.put((label, delivery))
        if grows:
            threading.Thread(target=self._work, name="delivery", daemon=True).start()

    # The pool

    def _work(self) -> None:
        while job := self._jobs.get():
            label, delivery = job
            try:
                self._deliver(label, delivery)
            except Exception:
                log.exception("delivery %s of %s was lost hold of", delivery.id, label)
            finally:
                with self._lock:
                    self._busy -= 1
                    self._probing -= delivery.probes
                    self._lock.notify_all()
                self.tenants.bell.ring(label)

    def _deliver(self, label: str, delivery: deliveries.ClaimedDelivery) -> None:
        begun = int(self.tenants.clock())
        headers = {"content-type": "application/json", "user-agent": USER_AGENT}
        headers |= signature.make_headers(delivery.secrets, delivery.event_id, begun, delivery.body)
        allow = self.tenants.config.webhook_allow
        outcome = call.http_post(delivery.url, headers, delivery.body, allow, seconds=self._seconds)
        for pause in RECORD_DELAYS_SECONDS:
            time.sleep(pause)
            try:
                with self.tenants.session(label):
                    deliveries.record_outcome(delivery, time_text(begun), outcome)
                return
            except Busy:
                continue
            except TenantUnavailable:
                break
            except NotFound:
                return  # the tenant is gone, or the endpoint
        log.error("delivery %s of %s could not be recorded: it goes again", delivery.id, label)
