"""Sends alerts by e-mail and Telegram, in threads of the process that sends the deliveries.

The sender of deliveries looks at tenants when something is due, and names those with alerts.
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from crm.alerts import sending
from crm.alerts.alerts import Alert
from crm.errors import NotFound
from crm.installation.tenants import Tenants
from crm.messages import Undelivered
from crm.storage.clocks import steady_now
from crm.work_queue import WorkQueue

THREADS = 4  # each tenant has one of them
# After each message: Telegram takes 30 a second of a bot, and each one keeps other writers waiting.
PAUSE_SECONDS = 0.03
RETRY_SECONDS = 60.0  # until the next look at a tenant after an error
CLOSE_TIMEOUT_SECONDS = 5.0

Send = Callable[[str, str, str], None]  # (address, subject, text); raises Undelivered
WriteMessage = Callable[[str | None, list[Alert]], tuple[str, str]]  # language -> subject, text

log = logging.getLogger("crm")


class AlertSender:
    """Sends the alerts of tenants that it is told of."""

    def __init__(
        self,
        tenants: Tenants,
        senders: Mapping[str, Send],
        write_message: WriteMessage,
        receiving: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        """`senders` are those that the installation has, by channel.

        `receiving()` receives answers in a `with` block, which the sender of deliveries enters
        while it is the one that sends.
        """
        self._tenants, self._senders, self._write_message = tenants, senders, write_message
        self.receiving = receiving
        self._queues = [WorkQueue("alerts", self.close) for _ in range(THREADS)]
        self._labels: set[str] = set()  # of tenants that wait for their thread
        self._known: set[str] = set()  # of tenants that were looked at
        self._random = secrets.token_hex(8)
        self._lock = threading.Lock()

    def check(self, label: str) -> None:
        """Send soon what is due of the tenant of the current session."""
        due = sending.next_due()
        # At the first look, what another sender had claimed when it died is due as well.
        if due and (due <= steady_now() or label not in self._known):
            self._known.add(label)
            self.look_after(label)

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
            has_sent = self._send_next(label)
        except NotFound:
            return  # the tenant was deleted
        except Exception as error:
            log.warning("alerts of %s are sent later: %s", label, type(error).__name__)
            self.look_after(label, RETRY_SECONDS)
            return
        if has_sent:
            self.look_after(label)  # after the others that wait for this thread
        else:
            self._tenants.wakeup_pipe.notify(label)  # for what is due later

    def _send_next(self, label: str) -> bool:
        """Send the next message by each channel; return False if nothing is due."""
        with self._tenants.session(label, sweeps_expired=False):
            if (claimed := sending.claim(f"{os.getpid()} {self._random}")) is None:
                return False
            messages = list(self._messages(claimed))
        failed: dict[int, list[str]] = {}
        for alerts, channel, message in messages:
            if not self._send(channel, claimed.addresses[channel], message):
                for alert in alerts:
                    failed.setdefault(alert.id, []).append(channel)
        with self._tenants.session(label, sweeps_expired=False):
            sending.record_outcome(claimed, failed)
        time.sleep(PAUSE_SECONDS)
        return True

    def _messages(
        self, claimed: sending.ClaimedAlerts
    ) -> Iterator[tuple[list[Alert], str, tuple[str, str]]]:
        """(alerts, channel, subject and text) of what is to be sent by each channel."""
        for channel in self._senders.keys() & claimed.addresses.keys():
            alerts = [alert for alert in claimed.alerts if channel in alert.channels.split(",")]
            if alerts:
                yield alerts, channel, self._write_message(claimed.language, alerts)

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
