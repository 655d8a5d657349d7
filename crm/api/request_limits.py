"""Limits of requests, counted for all processes of an installation together.

Those of a tenant in a minute (spec: Limits, D13), those with invalid keys, and those of website
forms, inbound hooks, export links and pages. `moment` is the machine's uptime in seconds, and
windows are fixed parts of it, so a step of the wall clock starts no new window. Of several machines
each counts for itself: the proxy sends all requests of a host to the same one.
"""

import math
from typing import NamedTuple

from crm.errors import TooMany
from crm.limits import windows
from crm.limits.counters import Counters
from crm.limits.windows import Limit
from crm.networks import networks_of

WINDOW_SECONDS = windows.REQUESTS.seconds
# Invalid keys a minute, after which keys are refused unread: from one address or IPv6 /64, and
# from an IPv6 /48, all of which one customer may have.
MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48 = 30, 300
MAX_FORM_REQUESTS = 10  # a minute, of a website's visitors at one address
MAX_INBOUND_CALLS = 60  # a minute, of one inbound hook
MAX_LINK_EXPORTS = 60  # a minute, by one export link
MAX_SESSION_PAGES = 240  # a minute, of one session, and of strangers in one network
MAX_TENANT_PAGES = 2400  # a minute, of all sessions of a tenant
MAX_SESSION_FILES = 1200  # a minute, of one session: a page of products has 50 pictures


class RateLimit(NamedTuple):
    """Whether a request is allowed, and what is left of the limit in this window."""

    allowed: bool
    limit: int
    remaining: int
    seconds_left: float  # until the window ends

    def build_headers(self, now: float) -> tuple[tuple[str, str], ...]:
        """The headers of D13; `now` in epoch seconds."""
        return (
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(self.remaining)),
            ("X-RateLimit-Reset", str(round(now + self.seconds_left))),
            ("RateLimit-Policy", f'"minute";q={self.limit};w={WINDOW_SECONDS}'),
            ("RateLimit", f'"minute";r={self.remaining};t={max(0, math.ceil(self.seconds_left))}'),
        )


class Limiter:
    """Counts requests exactly: a count is read and written by one atomic operation."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters

    def count_request(
        self, label: str, limit: int, moment: float, group: str = "", refused: bool = False
    ) -> RateLimit:
        """Count one request of a tenant if the limit allows it (D13).

        `group`: the callers that it comes from, which together have half of the limit: website
        forms, or assistants (D12), so that they cannot lock the integrations out. `refused`: it is
        refused for another reason, so it is not counted, and the result only shows what is left.
        """
        limits = [Limit(windows.REQUESTS, label, limit, not refused)]
        if group:
            limits.append(
                Limit(windows.REQUESTS, f"{label} {group}", max(1, limit // 2), not refused)
            )
        allowed, counts, seconds_left = self.counters.take(limits, moment)
        remaining = limit - counts[0]
        if group:
            remaining = min(remaining, limits[1].most - counts[1])
        return RateLimit(allowed and not refused, limit, max(0, remaining), seconds_left)

    def get_count(self, label: str, moment: float) -> int:
        """Return how many requests of a tenant were counted in this minute."""
        return self.counters.read([Limit(windows.REQUESTS, label, 0)], moment)[0]

    def count_form_request(self, label: str, address: str, moment: float) -> float:
        """Count one request of a website form from an address.

        Returns 0, or the seconds to wait if there are too many. Without it, one robot could use up
        the forms' half of the tenant's limit.
        """
        visitor = f"{label}/{networks_of(address)[0]}"
        return self._wait([Limit(windows.FORM_VISITORS, visitor, MAX_FORM_REQUESTS)], moment)

    def count_inbound_call(self, label: str, hook_id: int, moment: float) -> None:
        """Count one call of an inbound hook. Raises TooMany."""
        limit = Limit(windows.INBOUND_CALLS, f"{label}/{hook_id}", MAX_INBOUND_CALLS)
        self._require([limit], moment, "too many calls of this hook in a minute")

    def count_page(
        self,
        label: str,
        session_id: int | None,
        address: str,
        moment: float,
        is_file: bool = False,
    ) -> None:
        """Count one page request of a session, or of a stranger if `session_id` is None.

        Strangers are counted per network only, because together they must not lock out the
        tenant's own users. Files, such as pictures of a page, have a limit of their own for each
        session. Raises TooMany.
        """
        visitor = f"session {session_id}" if session_id else f"network {networks_of(address)[0]}"
        limits = [Limit(windows.PAGES, f"{label}/{visitor}", MAX_SESSION_PAGES)]
        if session_id and is_file:
            limits = [Limit(windows.PAGES, f"{label}/files of {visitor}", MAX_SESSION_FILES)]
        elif session_id:
            limits.append(Limit(windows.PAGES, label, MAX_TENANT_PAGES))
        self._require(limits, moment, "too many pages in this minute")

    def count_failed_key(self, address: str, moment: float) -> float:
        """Count an invalid key; return 0, or the seconds to wait if its networks sent too many."""
        numbers = (MAX_FAILED_KEYS, MAX_FAILED_KEYS_PER_48)
        limits = [
            Limit(windows.FAILED_KEYS, network, most)
            for network, most in zip(networks_of(address), numbers, strict=False)
        ]
        return self._wait(limits, moment)

    def count_export(self, label: str, link_id: int, moment: float) -> None:
        """Count one use of an export link. Raises TooMany."""
        limit = Limit(windows.REQUESTS, f"{label} export {link_id}", MAX_LINK_EXPORTS)
        self._require([limit], moment, "too many exports by this link")

    def _require(self, limits: list[Limit], moment: float, detail: str) -> None:
        if wait := self._wait(limits, moment):
            raise TooMany(detail, "", math.ceil(wait))

    def _wait(self, limits: list[Limit], moment: float) -> float:
        taken = self.counters.take(limits, moment)
        return 0 if taken.allowed else taken.seconds_left
