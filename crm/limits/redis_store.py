"""Counts that all machines share: rows in a Redis (`CRM_LIMITS`).

A row is a text of numbers, the newest step and the counts from that one back, under the key
`crm:<installation>:<window>:<name>`. The installation and the name are keyed digests, as names may
be phones and addresses: installations that have the same `secret.key` share their counts. A row
expires when all of it is forgotten. Each operation is one script, which Redis runs as a whole, and
steps are of Redis' clock. If that clock is set back, what was counted later becomes present.

While Redis cannot be used, each machine counts in its own file (`file_store`), from what that has:
then a limit holds for each machine by itself. What is counted there stays there.

Local to each machine remain the slots of heavy work, which protect the machine's own processors.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources

from crm.limits.file_store import MAX_CACHED_NAMES, FileStore, keyed_digest
from crm.limits.redis_server import RedisServer, Script
from crm.limits.windows import BUCKET_ROWS, Limit, Taken, Window

MICROSECONDS = 1_000_000
TAKE = Script(resources.files(__package__).joinpath("take.lua").read_text("utf-8"))
RESET = Script("return {redis.call('DEL', unpack(KEYS))}")


class RedisStore:
    """The counts of all machines that share a Redis. Nothing is opened before the first one."""

    def __init__(self, server: RedisServer, local: FileStore, secret: Callable[[], bytes]):
        """`local` is used while Redis cannot be; `secret` returns the key that digests names."""
        self.local, self._server, self._secret = local, server, lru_cache(secret)
        self._key = lru_cache(MAX_CACHED_NAMES)(self._make_key)

    def take(self, limits: Sequence[Limit], moment: float) -> Taken:
        """See Store.take()."""
        reply = self._run(TAKE, limits)
        if reply is None:
            return self.local.take(limits, moment)
        allowed, left, *counts = reply
        return Taken(allowed == 1, counts, left / MICROSECONDS)

    def read(self, limits: Sequence[Limit], moment: float) -> list[int]:
        """See Store.read()."""
        reply = self._run(TAKE, [limit._replace(adds=False) for limit in limits], quietly=True)
        return self.local.read(limits, moment) if reply is None else reply[2:]

    def reset(self, limits: Sequence[Limit]) -> int:
        """See Store.reset()."""
        reply = self._run(RESET, limits)
        return self.local.reset(limits) if reply is None else reply[0]

    def close(self) -> None:
        """See Store.close()."""
        self._server.close()
        self.local.close()

    def _run(
        self, script: Script, limits: Sequence[Limit], quietly: bool = False
    ) -> list[int] | None:
        try:
            keys = [self._key(limit.window, limit.name) for limit in limits]
        except OSError:  # no secret, as on a full disk: the local counts say so
            return None
        values: list[int] = []
        for window, _, most, adds in limits:
            rows = window.buckets * BUCKET_ROWS if window.is_strict else 0
            values += (window.step_seconds, window.steps, most, int(adds), rows)
        return self._server.run(script, keys, values, quietly)

    def _make_key(self, window: Window, name: str) -> str:
        secret = self._secret()
        installation = keyed_digest(secret, "redis").hex()[:16]
        return f"crm:{installation}:{window.name}:{keyed_digest(secret, name).hex()}"
