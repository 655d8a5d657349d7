"""The way from a terminal into the browser, beside a server that has the process for itself."""

import os
import select
import signal
import sys
import webbrowser
from contextlib import suppress

import click

QUESTION = "Open it in the browser? [Y/n] "
YES = ("", "y", "yes", "т", "так")
LOOK_SECONDS = 0.5  # at whether the server has ended


def can_ask() -> bool:
    """Is there somebody at a terminal, and a browser with a window of its own?"""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with suppress(OSError, webbrowser.Error):
        in_front = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        return in_front and type(webbrowser.get()) is not webbrowser.GenericBrowser
    return False


def open_beside(url: str, asks: bool) -> None:
    """Open the address, if `asks` after a yes, in a child process; the caller goes on at once.

    The child holds nothing of the server's, and ends with it. To be called without threads.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, 4096)  # the lock, the listener
        if not asks or _agrees(parent):
            webbrowser.open(url)
    finally:
        os._exit(0)


def _agrees(parent: int) -> bool:
    click.echo(QUESTION, nl=False)
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
        if ready:
            line = sys.stdin.readline()
            return line.endswith("\n") and line.strip().lower() in YES
    return False
