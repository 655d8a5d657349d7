"""The sender: a pool of threads that sends the deliveries of the outbox (D15).

One process of a data folder sends: the one that holds the lock of the wake-up pipe. When it
starts, a scan looks at every tenant once and wakes the dispatcher for those with pending
deliveries. The dispatcher claims deliveries of tenants that it is woken for or that have one due;
it does not poll. A thread of the pool sends each one outside of any transaction
and records the outcome. What a process had claimed when it died, the next one claims again.

Batches that nobody works at any more (records/background.py) are found in the same way: the
dispatcher has a thread go on with them. So are alerts that are due, which have threads of their own
(alerts/sender.py).

Several nodes, each with a data folder, may share tenants: then the senders of all of them claim
deliveries, and each is woken for what the others leave.
"""

import atexit
import logging
import math
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from operator import itemgetter
from queue import SimpleQueue

from crm.alerts import sending
from crm.alerts.sender import AlertSender
from crm.errors import Busy, DatabaseUnavailable, NotFound, StorageFull, TenantUnavailable
from crm.installation.tenants import Tenants
from crm.outbox import call, deliveries, signature
from crm.records import background
from crm.storage.session import time_text
from crm.storage.wakeup import WakeupListener

MAX_IN_FLIGHT = 32  # deliveries; at most half of them go to failing webhooks
STARTUP_SCAN_THREADS = 2
WRITER_WAIT_SECONDS = 0.2  # for the writer lock of one tenant, while the others wait
# Until the next look at a tenant after an error; the first one that fits.
RETRY_SECONDS: dict[type[Exception], float] = {
    DatabaseUnavailable: 5.0,  # it is in the log already, and comes back sooner than a file
    TenantUnavailable: 60.0,  # this is in the log already, too
    StorageFull: 60.0,
    Busy: 0.5,  # the lock was taken
}
UNEXPECTED_RETRY_SECONDS = 60.0
BACKLOG_INTERVAL_SECONDS = 1.0  # between looks at tenants that found no free thread
STOP_TIMEOUT_SECONDS = call.CALL_TIMEOUT_SECONDS + 3  # to finish and record those in flight
MAX_SLEEP_SECONDS = 60.0  # after which a machine that slept, or a changed clock, is noticed
# Before each try to record an outcome. With waits, at most a lease, after which it is sent again; a
# database server that is started anew is back before.
RECORD_DELAYS_SECONDS = (0.0, 1.0, 3.0, 6.0)
USER_AGENT = "crm-webhooks/1"
# One statement: to open a file takes longer than to look into it.
HAS_WORK = (
    f"SELECT {deliveries.ANY_PENDING} OR {sending.ANY_PENDING} OR {background.ANY_UNFINISHED}"
)

log = logging.getLogger("crm")


def headers_of_delivery(
    webhook_secrets: Sequence[str], id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a delivery sent at `timestamp` (epoch seconds), with its signature."""
    headers = {"content-type": "application/json", "user-agent": USER_AGENT}
    return headers | signature.make_headers(webhook_secrets, id, timestamp, body)


class Sender:
    """Delivers the webhooks of all tenants, from `start()` until `stop()`."""

    def __init__(self, tenants: Tenants, alerts: AlertSender | None = None):
        self.tenants, self._alerts = tenants, alerts
        self.lease = secrets.token_hex(8)
        self._pid = 0
        self._stopped = threading.Event()
        self._lock = threading.Condition()
        self._busy = self._probing = self._threads = 0
        self._jobs: SimpleQueue[tuple[str, deliveries.ClaimedDelivery] | None] = SimpleQueue()
        self._next_checks: dict[str, float] = {}  # by label, in epoch seconds
        self._backlog: deque[str] = deque()  # labels with more due than could be claimed
        self._scans: list[threading.Thread] = []

    @property
    def started(self) -> bool:
        """Whether it was started in this process: a fork does not inherit the threads."""
        return self._pid == os.getpid()

    def start(self) -> None:
        """Send from now on, as soon as no other process does. Calling it again has no effect."""
        with self._lock:
            if not self.started:
                self._pid = os.getpid()
                self.lease = secrets.token_hex(8)  # processes that were forked had the same
                threading.Thread(target=self._run, name="sender", daemon=True).start()
                atexit.register(self.close)

    def stop(self) -> None:
        """Claim no more deliveries; those in flight continue."""
        self._stopped.set()
        self.tenants.wakeup_pipe.notify("")

    def close(self) -> None:
        """Stop, and wait STOP_TIMEOUT_SECONDS for deliveries in flight, and for scans.

        The leases of those that take longer expire, so they are sent again.
        """
        atexit.unregister(self.close)
        self.stop()
        self._wait_for_in_flight()
        with self._lock:
            scans = [*self._scans]
        for scan in scans:  # it reads files that are closed, or restored, after this
            scan.join(STOP_TIMEOUT_SECONDS)
        for _ in range(self._threads):
            self._jobs.put(None)
        if self._alerts:
            self._alerts.close()

    def _wait_for_in_flight(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._busy, STOP_TIMEOUT_SECONDS)

    # The dispatcher: one thread that claims deliveries

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self.tenants.wakeup_pipe.listening() as listener:
                    receiving = self._alerts.receiving() if self._alerts else nullcontext()
                    with self.tenants.follow_nodes(), receiving:
                        self._dispatch(listener)
                    # Before another process may listen: it takes leases of this one as expired.
                    self._wait_for_in_flight()
            except Exception:
                log.exception("the sender of webhooks starts again")
                self._stopped.wait(1)

    def _dispatch(self, listener: WakeupListener) -> None:
        self._start_scan()
        while not self._stopped.is_set():
            labels, has_lost_labels = listener.wait(self._idle_seconds())
            if has_lost_labels:
                self._start_scan()
            for label in labels:
                self._check_tenant(label)
            # Each delivery that ends wakes this loop; then it is the turn of one tenant in the
            # backlog, or, when nothing ends, of as many as there are free threads.
            turns = len(labels) or max(1, MAX_IN_FLIGHT - self._busy)
            for _ in range(min(len(self._backlog), turns)):
                self._check_tenant(self._backlog.popleft())
            label, at = self._find_next_check()
            if at <= self.tenants.steady_clock.now():
                del self._next_checks[label]
                self._check_tenant(label)

    def _idle_seconds(self) -> float | None:
        """Return for how long to wait for a wake-up; None: until there is one."""
        waits = [BACKLOG_INTERVAL_SECONDS] if self._backlog else []
        if self._next_checks:
            seconds = self._find_next_check()[1] - self.tenants.steady_clock.now()
            waits.append(min(max(0.0, seconds), MAX_SLEEP_SECONDS))
        return min(waits, default=None)

    def _find_next_check(self) -> tuple[str, float]:
        """Return the tenant to look at next, and when: in no time if none is scheduled."""
        return min(self._next_checks.items(), key=itemgetter(1), default=("", math.inf))

    def _start_scan(self) -> None:
        """Look for pending deliveries of tenants that may have some, by threads of their own."""
        labels = deque(self.tenants.with_deliveries())
        with self._lock:  # close() waits for all that were started before it stopped the sender
            self._scans = [scan for scan in self._scans if scan.is_alive()]
            for _ in range(0 if self._stopped.is_set() else STARTUP_SCAN_THREADS):
                scan = threading.Thread(target=self._scan, args=(labels,), name="scan", daemon=True)
                scan.start()
                self._scans.append(scan)

    def _scan(self, labels: deque[str]) -> None:
        while not self._stopped.is_set():
            try:
                label = labels.popleft()
            except IndexError:
                return
            if self._has_work(label):
                self.tenants.wakeup_pipe.notify(label)

    def _has_work(self, label: str) -> bool:
        try:
            result = self.tenants.tenant(label).read_first_row(HAS_WORK)
        except Exception:
            return True  # the dispatcher will log what is wrong with the file
        return bool(result and result[0])

    def _check_tenant(self, label: str) -> None:
        """Claim what is due at the tenant for the pool, and schedule the next check."""
        if self._stopped.is_set():
            return
        with self._lock:
            free = MAX_IN_FLIGHT - self._busy
            probes = max(0, MAX_IN_FLIGHT // 2 - self._probing)
        claimed: list[deliveries.ClaimedDelivery] = []
        next_check = None
        try:
            with self.tenants.session(label, sweeps_expired=False) as session:
                session.lock_wait_seconds = WRITER_WAIT_SECONDS
                claimed, next_check = deliveries.claim_due(
                    self.lease, free, probes, self._stopped.is_set
                )
                if background.next_due() is not None:
                    background.look_after(self.tenants, label)
                if self._alerts:
                    self._alerts.check(label)
        except NotFound:
            return
        except tuple(RETRY_SECONDS) as error:
            waits = (wait for kind, wait in RETRY_SECONDS.items() if isinstance(error, kind))
            next_check = self.tenants.steady_clock.now() + next(waits)
        except Exception:
            log.exception("the deliveries of %s cannot be read", label)
            next_check = self.tenants.steady_clock.now() + UNEXPECTED_RETRY_SECONDS
        for delivery in claimed:
            self._add_job(label, delivery)
        if next_check is not None and next_check > self.tenants.steady_clock.now():
            at = self._next_checks.get(label, next_check)
            self._next_checks[label] = min(at, next_check)
        elif next_check is not None and label not in self._backlog:
            self._backlog.append(label)

    def _add_job(self, label: str, delivery: deliveries.ClaimedDelivery) -> None:
        with self._lock:
            self._busy += 1
            self._probing += delivery.probes
            if needs_thread := self._busy > self._threads:
                self._threads += 1
        self._jobs.put((label, delivery))
        if needs_thread:
            threading.Thread(target=self._work, name="delivery", daemon=True).start()

    # The pool: threads that send

    def _work(self) -> None:
        while job := self._jobs.get():
            label, delivery = job
            try:
                self._deliver(label, delivery)
            except Exception:
                log.exception("delivery %s of %s was interrupted", delivery.id, label)
            finally:
                with self._lock:
                    self._busy -= 1
                    self._probing -= delivery.probes
                    self._lock.notify_all()
                self.tenants.wakeup_pipe.notify(label)
                if self._stopped.is_set():  # the next delivery is another node's
                    self.tenants.notify_nodes(label)

    def _deliver(self, label: str, delivery: deliveries.ClaimedDelivery) -> None:
        started = int(self.tenants.clock())
        headers = headers_of_delivery(delivery.secrets, delivery.event_id, started, delivery.body)
        allow = self.tenants.config.webhook_allow
        outcome = call.http_post(delivery.url, headers, delivery.body, allow)
        for delay_seconds in RECORD_DELAYS_SECONDS:
            time.sleep(delay_seconds)
            try:
                with self.tenants.session(label):
                    deliveries.record_outcome(delivery, time_text(started), outcome)
                return
            except (Busy, DatabaseUnavailable):
                continue
            except TenantUnavailable:
                break
            except NotFound:
                return  # the tenant or the webhook was deleted
        log.error(
            "delivery %s of %s could not be recorded: it will be sent again", delivery.id, label
        )
