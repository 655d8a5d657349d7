"""Open the browser for a server that is about to take over this process."""

import os
import select
import signal
import sys
import webbrowser
from contextlib import suppress

import click

QUESTION = "Open it in the browser? [Y/n] "
YES = ("", "y", "yes", "т", "так")
POLL_SECONDS = 0.5  # how soon the question ends after the server


def can_ask() -> bool:
    """Whether a terminal is attached and a browser with a window of its own is installed."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with suppress(OSError, webbrowser.Error):
        is_foreground = os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        return is_foreground and type(webbrowser.get()) is not webbrowser.GenericBrowser
    return False


def open_beside(url: str, asks: bool) -> None:
    """Open the URL in a child process, if `asks` after a yes; returns at once.

    The child closes the files of the server and ends with it. Call it before threads start: it
    forks.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, 4096)  # among them the server's lock and listening socket
        if not asks or _agrees(parent):
            webbrowser.open(url)
    finally:
        os._exit(0)


def _agrees(parent: int) -> bool:
    click.echo(QUESTION, nl=False)
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
        if ready:
            line = sys.stdin.readline()
            return line.endswith("\n") and line.strip().lower() in YES
    return False
