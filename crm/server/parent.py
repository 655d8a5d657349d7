"""End a process when its parent ends, even if the parent is killed."""

import ctypes
import os
import signal
import threading
import time

CHECK_SECONDS = 0.5


def end_with(parent: int) -> None:
    """End this process as soon as `parent` does, even when that is killed."""
    if not _kernel_ends_us():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)  # the parent had died before the kernel was asked


def _kernel_ends_us() -> bool:
    set_parent_death_signal = 1
    try:
        return ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(CHECK_SECONDS)
    os._exit(1)
