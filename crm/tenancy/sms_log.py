"""When SMS of the last day were sent, for all processes of an installation: `<data>/sms.log`.

The file is a header and records of one size: a moment, and the keyed digests of the phone and of
the network that asked for it. It is read as a whole under a lock, for SMS are rare. A new record
takes the place of one that is over, else it is appended.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crm.errors import StorageFull
from crm.tenancy.counters import keyed_digest
from crm.tenancy.file_errors import Cause, cause_of

RECORD = struct.Struct("=d16s16s")  # epoch seconds, phone, network
HEADER = b"crm sms, layout 1\n".ljust(RECORD.size, b"\0")
DAY = 86_400


class SmsLog:
    """Records of all SMS in the last 24 hours."""

    def __init__(self, folder: Path, secret: Callable[[], bytes]):
        """`secret` gives the installation's key, with which phones and networks are digested."""
        self._path = folder / "sms.log"
        self._secret = secret

    @contextmanager
    def locked(self, moment: float) -> Iterator["SentSms"]:
        """What was sent in the day before `moment`; nobody else reads or writes meanwhile.

        Raises StorageFull.
        """
        try:
            key = self._secret()
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # ends with the descriptor, or the process
                yield SentSms(descriptor, key, moment)
            finally:
                os.close(descriptor)
        except OSError as error:
            if cause_of(error) is Cause.FULL:
                raise StorageFull from error
            raise


class SentSms:
    """The records, while the file is locked."""

    def __init__(self, descriptor: int, key: bytes, moment: float):
        self._descriptor, self._key, self._moment = descriptor, key, moment
        size = os.fstat(descriptor).st_size
        raw = os.pread(descriptor, size, 0)
        if raw[: RECORD.size] != HEADER:
            os.pwrite(descriptor, HEADER, 0)
            os.ftruncate(descriptor, len(HEADER))
            raw = HEADER
        whole = len(raw) - len(raw) % RECORD.size
        self._records = list(RECORD.iter_unpack(raw[RECORD.size : whole]))
        for number, (sent, phone, network) in enumerate(self._records):
            if not sent <= moment:  # the clock was set back: as if sent now, or it counts for long
                self._write(number, (moment, phone, network))

    def count(self, seconds: int, phone: str | None = None, network: str | None = None) -> int:
        """How many were sent in the last `seconds`, at most DAY: to a phone, for a network."""
        since = self._moment - seconds
        to = None if phone is None else keyed_digest(self._key, f"phone/{phone}")
        of = None if network is None else keyed_digest(self._key, f"network/{network}")
        return sum(
            sent > since and to in (None, sent_to) and of in (None, sent_for)
            for sent, sent_to, sent_for in self._records
        )

    def add(self, phone: str, network: str) -> None:
        """Note one that is about to be sent."""
        over = self._moment - DAY
        number = next(
            (number for number, record in enumerate(self._records) if record[0] <= over),
            len(self._records),
        )
        to = keyed_digest(self._key, f"phone/{phone}")
        self._write(number, (self._moment, to, keyed_digest(self._key, f"network/{network}")))

    def _write(self, number: int, record: tuple[float, bytes, bytes]) -> None:
        self._records[number : number + 1] = [record]
        raw = RECORD.pack(*record)
        if os.pwrite(self._descriptor, raw, (1 + number) * RECORD.size) < len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
