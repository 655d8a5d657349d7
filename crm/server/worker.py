"""A worker for gunicorn with an event loop of its own (`loop.py`)."""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

from gunicorn.workers.base import Worker as BaseWorker

from crm.server.loop import Loop

# The signals that stop a worker; the parent blocks them until the worker has its handlers.
STOPS = {signal.SIGTERM, signal.SIGQUIT}
# How long a computing thread keeps the others waiting. Python's default is 5 ms, and the loop
# needs its turn several times per request.
SWITCH_SECONDS = 0.0001
NOTIFY_SECONDS = 1.0
SET_PARENT_DEATH_SIGNAL = 1  # of prctl
SET_MMAP_THRESHOLD = -3  # of glibc's mallopt
# A larger block has pages of its own, given back when it is freed. By default glibc raises that
# to the largest block freed so far: two workers have 5 MB more after all pages of a large tenant.
MMAP_THRESHOLD_BYTES = 1024 * 1024
LIBC = ctypes.CDLL(None)


class Worker(BaseWorker):
    """Serves one application over HTTP/1.1, with the limits of `Loop`."""

    loop_class: type[Loop] = Loop
    number = 0  # among the workers of the server

    def init_process(self) -> None:
        end_with_parent(self.ppid)
        with suppress(AttributeError):
            LIBC.mallopt(SET_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        super().init_process()

    def init_signals(self) -> None:
        super().init_signals()
        # A terminal sends these to every process of its group, but only the parent acts on them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def run(self) -> None:
        """Supervise the threads that run the loop, until it has ended."""
        sys.setswitchinterval(SWITCH_SECONDS)
        if transfers := self.loop_class.TRANSFERS:
            transfers.begin(self.number)
        loop = self.loop_class(
            self.wsgi,
            self.sockets,
            workers=self.cfg.workers,
            threads=self.cfg.threads,
            keepalive=self.cfg.keepalive,
            stop_seconds=self.cfg.graceful_timeout,
            log=self.log,
        )
        hand_over = loop.runner.hand_over
        hand_over.wake_supervisor = self.PIPE[1]
        hand_over.start_thread()
        wakeup = select.poll()
        wakeup.register(self.PIPE[0], select.POLLIN)  # signals wake it too
        notify_at = 0.0
        while hand_over.exit_code is None:
            if not self.alive and loop.alive:
                loop.stop()
            if time.monotonic() >= notify_at:
                self.notify()
                give_back_memory()
                notify_at = time.monotonic() + NOTIFY_SECONDS
            if wakeup.poll(hand_over.check_task() * 1000):
                os.read(self.PIPE[0], 4096)
            hand_over.note_awake()
        loop.close()
        if hand_over.exit_code:
            sys.exit(hand_over.exit_code)


def give_back_memory() -> None:
    """Have glibc give back the pages that are free between allocations, of each thread.

    It takes 0.03 ms if there are few.
    """
    with suppress(AttributeError):
        LIBC.malloc_trim(0)


def end_with_parent(parent: int) -> None:
    """Have Linux kill this process as soon as its parent ends, even if that is killed."""
    with suppress(OSError, AttributeError):
        LIBC.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it was killed before
        os.kill(os.getpid(), signal.SIGKILL)
