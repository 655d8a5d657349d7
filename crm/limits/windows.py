"""The windows of time in which something is counted, and the limits of their counts.

A clock is divided into steps. A count is forgotten when as many steps have begun after its own as
the window has. A window of one step is fixed: all that it counted is forgotten at once. One of more
steps slides: no more than its limit is ever counted in `seconds`, which are all of its steps but
one, as that in which something is counted may be nearly over.
"""

from dataclasses import dataclass
from typing import NamedTuple

BUCKET_ROWS = 64


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """A length of time, and the rows of the names that are counted in it.

    In the file the rows are in buckets of BUCKET_ROWS. Each window has rows of its own: strangers'
    addresses never replace a tenant's row.
    """

    name: str
    step_seconds: int
    steps: int = 1
    buckets: int = 64
    is_strict: bool = False  # it costs money, and is not counted in the memory of one process

    @property
    def seconds(self) -> int:
        return self.step_seconds * max(1, self.steps - 1)


REQUESTS = Window("requests", 60, buckets=256)
FAILED_KEYS = Window("failed_keys", 60)
FORM_VISITORS = Window("form_visitors", 60)
INBOUND_CALLS = Window("inbound_calls", 60)
PAGES = Window("pages", 60, buckets=128)
PASSWORDS = Window("passwords", 900)
ACCOUNTS = Window("accounts", 3600)
EMAILS = Window("emails", 900)
SMS_HOUR = Window("sms_hour", 75, steps=49, buckets=128, is_strict=True)
SMS_DAY = Window("sms_day", 1800, steps=49, is_strict=True)
SMS_TENANTS = Window("sms_tenants", 1800, steps=49, is_strict=True)
SMS_SHARED = Window("sms_shared", 1800, steps=49, buckets=1, is_strict=True)
WINDOWS = (
    *(REQUESTS, FAILED_KEYS, FORM_VISITORS, INBOUND_CALLS, PAGES, PASSWORDS, ACCOUNTS, EMAILS),
    *(SMS_HOUR, SMS_DAY, SMS_TENANTS, SMS_SHARED),
)


class Limit(NamedTuple):
    """How much may be counted under a name in a window."""

    window: Window
    name: str
    most: int
    adds: bool = True  # False: it decides, but nothing is added to its count


class Taken(NamedTuple):
    """The result of Counters.take()."""

    allowed: bool
    counts: list[int]  # of each limit, with what was added
    seconds_left: float  # of the step of the first limit that refused, else of the first limit
