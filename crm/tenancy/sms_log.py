"""SMS of the last day for all processes of this machine: `<data>/sms.log`.

The file is a header and records of one size: a time, the kind of the record, and the keyed digests
of the recipient (a phone, or a known browser), of the requesting networks, and of the tenant. A
request of a code for a phone that no user has is a record too, of the kind UNSENT, so that it takes
as long as a sent one. WARNED notes that the operator was warned of a budget.

The whole file is read under a lock, as SMS are rare. A new record replaces an expired one, else it
is appended. Sent SMS are bounded by their budgets. Strangers can cause any number of UNSENT ones:
beyond MAX_UNSENT a new one replaces the oldest of them.

`crm.tenancy.redis_sms_log` keeps the same records for all machines that share a Redis
(`CRM_LIMITS`), and uses this file while it cannot be used.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from crm.errors import StorageFull
from crm.tenancy.counters import keyed_digest
from crm.tenancy.file_errors import Cause, cause_of

UNSENT, SIGNUP, GENERAL, RESERVE, WARNED = range(5)  # kinds; the three in between are sent SMS
SENT = (SIGNUP, GENERAL, RESERVE)
REQUEST_KINDS = (UNSENT, *SENT)
# Epoch seconds, kind, recipient, network (an address or /64), network (an address or /48), tenant.
RECORD = struct.Struct("=dB7x16s16s16s16s")
POSITIONS = {"recipient": 2, "network": 3, "network48": 4, "tenant": 5}
NOBODY = bytes(16)
HEADER = b"crm sms, layout 2\n".ljust(RECORD.size, b"\0")
MAX_UNSENT = 4096
DAY_SECONDS = 86_400

Record = tuple[float, int, bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """Fewer records than `limit` of these kinds and names in the last `seconds` have room for one.

    Either `kinds` are REQUEST_KINDS, or each is one of SENT and `names` has at most a tenant.
    """

    limit: int
    seconds: int  # at most DAY_SECONDS
    kinds: tuple[int, ...]
    names: Mapping[str, str] = field(default_factory=dict)  # by the keywords of POSITIONS


@dataclass(frozen=True, slots=True)
class SmsRequest:
    """An SMS that is asked for, and the limits that decide on it."""

    names: Mapping[str, str]  # recipient and networks, by the keywords of POSITIONS
    tenant: str  # empty for a sign-up
    limits: Sequence[RecordLimit]  # all must have room
    # Kinds of SENT with limits: it is counted as the first kind whose limits all have room.
    kinds: Sequence[tuple[int, Sequence[RecordLimit]]]
    is_sent: bool  # else it is counted as UNSENT, if it could be sent
    # Limits to warn of once a day, and from how many records on; by name.
    warnings: Mapping[str, tuple[RecordLimit, int]]


class AnySmsLog(Protocol):
    """Records of the last 24 hours, wherever they are."""

    def take(self, request: SmsRequest, moment: float) -> tuple[bool, dict[str, int]]:
        """Add a record of an SMS if the limits have room for it, by one atomic operation.

        `moment` is in epoch seconds. Returns whether it was added, and the warnings that are due
        now: by name how many records there are. Raises StorageFull.
        """
        ...

    def count(self, limits: Sequence[RecordLimit], moment: float) -> list[int]:
        """Return how many records each limit counts; nothing is written."""
        ...


class SmsLog:
    """Records of the last 24 hours in a file, which a lock keeps for one reader or writer."""

    def __init__(self, folder: Path, secret: Callable[[], bytes]):
        """`secret` returns the installation's key, with which names are digested."""
        self._path = folder / "sms.log"
        self._secret = secret

    def take(self, request: SmsRequest, moment: float) -> tuple[bool, dict[str, int]]:
        """See AnySmsLog.take()."""
        with self.locked(moment) as records:
            kind = next((kind for kind, limits in request.kinds if records.have_room(limits)), None)
            allowed = records.have_room(request.limits) and kind is not None
            if allowed and kind is not None and request.is_sent:
                records.add(kind, **request.names, tenant=request.tenant)
            elif allowed:
                records.add(UNSENT, **request.names)
            warnings = {}
            for name, (limit, enough) in request.warnings.items():
                used, row = records.count_of(limit), f"budget/{name}"
                if used >= enough and not records.count(DAY_SECONDS, [WARNED], recipient=row):
                    records.add(WARNED, recipient=row)
                    warnings[name] = used
        return allowed, warnings

    def count(self, limits: Sequence[RecordLimit], moment: float) -> list[int]:
        """See AnySmsLog.count()."""
        records = self.read(moment)
        return [records.count_of(limit) for limit in limits]

    @contextmanager
    def locked(self, moment: float) -> Iterator["SmsRecords"]:
        """Lock the file and return the records of the day before `moment`, in epoch seconds.

        Raises StorageFull.
        """
        try:
            key = self._secret()
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # ends with the descriptor, or the process
                raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
                if raw[: RECORD.size] != HEADER:
                    os.pwrite(descriptor, HEADER, 0)
                    os.ftruncate(descriptor, len(HEADER))
                    raw = HEADER
                yield SmsRecords(raw, key, moment, descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if cause_of(error) is Cause.FULL:
                raise StorageFull from error
            raise

    def read(self, moment: float) -> "SmsRecords":
        """Return the records of the day before `moment` for counting only; nothing is written."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return SmsRecords(HEADER, b"", moment)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            raw = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        finally:
            os.close(descriptor)
        return SmsRecords(raw if raw[: RECORD.size] == HEADER else HEADER, self._secret(), moment)


class SmsRecords:
    """The records, while the file is locked; without a `descriptor` they can only be counted."""

    def __init__(self, raw: bytes, key: bytes, moment: float, descriptor: int | None = None):
        self._descriptor, self._key, self._moment = descriptor, key, moment
        complete_bytes = len(raw) - len(raw) % RECORD.size
        self._records: list[Record] = list(RECORD.iter_unpack(raw[RECORD.size : complete_bytes]))
        for number, record in enumerate(self._records):
            if not record[0] <= moment:  # the clock was set back; it would count for too long
                self._write(number, (moment, *record[1:]))

    def count(self, seconds: int, kinds: Collection[int], **names: str) -> int:
        """Count the records of the last `seconds`, at most DAY_SECONDS, of these kinds and names.

        The keywords of `names` are those of POSITIONS.
        """
        since, records = self._moment - seconds, self._records
        for keyword, name in names.items():  # first: they leave the fewest
            position, digest = POSITIONS[keyword], self._digest(keyword, name)
            records = [record for record in records if record[position] == digest]
        return sum(record[1] in kinds and record[0] > since for record in records)

    def count_of(self, limit: RecordLimit) -> int:
        """Count the records that a limit is about."""
        return self.count(limit.seconds, limit.kinds, **limit.names)

    def have_room(self, limits: Sequence[RecordLimit]) -> bool:
        """Whether one more record is allowed by all limits."""
        return all([self.count_of(limit) < limit.limit for limit in limits])

    def add(self, kind: int, **names: str) -> None:
        """Add a record: an SMS that is about to be sent, or another kind."""
        recipient, network, network48, tenant = (
            self._digest(field, names.get(field, "")) for field in POSITIONS
        )
        record = (self._moment, kind, recipient, network, network48, tenant)
        self._write(self._number_for(kind), record)

    def _number_for(self, kind: int) -> int:
        expired_before = self._moment - DAY_SECONDS
        unsent = []
        for number, record in enumerate(self._records):
            if record[0] <= expired_before:
                return number
            if record[1] == UNSENT:
                unsent.append((record[0], number))
        if kind == UNSENT and len(unsent) >= MAX_UNSENT:
            return min(unsent)[1]
        return len(self._records)

    def _digest(self, field: str, name: str) -> bytes:
        return keyed_digest(self._key, f"{field}/{name}") if name else NOBODY

    def _write(self, number: int, record: Record) -> None:
        self._records[number : number + 1] = [record]
        if self._descriptor is None:
            return
        raw = RECORD.pack(*record)
        if os.pwrite(self._descriptor, raw, (1 + number) * RECORD.size) < len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
