"""The queue of SMS and e-mails: they are sent in the background, outside of any transaction.

SMS and e-mails have a thread each, so that a mail server that hangs delays no SMS code. A message
that fails is tried once more after a pause; then one line of the log names the reason, without the
recipient or the text. Nothing is stored: a user who got no code can request another.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from crm.messages import Attachment, Undelivered
from crm.messages.mail import ConsoleMailSender, MailSender
from crm.messages.sms import ConsoleSMSSender, SMSSender
from crm.work_queue import WorkQueue

MAX_WAITING = 1000  # SMS, and as many e-mails
MAX_WAITING_WITH_FILES = 20  # e-mails: while more wait, others go without their attachments
RETRY_DELAY_SECONDS = 5.0
CLOSE_TIMEOUT_SECONDS = 5.0  # for messages that wait when the process ends
SHOWN_SECONDS = 300.0  # for how long a demo shows an SMS
SMS, MAIL = "an SMS", "an e-mail"

log = logging.getLogger("crm")


class MessageQueue:
    """Sends SMS and e-mails in the background: enqueueing returns at once and raises nothing.

    `sends_sms` and `sends_mail` are False while messages are only written to the console.
    """

    def __init__(
        self,
        sms: SMSSender,
        mail: MailSender,
        *,
        keeps_texts: bool = False,
        retry_seconds: float = RETRY_DELAY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`keeps_texts`, for a demo only: get_last_sms() shows what was sent.

        `retry_seconds` is the pause before the second try.
        """
        # How to send a kind, by the name that the log has for one of it.
        self._senders: dict[str, Callable[..., None]] = {SMS: sms.send, MAIL: mail.send}
        self._queues = {kind: WorkQueue("messages", self.close) for kind in self._senders}
        self._is_closed = False
        self.sends_sms = not isinstance(sms, ConsoleSMSSender)
        self.sends_mail = not isinstance(mail, ConsoleMailSender)
        self._retry_seconds, self._clock = retry_seconds, clock
        self.keeps_texts = keeps_texts
        self._last_texts: dict[str, tuple[float, str]] = {}  # by phone: shown until, text
        self._lock = threading.Lock()

    def enqueue_sms(self, phone: str, text: str) -> None:
        """Send the text soon to a phone in E.164."""
        if self.keeps_texts:
            with self._lock:
                self._last_texts[phone] = self._clock() + SHOWN_SECONDS, text
        self._enqueue(SMS, phone, text)

    def enqueue_mail(
        self, to: str, subject: str, text: str, attachment: Attachment | None = None
    ) -> None:
        """Send the plain text soon to an e-mail address.

        An attachment is left out while many e-mails wait: it is held in memory.
        """
        has_room = self._queues[MAIL].count_waiting() < MAX_WAITING_WITH_FILES
        self._enqueue(MAIL, to, subject, text, *([attachment] if attachment and has_room else []))

    def get_last_sms(self, phone: str) -> str | None:
        """Return the last SMS to the phone within SHOWN_SECONDS; None unless texts are kept."""
        with self._lock:
            now = self._clock()
            self._last_texts = {
                to: (shown_until, text)
                for to, (shown_until, text) in self._last_texts.items()
                if shown_until > now
            }
            return self._last_texts[phone][1] if phone in self._last_texts else None

    def close(self, seconds: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Accept no more messages and send those that wait, without pauses before second tries.

        After `seconds` the rest is dropped, and the log says how many.
        """
        self._is_closed = True
        deadline = time.monotonic() + seconds
        for queue in self._queues.values():
            queue.hurry()
        for kind, queue in self._queues.items():
            if unsent := queue.close(max(0.0, deadline - time.monotonic())):
                _log_failure(kind, f"the service stops while {unsent} of them wait")

    def _enqueue(self, kind: str, *message: Any) -> None:
        """Let a message, the arguments of `send`, be sent; log a warning if it cannot be taken."""
        queue = self._queues[kind]
        if self._is_closed:
            _log_failure(kind, "the service stops")
        elif queue.count_waiting() >= MAX_WAITING:
            _log_failure(kind, f"{MAX_WAITING} are waiting already")
        elif not queue.add(partial(self._send, kind, message)):
            _log_failure(kind, "no thread could be started")

    def _send(self, kind: str, message: tuple[Any, ...], is_retry: bool = False) -> None:
        try:
            self._senders[kind](*message)
            return
        except Undelivered as error:
            reason, is_final = error.reason, error.final
        except Exception as error:  # its text may contain the message
            reason, is_final = f"unexpected {type(error).__name__}", False
        if is_retry or is_final:
            _log_failure(kind, reason)
        else:
            retry = partial(self._send, kind, message, is_retry=True)
            self._queues[kind].add(retry, self._retry_seconds)


def _log_failure(kind: str, reason: str) -> None:
    log.warning("%s could not be sent: %s", kind, reason)
