"""SMS and e-mail: a sender of each, which is the console by default, and their queue."""

import sys


class Undelivered(Exception):
    """A message was not accepted.

    `reason` is for the operator's log: it never contains the recipient, the text or a secret.
    `final`: another try would fail too.
    """

    def __init__(self, reason: str, *, final: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.final = final


def write_to_stdout(text: str) -> None:
    """Write a message to the standard output at once; it does not go into the log."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):  # closed, or its encoding lacks these letters
        raise Undelivered("the standard output cannot be written") from None
