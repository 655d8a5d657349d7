"""SMS and e-mail: a sender of each, which is the console by default, and their queue."""

from typing import NamedTuple

MAX_ATTACHMENT_BYTES = 5 << 20  # base64 of it goes within the time of one e-mail


class Attachment(NamedTuple):
    """A file that an e-mail carries, of at most MAX_ATTACHMENT_BYTES."""

    name: str
    content_type: str
    content: bytes


class Undelivered(Exception):
    """A message was not accepted.

    `reason` is for the operator's log: it never contains the recipient, the text or a secret.
    `final`: another try would fail too.
    """

    def __init__(self, reason: str, *, final: bool = False):
        super().__init__(reason)
        self.reason = reason
        self.final = final
