"""Counts that all machines share: the tables of `count_tables` in a Redis (`CRM_LIMITS`).

A row is a text `<window> <count> <second count>` under the key
`crm:<installation>:<table>:<name>`. The installation and the name are keyed digests, as names may
be phones and addresses: installations that have the same `secret.key` share their counts. A row
expires when its window ends. Each operation is one script, which Redis runs as a whole; windows
are by Redis' clock. If that clock is set back, counts of later windows go on in the present one.

While Redis cannot be used, each machine counts in its own file (`counters`), from zero in this
window: then a limit holds for each machine by itself. What is counted there stays there.

Local to each machine remain the slots of heavy work (`heavy_work`), which protect the machine's own
processors, and the clock (`steady_clock`). The tries of codes and the known browsers are rows of
the tenant, and the tries of passwords, forms, invalid keys, pages and e-mails are tables here.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from crm.config import RedisAddress
from crm.tenancy.counters import MAX_CACHED_NAMES, TABLES, Counters, Table, keyed_digest
from crm.tenancy.redis_server import RedisServer, Script

MICROSECONDS = 1_000_000

# Functions of all scripts. `seconds` is the first value of each.
WINDOWS = """
local time = redis.call('TIME')
local seconds = tonumber(ARGV[1])
local window = math.floor(time[1] / seconds)
local left = ((window + 1) * seconds - time[1]) * 1000000 - time[2]
local function get(key)
  local row = redis.call('GET', key)
  if row then
    local row_window, count, part = string.match(row, '^(%d+) (%d+) (%d+)$')
    if row_window and tonumber(row_window) >= window then
      return tonumber(count), tonumber(part)
    end
  end
  return 0, 0
end
local function put(key, count, part)
  local row = string.format('%d %d %d', window, count, part)
  redis.call('SET', key, row, 'PX', math.ceil(left / 1000))
end
"""
# seconds, limit, limit of the part or -1, whether to add
TAKE = Script(f"""{WINDOWS}
local limit, part_limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local count, part = get(KEYS[1])
local remaining = limit - count
if part_limit >= 0 then remaining = math.min(remaining, part_limit - part) end
if remaining <= 0 or ARGV[4] == '0' then return {{0, math.max(remaining, 0), left}} end
if part_limit >= 0 then part = part + 1 end
put(KEYS[1], count + 1, part)
return {{1, remaining - 1, left}}
""")
ADD = Script(f"""{WINDOWS}
local count, part = get(KEYS[1])
put(KEYS[1], count + 1, part)
return {{count + 1, left}}
""")
# seconds, the limit of each key
TAKE_ALL = Script(f"""{WINDOWS}
local counts = {{}}
for number, key in ipairs(KEYS) do
  counts[number] = get(key)
  if counts[number] >= tonumber(ARGV[number + 1]) then return {{left}} end
end
for number, key in ipairs(KEYS) do put(key, counts[number] + 1, 0) end
return {{0}}
""")
READ = Script(f"""{WINDOWS}
local count = get(KEYS[1])
return {{count}}
""")
RESET = Script("return {redis.call('DEL', unpack(KEYS))}")


class RedisCounters:
    """All tables of the installations that share a Redis. Nothing is opened before a count."""

    def __init__(self, address: RedisAddress, folder: Path, secret: Callable[[], bytes]):
        """`folder` is for the local counts, `secret` returns the key that digests names."""
        self.local = Counters(folder, secret)
        self.server = RedisServer(address, self.local)
        self.keys = RedisKeys(secret)
        self.tables = {name: RedisTable(self, name, self.local.tables[name]) for name in TABLES}

    def close(self) -> None:
        """Close the local file and the connections; they are opened again at the next count."""
        self.server.close()
        self.local.close()


class RedisKeys:
    """Makes keys that name nobody."""

    def __init__(self, secret: Callable[[], bytes]):
        self._secret = secret
        self._parts: tuple[bytes, str] | None = None  # the secret, and the start of all keys

    def make(self, kind: str, name: str) -> str:
        """Return the key of a name of some kind. Raises OSError if the secret cannot be read."""
        if self._parts is None:
            secret = self._secret()
            self._parts = secret, f"crm:{keyed_digest(secret, 'redis').hex()[:16]}:"
        secret, prefix = self._parts
        return f"{prefix}{kind}:{keyed_digest(secret, name).hex()}"


class RedisTable:
    """Rows of one kind of names in Redis, and those of `local` while Redis cannot be used."""

    def __init__(self, counters: RedisCounters, name: str, local: Table):
        self._keys, self._run = counters.keys, counters.server.run
        self._name, self._local = name, local
        self._cache: dict[str, str] = {}

    def take(
        self,
        name: str,
        seconds: int,
        moment: float,
        limit: int,
        part_limit: int | None = None,
        adds: bool = True,
    ) -> tuple[bool, int, float]:
        """See CountTable.take()."""
        part = -1 if part_limit is None else part_limit
        reply = self._call(TAKE, [name], seconds, limit, part, int(adds))
        if reply is None:
            return self._local.take(name, seconds, moment, limit, part_limit, adds)
        taken, remaining, left = reply
        return taken == 1, remaining, left / MICROSECONDS

    def add(self, name: str, seconds: int, moment: float) -> tuple[int, float]:
        """See CountTable.add()."""
        reply = self._call(ADD, [name], seconds)
        if reply is None:
            return self._local.add(name, seconds, moment)
        count, left = reply
        return count, left / MICROSECONDS

    def take_all(self, limits: Sequence[tuple[str, int]], seconds: int, moment: float) -> float:
        """See CountTable.take_all()."""
        names, numbers = zip(*limits, strict=True)
        reply = self._call(TAKE_ALL, names, seconds, *numbers)
        if reply is None:
            return self._local.take_all(limits, seconds, moment)
        return reply[0] / MICROSECONDS

    def read(self, name: str, seconds: int, moment: float) -> int:
        """See CountTable.read()."""
        reply = self._call(READ, [name], seconds)
        return self._local.read(name, seconds, moment) if reply is None else reply[0]

    def reset(self, names: Sequence[str]) -> None:
        """See CountTable.reset()."""
        if self._call(RESET, names) is None:
            self._local.reset(names)

    def _call(self, script: Script, names: Sequence[str], *values: int) -> list[int] | None:
        try:
            keys = [self._cache.get(name) or self._locate(name) for name in names]
        except OSError:  # no secret, as on a full disk: the local counters say so
            return None
        return self._run(script, keys, *values)

    def _locate(self, name: str) -> str:
        if len(self._cache) >= MAX_CACHED_NAMES:
            self._cache = {}
        key = self._cache[name] = self._keys.make(self._name, name)
        return key
