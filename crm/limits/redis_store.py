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

from crm.limits.file_store import MAX_CACHED_NAMES, FileStore, keyed_digest
from crm.limits.redis_server import RedisServer, Script
from crm.limits.windows import BUCKET_ROWS, Limit, Taken, Window

MICROSECONDS = 1_000_000
# ARGV has for each key: the seconds of a step, the number of steps, the limit, whether to add, and
# how many rows the window may have, or 0. The reply is whether all were below their limits, the
# microseconds left, and the counts. A key of a window with few rows is also in the set of its keys.
TAKE = Script("""
local time = redis.call('TIME')
local moment = time[1] + time[2] / 1000000
local rows, full = {}, nil
for number, key in ipairs(KEYS) do
  local row = {key = key, counts = {}, total = 0, stored = {}}
  for place, name in ipairs({'seconds', 'steps', 'most', 'adds', 'max_rows'}) do
    row[name] = tonumber(ARGV[number * 5 - 5 + place])
  end
  row.step = math.floor(moment / row.seconds)
  for place = 1, row.steps do row.counts[place] = 0 end
  local passed, place = nil, 0
  for text in string.gmatch(redis.call('GET', key) or '', '%d+') do
    local age = math.max(1, (passed or 0) + place)
    if not passed then
      passed = row.step - text
      row.is_ahead = passed < 0
    elseif age <= row.steps then
      row.counts[age], row.total = row.counts[age] + text, row.total + text
    end
    place = place + 1
  end
  if not full and row.total >= row.most then full = row end
  rows[number] = row
end
local first = full or rows[1]
local left = (first.step + 1) * first.seconds - moment
local reply = {full and 0 or 1, math.ceil(left * 1000000)}
for number, row in ipairs(rows) do
  local added = not full and row.adds or 0
  row.counts[1], reply[number + 2] = row.counts[1] + added, row.total + added
  if added > 0 or row.is_ahead then
    local left = (row.step + row.steps) * row.seconds - moment
    local text = row.step .. ' ' .. table.concat(row.counts, ' ')
    redis.call('SET', row.key, text, 'PX', math.ceil(left * 1000))
  end
  if added > 0 and row.max_rows > 0 then
    local keys = string.match(row.key, '^(.*):')
    redis.call('ZADD', keys, moment, row.key)
    redis.call('EXPIRE', keys, row.seconds * row.steps)
    if redis.call('ZCARD', keys) > row.max_rows then
      redis.call('DEL', redis.call('ZPOPMIN', keys)[1])
    end
  end
end
return reply
""")
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
