"""Limits of what all clients together, and the clients of one network, may use of a server."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

ALL = "all"
# The parts of a limit that one address or IPv6 /64, and one IPv6 /48, may use.
ADDRESS_PART, SITE_PART = 0.5, 0.75


class Bound:
    """Counts an amount, of which all clients may use `total` and one network a part."""

    def __init__(self, total: int, by_network: bool = True):
        self.total = total
        self._by_network = by_network
        self._used: dict[str, int] = defaultdict(int)

    def add(self, networks: tuple[str, ...], amount: int = 1) -> None:
        self._used[ALL] += amount
        for network in networks:
            self._used[network] += amount

    def remove(self, networks: tuple[str, ...], amount: int = 1) -> None:
        self._used[ALL] -= amount
        for network in networks:
            self._used[network] -= amount
            if not self._used[network]:
                del self._used[network]

    def exceeded(self, networks: tuple[str, ...]) -> str | None:
        """Return the network that uses more than its part, ALL for all together, or None."""
        if self._by_network:
            for network, part in zip(networks, (ADDRESS_PART, SITE_PART), strict=False):
                if self._used[network] > self.total * part:
                    return network
        return ALL if self._used[ALL] > self.total else None


class SlowRequests:
    """The slow requests, which run outside of the loop: `total` at a time, and fewer of one kind.

    The `kind` of a request is (host, whether it only reads). Half of the requests may read from one
    host and one may write: writers of a tenant wait for each other anyway, and each one that
    computes takes time from all others.
    """

    def __init__(self, total: int):
        self._total = max(2, total)
        self._kinds: dict[Any, Any] = {}
        self._of_kind: Counter[Any] = Counter()

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._kinds)

    def add(self, request: Any) -> None:
        self._kinds[request] = request.kind
        self._of_kind[request.kind] += 1

    def remove(self, request: Any) -> None:
        kind = self._kinds.pop(request)
        self._of_kind[kind] -= 1
        if not self._of_kind[kind]:
            del self._of_kind[kind]

    def leave_room_for(self, request: Any) -> bool:
        """Return whether another request, which may be slow too, may run now."""
        if not self._kinds:
            return True
        _, reads = request.kind
        limit = self._total // 2 if reads else 1
        return len(self._kinds) < self._total and self._of_kind[request.kind] < limit
