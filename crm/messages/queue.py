"""The queue of SMS and e-mails: they are sent in the background, outside of any transaction.

SMS and e-mails have a thread each, so that a mail server that hangs delays no SMS code. A thread
runs while messages wait, in the process that enqueued them, because a server may fork. A message
that fails is tried once more after a pause; then one line of the log names the reason, without the
recipient or the text. Nothing is stored: a user who got no code can request another.
"""

import atexit
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

from crm.messages import Undelivered
from crm.messages.mail import ConsoleMailSender, MailSender
from crm.messages.sms import ConsoleSMSSender, SMSSender

MAX_WAITING = 1000  # SMS, and as many e-mails
RETRY_DELAY_SECONDS = 5.0
CLOSE_TIMEOUT_SECONDS = 5.0  # for messages that wait when the process ends
SHOWN_SECONDS = 300.0  # for how long a demo shows an SMS

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
        self._channels = (("an SMS", sms.send), ("an e-mail", mail.send))
        self.sends_sms = not isinstance(sms, ConsoleSMSSender)
        self.sends_mail = not isinstance(mail, ConsoleMailSender)
        self._retry_seconds, self._clock = retry_seconds, clock
        self._queues: dict[int, tuple[_ChannelQueue, _ChannelQueue]] = {}  # by process id
        self.keeps_texts = keeps_texts
        self._last_texts: dict[str, tuple[float, str]] = {}  # by phone: shown until, text
        self._lock = threading.Lock()

    def enqueue_sms(self, phone: str, text: str) -> None:
        """Send the text soon to a phone in E.164."""
        if self.keeps_texts:
            with self._lock:
                self._last_texts[phone] = self._clock() + SHOWN_SECONDS, text
        self._get_queues()[0].enqueue(phone, text)

    def enqueue_mail(self, to: str, subject: str, text: str) -> None:
        """Send the plain text soon to an e-mail address."""
        self._get_queues()[1].enqueue(to, subject, text)

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
        deadline = time.monotonic() + seconds
        queues = self._get_queues()
        atexit.unregister(self.close)
        for queue in queues:
            queue.stop()
        for queue in queues:
            queue.wait(deadline)

    def _get_queues(self) -> tuple["_ChannelQueue", "_ChannelQueue"]:
        """Return the queues of this process: after a fork, the parent sends what waited before."""
        pid = os.getpid()
        queues = self._queues.get(pid)
        if queues is None:
            sms, mail = (
                _ChannelQueue(message_kind, send, self._retry_seconds)
                for message_kind, send in self._channels
            )
            queues = self._queues.setdefault(pid, (sms, mail))
            atexit.register(self.close)
        return queues


class _ChannelQueue:
    """The messages of one kind that wait, and the thread that sends them."""

    def __init__(self, message_kind: str, send: Callable[..., None], retry_seconds: float):
        """`message_kind` is how the log names a message, as in "an SMS"."""
        self._message_kind, self._send, self._retry_seconds = message_kind, send, retry_seconds
        self._lock = threading.Condition()
        # A heap of (when due, number, whether it is the second try, arguments of `send`).
        self._waiting: list[tuple[float, int, bool, tuple[str, ...]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._stopping = self._sending = False

    def enqueue(self, *message: str) -> None:
        """Add a message, the arguments of `send`; log a warning if it cannot be taken."""
        with self._lock:
            refusal = ""
            if self._stopping:
                refusal = "the service stops"
            elif len(self._waiting) >= MAX_WAITING:
                refusal = f"{MAX_WAITING} are waiting already"
            else:
                self._push(0.0, False, message)
                if self._thread is None:
                    refusal = self._start()
        if refusal:
            self._log_failure(refusal)

    def _start(self) -> str:
        """Start the thread; return why it could not be started, or an empty text."""
        self._thread = threading.Thread(target=self._run, name="messages", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # too many threads, or the process is ending
            self._thread = None
            self._waiting.clear()
            return "no thread could be started"
        return ""

    def stop(self) -> None:
        """Accept no more messages, and send the waiting ones without pauses."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()

    def wait(self, deadline: float) -> None:
        """Wait until all is sent, or drop the rest at the deadline in monotonic seconds."""
        with self._lock:
            self._lock.wait_for(lambda: self._thread is None, max(0.0, deadline - time.monotonic()))
            unsent = len(self._waiting) + self._sending
            self._waiting.clear()
        if unsent:
            self._log_failure(f"the service stops while {unsent} of them wait")

    def _run(self) -> None:
        while next_message := self._wait_for_next():
            is_retry, message = next_message
            try:
                self._send(*message)
            except Undelivered as error:
                self._retry_or_log(error.reason, is_retry or error.final, message)
            except Exception as error:  # its text may contain the message
                self._retry_or_log(f"unexpected {type(error).__name__}", is_retry, message)

    def _wait_for_next(self) -> tuple[bool, tuple[str, ...]] | None:
        """Return the next message when it is due, with whether it is a retry; None: none waits."""
        with self._lock:
            self._sending = False
            while self._waiting:
                seconds = self._waiting[0][0] - time.monotonic()
                if seconds <= 0 or self._stopping:
                    self._sending = True
                    return heapq.heappop(self._waiting)[2:]
                self._lock.wait(seconds)
            self._thread = None
            self._lock.notify_all()
            return None

    def _retry_or_log(self, reason: str, is_final: bool, message: tuple[str, ...]) -> None:
        if is_final:
            self._log_failure(reason)
            return
        with self._lock:
            self._push(self._retry_seconds, True, message)

    def _push(self, seconds: float, is_retry: bool, message: tuple[str, ...]) -> None:
        due = time.monotonic() + seconds
        heapq.heappush(self._waiting, (due, next(self._numbers), is_retry, message))
        self._lock.notify_all()

    def _log_failure(self, reason: str) -> None:
        log.warning("%s could not be sent: %s", self._message_kind, reason)
