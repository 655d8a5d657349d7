"""What the limits count in: tables of counts with atomic operations, wherever the counts are.

`counters.Table` keeps them in a memory-mapped file for all processes of this machine, and
`redis_limits.RedisTable` in a Redis for all machines that share it. Each operation is atomic there.

Windows are fixed parts of a clock, `seconds` long: of the caller's `moment` in the file, and of
Redis' own clock in Redis, because the uptimes of machines differ. Therefore operations return how
long a window still lasts and never when it ends. All names of a table have equally long windows.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

REQUESTS, FAILED_KEYS, FORM_VISITORS = "requests", "failed_keys", "form_visitors"
PASSWORDS, ACCOUNTS, EMAILS, PAGES = "passwords", "accounts", "emails", "pages"


class CountTable(Protocol):
    """Counts of one kind of names. A count of a window that is over is zero."""

    def take(
        self,
        name: str,
        seconds: int,
        moment: float,
        limit: int,
        part_limit: int | None = None,
        adds: bool = True,
    ) -> tuple[bool, int, float]:
        """Add one to the count of a name if it is below the limit.

        A name has a second count, of a part of what it counts: with a `part_limit` both counts
        must be below their limits, and one is added to both. With `adds=False` nothing is added.
        Returns whether it was added, what is left of the limits, and the seconds that the window
        still lasts.
        """
        ...

    def add(self, name: str, seconds: int, moment: float) -> tuple[int, float]:
        """Add one to the count of a name; return it, and the seconds that the window lasts."""
        ...

    def take_all(self, limits: Sequence[tuple[str, int]], seconds: int, moment: float) -> float:
        """Add one to the counts of all names if each is below the limit beside it, else to none.

        Returns 0, or the seconds until the window ends in which one is used up.
        """
        ...

    def read(self, name: str, seconds: int, moment: float) -> int:
        """Return the count of a name."""
        ...

    def reset(self, names: Sequence[str]) -> None:
        """Set the counts of these names to zero."""
        ...


class CountTables(Protocol):
    """All tables of an installation, by the names above."""

    @property
    def tables(self) -> Mapping[str, CountTable]: ...

    def close(self) -> None:
        """Close files and connections; they are opened again at the next count."""
        ...
