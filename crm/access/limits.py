"""Limits that hold for all processes of an installation together: requests per minute of a tenant
(spec: Limits, D13), bad keys, website forms, and tries of passwords and e-mails.

The counts are in `crm.tenancy.counters`, by fixed windows of the time that the machine has been
running (`moment`): a step of the wall clock begins no window anew.
"""

from typing import NamedTuple

from crm.errors import TooMany
from crm.networks import networks_of
from crm.tenancy.counters import ACCOUNTS, FORM_VISITORS, PAGES, PASSWORDS, REQUESTS, Counters
from crm.tenancy.counters import FAILED_KEYS as FAILED_KEYS_TABLE

WINDOW_SECONDS = 60  # seconds
# Bad keys a minute, then they are refused unread: of one address or IPv6 /64, and of an IPv6 /48,
# all of which one customer may have.
MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48 = 30, 300
MAX_FORM_REQUESTS = 10  # requests a minute of a website's visitors at one address
MAX_SESSION_PAGES = 240  # pages a minute of one session, and of strangers in one network
MAX_TENANT_PAGES = 2400  # pages a minute of all sessions of a tenant


class RateLimit(NamedTuple):
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
        self._pages = counters.tables[PAGES]

    def count_request(
        self, label: str, limit: int, moment: float, form: bool = False, refused: bool = False
    ) -> RateLimit:
        """Count one request of a tenant. A refused one isn't counted.

        Website forms together have half of the window (D12), so that they can't lock the
        integrations out. `refused`: for another reason already, it is only told what is left.
        """
        requests = self._requests
        with requests.lock(label):
            window, count, forms = requests.get(label, int(moment) // WINDOW_SECONDS)
            left = limit - count
            if form:
                left = min(left, max(1, limit // 2) - forms)
            allowed = left > 0 and not refused
            if allowed:
                requests.put(label, window, count + 1, forms + form)
                left -= 1
        return RateLimit(allowed, limit, left if left > 0 else 0, (window + 1) * WINDOW_SECONDS)

    def get_count(self, label: str, moment: float) -> int:
        """How many requests of a tenant were counted in this minute."""
        with self._requests.lock(label):
            return self._requests.get(label, int(moment) // WINDOW_SECONDS)[1]

    def count_form_request(self, label: str, address: str, moment: float) -> bool:
        """Note that a form of the tenant is used from an address; True when it is too often.

        One robot would else fill the forms' half of the window, and no visitor could write.
        """
        visitor = f"{label}/{network_of(address)}"
        return self._form_visitors.add(visitor, int(moment) // WINDOW_SECONDS) > MAX_FORM_REQUESTS

    def count_page(self, label: str, session_id: int | None, address: str, moment: float) -> None:
        """Count one page of a tenant that a session asked for, or a stranger if it is None.

        Strangers are counted per network alone: together they must not close the pages to the
        tenant's own users. Raises TooMany.
        """
        window = int(moment) // WINDOW_SECONDS
        visitor = f"session {session_id}" if session_id else f"network {network_of(address)}"
        pages = self._pages.add(f"{label}/{visitor}", window)
        too_many = pages > MAX_SESSION_PAGES
        if session_id and not too_many:
            too_many = self._pages.add(label, window) > MAX_TENANT_PAGES
        if too_many:
            raise TooMany(
                "too many pages in this minute", "", WINDOW_SECONDS - int(moment) % WINDOW_SECONDS
            )

    def count_failed_key(self, address: str, moment: float) -> bool:
        """Note a bad key from an address; True when there were too many in this minute from it, or
        from a network that it belongs to."""
        window = int(moment) // WINDOW_SECONDS
        counts = [self._failed_keys.add(each, window) for each in networks_of(address)]
        return counts[0] > MAX_FAILED_KEYS or counts[-1] > MAX_FAILED_KEYS_PER_48


class TryLimits:
    """At most so many tries of each of a few kinds in a fixed window: passwords, e-mails.

    Counted before the work that they cost, and whether they fit or not.
    """

    def __init__(self, counters: Counters, table: str, seconds: int, **most: int) -> None:
        self._table = counters.tables[table]
        self._seconds, self._most = seconds, most

    def count_try(self, moment: float, **names: str) -> None:
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

    def reset(self, **names: str) -> None:
        """What was tried by these names was right: it doesn't count. Not for strangers, whom it
        would tell that somebody came in."""
        with self._table.lock():
            for kind, name in names.items():
                self._table.reset(f"{kind}/{name}")


class PasswordLimits:
    """Tries of passwords at the login: few of an account from one network, far more of an account
    from everywhere, so that a stranger elsewhere doesn't lock its user out. A browser that logged
    in as the user before is counted by itself."""

    def __init__(self, counters: Counters) -> None:
        self._account = TryLimits(counters, ACCOUNTS, 3600, account=100)
        # Of one /48 fewer than lock the account: 80 an hour.
        self._tries = TryLimits(
            counters, PASSWORDS, 900, here=10, here48=20, network=50, known_browser=10
        )

    def count_try(
        self, moment: float, tenant: str, account: str, address: str, known_browser: str | None
    ) -> None:
        """Count a try; raises TooMany. `account` is the phone or e-mail as it was typed."""
        if known_browser is not None:
            self._tries.count_try(moment, known_browser=f"{tenant}/{known_browser}")
            return
        name, networks = f"{tenant}/{account}", networks_of(address)
        # The account comes last: what its network refuses isn't counted for it.
        self._tries.count_try(
            moment,
            here=f"{name} {networks[0]}",
            here48=f"{name} {networks[-1]}",
            network=networks[0],
        )
        self._account.count_try(moment, account=name)


def network_of(address: str) -> str:
    """One customer's addresses count as one: of IPv6 he has 2^64."""
    return networks_of(address)[0]
