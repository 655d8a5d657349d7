"""The post: takes messages at once and sends them in the background, outside of any transaction.

SMS and e-mails have a thread each, so that a mail server that hangs keeps no code waiting. It runs
while something waits, in the process that was asked: a server may fork. What fails is tried again
once, after a pause, and then told in one line of the log: never whom it was for or what it said.
Nothing is stored: who got no code asks for another.
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
from crm.messages.mail import Console as MailConsole
from crm.messages.mail import Mail
from crm.messages.sms import SMS
from crm.messages.sms import Console as SMSConsole

MOST = 1000  # of each kind that wait
PAUSE = 5.0  # seconds before the second try
CLOSING = 5.0  # seconds for what waits when the process ends
SHOWN = 300.0  # seconds that a demo shows a text

log = logging.getLogger("crm")


class MessageQueue:
    """`sms()` and `mail()` return at once and never fail; `close()` sends what waits.

    With `keeps`, for a demo only, `last(phone)` tells the last text to that phone. `sends_sms` and
    `sends_mail` are false while messages are only written to the console.
    """

    def __init__(
        self,
        sms: SMS,
        mail: Mail,
        *,
        keeps: bool = False,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._ports = (("an SMS", sms.send), ("an e-mail", mail.send))
        self.sends_sms = not isinstance(sms, SMSConsole)
        self.sends_mail = not isinstance(mail, MailConsole)
        self._pause, self._clock = pause, clock
        self._lines: dict[int, tuple[_Line, _Line]] = {}
        self.keeps = keeps
        self._shown: dict[str, tuple[float, str]] | None = {} if keeps else None
        self._lock = threading.Lock()

    def sms(self, phone: str, text: str) -> None:
        if self._shown is not None:
            with self._lock:
                self._shown[phone] = self._clock() + SHOWN, text
        self._here()[0].put(phone, text)

    def mail(self, to: str, subject: str, text: str) -> None:
        self._here()[1].put(to, subject, text)

    def last(self, phone: str) -> str | None:
        """The text of the last five minutes to that phone; None unless the post keeps them."""
        if self._shown is None:
            return None
        with self._lock:
            now = self._clock()
            self._shown = {to: kept for to, kept in self._shown.items() if kept[0] > now}
            return self._shown[phone][1] if phone in self._shown else None

    def close(self, seconds: float = CLOSING) -> None:
        """Take no more; send what waits, without pauses. What is left then is told in the log."""
        until = time.monotonic() + seconds
        lines = self._here()
        atexit.unregister(self.close)
        for line in lines:
            line.stop()
        for line in lines:
            line.wait(until)

    def _here(self) -> tuple["_Line", "_Line"]:
        """The lines of this process. A fork gets its own: the parent sends what waited before."""
        pid = os.getpid()
        found = self._lines.get(pid)
        if found is None:
            sms, mail = (_Line(what, send, self._pause) for what, send in self._ports)
            found = self._lines.setdefault(pid, (sms, mail))
            atexit.register(self.close)
        return found


class _Line:
    """The messages of one kind that wait, and the thread that sends them."""

    def __init__(self, what: str, send: Callable[..., None], pause: float):
        self._what, self._send, self._pause = what, send, pause
        self._lock = threading.Condition()
        self._waiting: list[tuple[float, int, bool, tuple[str, ...]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._stopping = self._sending = False

    def put(self, *message: str) -> None:
        with self._lock:
            refusal = ""
            if self._stopping:
                refusal = "the service stops"
            elif len(self._waiting) >= MOST:
                refusal = f"{MOST} are waiting already"
            else:
                self._push(0.0, False, message)
                if self._thread is None:
                    refusal = self._start()
        if refusal:
            self._tell(refusal)

    def _start(self) -> str:
        self._thread = threading.Thread(target=self._run, name="post", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # there are too many, or the process is at its end
            self._thread = None
            self._waiting.clear()
            return "no thread could be started"
        return ""

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            self._lock.notify_all()

    def wait(self, until: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._thread is None, max(0.0, until - time.monotonic()))
            left = len(self._waiting) + self._sending
            self._waiting.clear()
        if left:
            self._tell(f"the service stops while {left} of them wait")

    def _run(self) -> None:
        while message := self._next():
            again, text = message
            try:
                self._send(*text)
            except Undelivered as refused:
                self._failed(refused.reason, again or refused.final, text)
            except Exception as error:  # its words may hold the text
                self._failed(f"unexpected {type(error).__name__}", again, text)

    def _next(self) -> tuple[bool, tuple[str, ...]] | None:
        """The next message as soon as it is due, and whether it is tried again."""
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

    def _failed(self, reason: str, final: bool, text: tuple[str, ...]) -> None:
        if final:
            self._tell(reason)
            return
        with self._lock:
            self._push(self._pause, True, text)

    def _push(self, seconds: float, again: bool, text: tuple[str, ...]) -> None:
        due = time.monotonic() + seconds
        heapq.heappush(self._waiting, (due, next(self._numbers), again, text))
        self._lock.notify_all()

    def _tell(self, reason: str) -> None:
        log.warning("%s could not be sent: %s", self._what, reason)
