"""One writer at a time for one file; and changes of one tenant that came at once, in one commit.

A COMMIT writes to the disk and waits for it, which takes longer than the change itself. Between
`collect()` and `finish()` the transactions of a thread join a group: each has a savepoint, so that
one that fails undoes its own changes alone, and finish() commits all. The caller, the server's
loop, sends no answer of a request that joined before that, and another one if the commit failed.

Only transactions of sessions with `joins_groups` join, which are known to be short. Whatever else
in the thread takes the lock of a tenant commits the group first.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crm.activity import waiting
from crm.errors import Busy
from crm.log import log
from crm.storage.file_errors import FILE_ERRORS

MAX_LOCK_WAIT_SECONDS = 10.0  # that a writer waits for its turn before Busy
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.0001, 0.01  # between two tries


class WriterLock:
    """The lock of one file, held by one thread of one process; `path` is the lock's own file."""

    def __init__(self, path: Path):
        self._path = path
        self._threads = threading.Lock()
        # The open file, while the lock is held: a child that gets it holds the lock, too.
        self.descriptor = -1

    def acquire(self, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> None:
        """Take the lock; a group of this thread that holds one is committed.

        Raises Busy if it is not free in time, OSError if it can't be opened.
        """
        commit()
        deadline = time.monotonic() + wait_seconds
        if not self._threads.acquire(blocking=False):
            with waiting():
                if not self._threads.acquire(timeout=wait_seconds):
                    raise Busy
        try:
            self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            pause = FIRST_PAUSE_SECONDS
            while True:
                try:
                    fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    if time.monotonic() + pause > deadline:
                        raise Busy from None
                    with waiting():
                        time.sleep(pause)
                    pause = min(pause * 1.5, MAX_PAUSE_SECONDS)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give up the lock, which this thread holds."""
        if self.descriptor >= 0:
            # Unlocked too: a child that was forked meanwhile keeps the file open.
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1
        self._threads.release()

    @contextmanager
    def __call__(self, wait_seconds: float = MAX_LOCK_WAIT_SECONDS) -> Iterator[None]:
        """Hold the lock in a `with` block. Raises what `acquire` does."""
        self.acquire(wait_seconds)
        try:
            yield
        finally:
            self.release()


class Group:
    """The open transaction of a tenant, which sessions of one thread join one after the other.

    tenant: a `sqlite.tenant.Tenant`, whose lock the thread holds. writer: a connection that has
    begun a transaction.
    """

    def __init__(self, tenant: Any, writer: Any):
        self.tenant, self.writer = tenant, writer
        self.callbacks: list[Callable[[], None]] = []  # to be called once it is committed
        self.has_failed = False  # nothing of what its members wrote is there
        self.is_busy = False  # a member's transaction is under way
        self._session: Any = None  # the last one that joined

    def join(self, session: Any) -> None:
        """Begin the transaction of a session."""
        self.writer.execute("SAVEPOINT request")
        self._release_session()
        session.group, session.connection = self, self.writer
        self._session, self.is_busy = session, True
        _thread.joined = self

    def leave(self) -> None:
        """End the transaction of the session, which from now on reads what the group wrote."""
        self.writer.execute("RELEASE request")
        self.is_busy = False

    def undo(self) -> None:
        """Undo what the session wrote; all members if SQLite has ended the transaction."""
        self.is_busy = False
        if self.writer.in_transaction:
            self.writer.execute("ROLLBACK TO request")
            self.writer.execute("RELEASE request")
        else:  # such as when the disk is full
            self.has_failed, _thread.group = True, None
            self._end()

    def commit(self) -> None:
        """Commit what the members wrote, and call their callbacks; or set `has_failed`."""
        try:
            self.writer.execute("COMMIT")
        except FILE_ERRORS as error:
            self.has_failed = True
            if self.tenant.refusal(error) is None:
                log.exception("changes of %s could not be committed", self.tenant.label)
        finally:
            self._end()
        for callback in self.callbacks if not self.has_failed else ():
            callback()

    def _end(self) -> None:
        self._release_session()
        try:
            if self.writer.in_transaction:
                self.writer.rollback()
        finally:
            self.tenant.lock.release()
            self.tenant.give(self.writer, writes=True)

    def _release_session(self) -> None:
        if self._session is not None:
            self._session.group, self._session.connection = None, self._session.reader


class _Thread(threading.local):
    collects = False
    group: Group | None = None  # the open one
    joined: Group | None = None  # by the request that runs, or ran last


_thread = _Thread()


def collect() -> None:
    """Let transactions of this thread join groups, until finish()."""
    _thread.collects = True


def begin_request() -> None:
    """Note that a request begins: joined_group() is about this one."""
    _thread.joined = None


def joined_group() -> Group | None:
    """Return the group that the request has joined; None if its answer needs no commit."""
    return _thread.joined


def join(tenant: Any, session: Any) -> bool:
    """Begin a session's transaction in the open group of this thread.

    Returns False if there is none to join; then an open one is committed.
    """
    group = _thread.group
    if group is None:
        return False
    is_same_file = group.tenant is tenant and group.writer.file == session.reader.file
    if is_same_file and session.joins_groups:
        group.join(session)
        return True
    commit()
    return False


def open_group(tenant: Any, writer: Any, session: Any) -> None:
    """Make the transaction that a session has just begun a group that others join."""
    if _thread.collects and session.joins_groups:
        _thread.group = group = Group(tenant, writer)
        group.join(session)


def commit() -> None:
    """Commit the open group of this thread, if there is one, unless a member is under way."""
    group = _thread.group
    if group is not None and not group.is_busy:
        _thread.group = None
        group.commit()


def finish() -> None:
    """Commit the open group, and collect no more."""
    _thread.collects = False
    commit()
