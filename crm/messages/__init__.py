"""SMS and e-mail: one port each, on the console by default."""

import sys


class Undelivered(Exception):
    """A message was not taken. The reason is for the operator's log: it never holds whom the
    message was for, what it said, or a secret. `final`: to try again would change nothing."""

    def __init__(self, reason: str, *, final: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.final = final


def write_to_stdout(text: str) -> None:
    """To the standard output, which is not the log, and at once."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):  # closed, or of an encoding without these letters
        raise Undelivered("the standard output cannot be written") from None
