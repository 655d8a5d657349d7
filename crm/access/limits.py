"""Rate limits, counted for all processes of an installation together: requests per minute of a
tenant (spec: Limits, D13), invalid keys, website forms, and tries of passwords and e-mails.

The counts are in the tables of `Tenants.counters`: those of this machine, or with `CRM_LIMITS`
those of a Redis that several machines share. `moment` is the machine's uptime in seconds, and
windows are fixed parts of it, so a step of the wall clock starts no new window. In Redis they are
parts of its own clock, so that they are the same for all machines.
"""

import math
from typing import NamedTuple

from crm.errors import TooMany
from crm.networks import networks_of
from crm.tenancy.count_tables import (
    ACCOUNTS,
    FORM_VISITORS,
    PAGES,
    PASSWORDS,
    REQUESTS,
    CountTables,
)
from crm.tenancy.count_tables import FAILED_KEYS as FAILED_KEYS_TABLE

WINDOW_SECONDS = 60
# Invalid keys a minute, after which keys are refused unread: from one address or IPv6 /64, and
# from an IPv6 /48, all of which one customer may have.
MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48 = 30, 300
MAX_FORM_REQUESTS = 10  # a minute, of a website's visitors at one address
MAX_SESSION_PAGES = 240  # a minute, of one session, and of strangers in one network
MAX_TENANT_PAGES = 2400  # a minute, of all sessions of a tenant


class RateLimit(NamedTuple):
    """Whether a request is allowed, and what is left of the limit in this window."""

    allowed: bool
    limit: int
    remaining: int
    seconds_left: float  # until the window ends


class Limiter:
    """Counts requests exactly: a count is read and written by one atomic operation."""

    def __init__(self, counters: CountTables) -> None:
        self._requests = counters.tables[REQUESTS]  # all of a tenant, and those of its forms
        self._failed_keys = counters.tables[FAILED_KEYS_TABLE]
        self._form_visitors = counters.tables[FORM_VISITORS]
        self._pages = counters.tables[PAGES]

    def count_request(
        self, label: str, limit: int, moment: float, form: bool = False, refused: bool = False
    ) -> RateLimit:
        """Count one request of a tenant if the limit allows it (D13).

        `form`: it comes from a website form; forms together have half of the limit (D12), so that
        they cannot lock the integrations out. `refused`: it is refused for another reason, so it
        is not counted, and the result only shows what is left.
        """
        part = max(1, limit // 2) if form else None
        allowed, remaining, seconds_left = self._requests.take(
            label, WINDOW_SECONDS, moment, limit, part, not refused
        )
        return RateLimit(allowed, limit, remaining, seconds_left)

    def get_count(self, label: str, moment: float) -> int:
        """Return how many requests of a tenant were counted in this minute."""
        return self._requests.read(label, WINDOW_SECONDS, moment)

    def count_form_request(self, label: str, address: str, moment: float) -> float:
        """Count one request of a website form from an address.

        Returns 0, or the seconds to wait if there are too many. Without it, one robot could use up
        the forms' half of the tenant's limit.
        """
        visitor = f"{label}/{network_of(address)}"
        count, seconds_left = self._form_visitors.add(visitor, WINDOW_SECONDS, moment)
        return seconds_left if count > MAX_FORM_REQUESTS else 0

    def count_page(self, label: str, session_id: int | None, address: str, moment: float) -> None:
        """Count one page request of a session, or of a stranger if `session_id` is None.

        Strangers are counted per network only, because together they must not lock out the
        tenant's own users. Raises TooMany.
        """
        visitor = f"session {session_id}" if session_id else f"network {network_of(address)}"
        pages, seconds_left = self._pages.add(f"{label}/{visitor}", WINDOW_SECONDS, moment)
        too_many = pages > MAX_SESSION_PAGES
        if session_id and not too_many:
            pages, seconds_left = self._pages.add(label, WINDOW_SECONDS, moment)
            too_many = pages > MAX_TENANT_PAGES
        if too_many:
            raise TooMany("too many pages in this minute", "", math.ceil(seconds_left))

    def count_failed_key(self, address: str, moment: float) -> float:
        """Count an invalid key; return 0, or the seconds to wait if its networks sent too many."""
        counts = [
            self._failed_keys.add(network, WINDOW_SECONDS, moment)
            for network in networks_of(address)
        ]
        too_many = counts[0][0] > MAX_FAILED_KEYS or counts[-1][0] > MAX_FAILED_KEYS_PER_48
        return counts[0][1] if too_many else 0


class TryLimits:
    """Limits of tries in a fixed window, one limit for each kind of name, such as `account`.

    A try is counted before the work that it costs, whether it succeeds or not.
    """

    def __init__(self, counters: CountTables, table: str, seconds: int, **limits: int) -> None:
        """`seconds` is the length of the window, `limits` the number of tries by kind."""
        self._table = counters.tables[table]
        self._seconds, self._limits = seconds, limits

    def count_try(self, moment: float, **names: str) -> None:
        """Count a try under names of each kind. Raises TooMany, and then counts nothing."""
        limits = [(f"{kind}/{name}", self._limits[kind]) for kind, name in names.items()]
        if seconds_left := self._table.take_all(limits, self._seconds, moment):
            raise TooMany("too many tries", "too_many_tries", math.ceil(seconds_left))

    def reset(self, **names: str) -> None:
        """Reset the counts of these names after a success.

        Only for users who are logged in: at a login the reset would show strangers who tried that
        somebody has logged in.
        """
        self._table.reset([f"{kind}/{name}" for kind, name in names.items()])


class PasswordLimits:
    """Limits of password tries at the login.

    Few tries are allowed at an account from one network, and far more from everywhere, so that a
    stranger elsewhere does not lock the user out. A known browser has a limit of its own.
    """

    def __init__(self, counters: CountTables) -> None:
        self._account = TryLimits(counters, ACCOUNTS, 3600, account=100)
        # Of one /48 fewer than lock the account: 80 an hour.
        self._tries = TryLimits(
            counters,
            PASSWORDS,
            900,
            account_network=10,
            account_network48=20,
            network=50,
            known_browser=10,
        )

    def count_try(
        self, moment: float, tenant: str, account: str, address: str, known_browser: str | None
    ) -> None:
        """Count a try. Raises TooMany. `account` is the phone or e-mail as typed.

        `known_browser` is the name that known_browsers.identify_browser() returned.
        """
        if known_browser is not None:
            self._tries.count_try(moment, known_browser=f"{tenant}/{known_browser}")
            return
        name, networks = f"{tenant}/{account}", networks_of(address)
        # The account comes last: a try that the network's limit refuses does not count for it.
        self._tries.count_try(
            moment,
            account_network=f"{name} {networks[0]}",
            account_network48=f"{name} {networks[-1]}",
            network=networks[0],
        )
        self._account.count_try(moment, account=name)


def network_of(address: str) -> str:
    """Return the network that an address is counted by: itself, or its IPv6 /64."""
    return networks_of(address)[0]
