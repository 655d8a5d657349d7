"""When the sender looks at which tenant again."""

import heapq


class Schedule:
    """The next check of each tenant, by times in epoch seconds; for one thread.

    Each wake-up of a tenant names its next check again, often the same far one, so that an entry
    for a time is made once.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, str]] = []  # a heap; some are of checks done earlier
        self._is_entered: set[tuple[float, str]] = set()
        self._next: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, label: str, at: float) -> None:
        """Check a tenant at that time, unless an earlier check is scheduled."""
        if at >= self._next.get(label, float("inf")):
            return
        self._next[label] = at
        if (entry := (at, label)) not in self._is_entered:
            self._is_entered.add(entry)
            heapq.heappush(self._entries, entry)

    def seconds_until_next(self, now: float) -> float | None:
        """Return the seconds until the next check may be due, 0 if it is; None if there is none."""
        return max(0.0, self._entries[0][0] - now) if self._entries else None

    def take_due(self, now: float) -> str | None:
        """Take the label of one check that is due at `now`; None if none is."""
        while self._entries and self._entries[0][0] <= now:
            at, label = entry = heapq.heappop(self._entries)
            self._is_entered.discard(entry)
            if self._next.get(label) == at:
                del self._next[label]
                return label
        return None
