"""Sends alerts by e-mail and Telegram, in threads of the process that sends the deliveries.

The sender of deliveries looks at tenants when something is due, and names those with alerts.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from crm.alerts import sending
from crm.alerts.alerts import Alert
from crm.alerts.sending import ClaimedAlerts
from crm.errors import NotFound
from crm.installation.tenants import Tenants
from crm.messages import Undelivered
from crm.work_queue import WorkQueue

THREADS = 4  # each tenant has one of them
RETRY_SECONDS = 60.0  # until the next look at a tenant after an error
CLOSE_TIMEOUT_SECONDS = 5.0

Send = Callable[[str, str, str], None]  # (address, subject, text); raises Undelivered
WriteMessage = Callable[[str | None, list[Alert]], tuple[str, str]]  # language -> subject, text

log = logging.getLogger("crm")


class AlertSender:
    """Sends the alerts of tenants that it is told of."""

    def __init__(self, tenants: Tenants, senders: Mapping[str, Send], write_message: WriteMessage):
        """`senders` are those that the installation has, by channel."""
        self._tenants, self._senders, self._write_message = tenants, senders, write_message
        self._queues = [WorkQueue("alerts", self.close) for _ in range(THREADS)]
        self._labels: set[str] = set()  # of tenants that wait for their thread
        self._lock = threading.Lock()

    def look_after(self, label: str, delay_seconds: float = 0.0) -> None:
        """Send soon what is due of a tenant."""
        with self._lock:
            if label not in self._labels:
                queue = self._queues[hash(label) % THREADS]
                if queue.add(partial(self._send_due, label), delay_seconds):
                    self._labels.add(label)

    def close(self) -> None:
        """Finish what is being sent, and send nothing more."""
        for queue in self._queues:
            queue.close(CLOSE_TIMEOUT_SECONDS)

    def _send_due(self, label: str) -> None:
        with self._lock:
            self._labels.discard(label)
        try:
            goes_on = self._send_some(label)
        except NotFound:
            return  # the tenant was deleted
        except Exception as error:
            log.warning("alerts of %s are sent later: %s", label, type(error).__name__)
            self.look_after(label, RETRY_SECONDS)
            return
        if goes_on:
            self.look_after(label)  # after the others that wait for this thread
        else:
            self._tenants.wakeup_pipe.notify(label)  # for what is due later

    def _send_some(self, label: str) -> bool:
        """Send what is due of one user, and return whether there was anything."""
        with self._tenants.session(label, sweeps_expired=False):
            claimed = sending.claim(secrets.token_hex(8))
            messages = list(self._messages(claimed)) if claimed else []
        if claimed is None:
            return False
        failed: dict[int, list[str]] = {}
        unsent: set[int] = set()
        stop_at = time.monotonic() + sending.LEASE_SECONDS / 2
        for alerts, channel, message in messages:
            ids = [alert.id for alert in alerts]
            if time.monotonic() > stop_at:
                unsent.update(ids)
            elif not self._send(channel, claimed.addresses[channel], message):
                for id in ids:
                    failed.setdefault(id, []).append(channel)
        with self._tenants.session(label, sweeps_expired=False):
            sending.record_outcome(claimed, failed, unsent - failed.keys())
        return True

    def _messages(
        self, claimed: ClaimedAlerts
    ) -> Iterator[tuple[list[Alert], str, tuple[str, str]]]:
        """(alerts, channel, subject and text) of each message to be sent."""
        groups = [claimed.alerts] if claimed.is_digest else [[alert] for alert in claimed.alerts]
        for group in groups:
            for channel in self._senders.keys() & claimed.addresses.keys():
                told = [alert for alert in group if channel in alert.channels.split(",")]
                if told:
                    yield told, channel, self._write_message(claimed.language, told)

    def _send(self, channel: str, address: str, message: tuple[str, str]) -> bool:
        """Send a message, and return False if another try may succeed."""
        try:
            self._senders[channel](address, *message)
            return True
        except Undelivered as error:
            log.warning("an alert could not be sent by %s: %s", channel, error.reason)
            return error.final
        except Exception as error:  # its text may contain the message
            log.warning("an alert could not be sent by %s: %s", channel, type(error).__name__)
            return False
