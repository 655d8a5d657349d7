"""Limits that hold for all processes of an installation together: requests per minute of a tenant
(spec: Limits, D13), bad keys, website forms, and tries of passwords and e-mails.

The counts are in `crm.tenancy.counters`, by fixed windows of the time that the machine has been
running (`moment`): a step of the wall clock begins no window anew.
"""

from typing import NamedTuple

from crm.errors import TooMany
from crm.networks import networks_of
from crm.tenancy.counters import FAILED_KEYS as FAILED_KEYS_TABLE
from crm.tenancy.counters import FORM_VISITORS, REQUESTS, Counters

WINDOW = 60  # seconds
FAILED_KEYS = 30  # bad keys a minute from one address, then they are refused unread
FORM_SENDS = 10  # requests a minute of a website's visitors at one address


class Turn(NamedTuple):
    """What a request was told: may it go on, and what is left of the window."""

    allowed: bool
    limit: int
    remaining: int
    reset: int  # the moment when the window ends


class Limiter:
    """Counts requests exactly: reading and writing a count is one step under a lock."""

    def __init__(self, counters: Counters) -> None:
        self._requests = counters.tables[REQUESTS]  # all of a tenant, and those of its forms
        self._failed_keys = counters.tables[FAILED_KEYS_TABLE]
        self._form_visitors = counters.tables[FORM_VISITORS]

    def take(
        self, label: str, limit: int, moment: float, form: bool = False, refused: bool = False
    ) -> Turn:
        """Count one request of a tenant. A refused one isn't counted.

        Website forms together have half of the window (D12), so that they can't lock the
        integrations out. `refused`: for another reason already, it is only told what is left.
        """
        requests = self._requests
        with requests.lock(label):
            window, count, forms = requests.get(label, int(moment) // WINDOW)
            left = limit - count
            if form:
                left = min(left, max(1, limit // 2) - forms)
            allowed = left > 0 and not refused
            if allowed:
                requests.put(label, window, count + 1, forms + form)
                left -= 1
        return Turn(allowed, limit, left if left > 0 else 0, (window + 1) * WINDOW)

    def used(self, label: str, moment: float) -> int:
        """How many requests of a tenant were counted in this minute."""
        with self._requests.lock(label):
            return self._requests.get(label, int(moment) // WINDOW)[1]

    def crowded(self, label: str, address: str, moment: float) -> bool:
        """Note that a form of the tenant is used from an address; True when it is too often.

        One robot would else fill the forms' half of the window, and no visitor could write.
        """
        visitor = f"{label}/{network(address)}"
        return self._form_visitors.add(visitor, int(moment) // WINDOW) > FORM_SENDS

    def failed(self, address: str, moment: float) -> bool:
        """Note a bad key from an address; True when there were too many in this minute."""
        return self._failed_keys.add(network(address), int(moment) // WINDOW) > FAILED_KEYS


class Tries:
    """At most so many tries of each of a few kinds in a fixed window: passwords, e-mails.

    Counted before the work that they cost, and whether they fit or not.
    """

    def __init__(self, counters: Counters, table: str, seconds: int, **most: int) -> None:
        self._table = counters.tables[table]
        self._seconds, self._most = seconds, most

    def take(self, moment: float, **names: str) -> None:
        """Count a try by its names, one of each kind; raises TooMany, which doesn't count."""
        table, now = self._table, int(moment) // self._seconds
        with table.lock():
            rows = [(kind, f"{kind}/{name}") for kind, name in names.items()]
            counts = [table.get(row, now) for _, row in rows]
            for (kind, _), (window, count, _) in zip(rows, counts, strict=True):
                if count >= self._most[kind]:
                    retry_after = (window + 1) * self._seconds - int(moment)
                    raise TooMany("too many tries", "too_many_tries", retry_after)
            for (_, row), (window, count, _) in zip(rows, counts, strict=True):
                table.put(row, window, count + 1)

    def forget(self, **names: str) -> None:
        """What was tried by these names was right: it doesn't count. Not for strangers, whom it
        would tell that somebody came in."""
        with self._table.lock():
            for kind, name in names.items():
                self._table.reset(f"{kind}/{name}")


def network(address: str) -> str:
    """One customer's addresses count as one: of IPv6 he has 2^64."""
    return networks_of(address)[0]
