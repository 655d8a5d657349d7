"""SMS and e-mail: a sender of each, which is the console by default, and their queue."""


class Undelivered(Exception):
    """A message was not accepted.

    `reason` is for the operator's log: it never contains the recipient, the text or a secret.
    `final`: another try would fail too.
    """

    def __init__(self, reason: str, *, final: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.final = final
