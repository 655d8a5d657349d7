"""SMS of the last day for all machines that share a Redis: the records of `sms_log`.

Redis keeps no records but groups of them, as sorted sets of times: those of a recipient, of a
network, and so on, which are what limits count. A record is a random member of each group that it
belongs to. Groups expire a day after their last record. A request is decided and recorded by one
script, which Redis runs as a whole, and by Redis' clock. If that clock is set back, later records
become present ones.

Sent SMS are bounded by their budgets. Of UNSENT ones, which strangers can cause, Redis keeps
MAX_UNSENT at most: a new one replaces the oldest.

While Redis cannot be used, each machine counts in its own file, from what that has of the last day.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence

from crm.tenancy.redis_limits import RedisCounters
from crm.tenancy.redis_server import Script
from crm.tenancy.sms_log import (
    DAY_SECONDS,
    MAX_UNSENT,
    REQUEST_KINDS,
    RecordLimit,
    SmsLog,
    SmsRequest,
)

# The sets of names by which requests are counted; see SmsLimits.
REQUEST_GROUPS = (("recipient",), ("recipient", "network48"), ("network",), ("network48",))
COUNT_RECORDS = """
local request = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local function score(moment) return string.format('%.6f', moment) end
local function count(limit)
  local since, records = '(' .. score(now - limit.seconds), 0
  for _, group in ipairs(limit.groups) do
    records = records + redis.call('ZCOUNT', KEYS[group], since, '+inf')
  end
  return records
end
"""
COUNT = Script(f"""{COUNT_RECORDS}
local counts = {{}}
for number, limit in ipairs(request.limits) do counts[number] = count(limit) end
return counts
""")
# The first key is of all UNSENT records, whose members name their groups.
TAKE = Script(f"""{COUNT_RECORDS}
local function tidy(key)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. score(now), '+inf')) do
    redis.call('ZADD', key, score(now), member)
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', score(now - request.day))
end
local function add(key, member)
  redis.call('ZADD', key, score(now), member)
  redis.call('EXPIRE', key, request.day)
end
local function have_room(limits)
  for _, limit in ipairs(limits) do
    if count(limit) >= limit.limit then return false end
  end
  return true
end
for _, group in ipairs(request.counted) do tidy(KEYS[group]) end
local groups
for _, kind in ipairs(request.kinds) do
  if not groups and have_room(kind.limits) then groups = kind.groups end
end
local allowed = have_room(request.limits) and groups
if allowed then
  if not request.is_sent then
    local unsent, member = KEYS[1], request.member
    tidy(unsent)
    while redis.call('ZCARD', unsent) >= request.max_unsent do
      local names = string.gmatch(redis.call('ZPOPMIN', unsent)[1], '%S+')
      local oldest = names()
      for key in names do redis.call('ZREM', key, oldest) end
    end
    groups = {{}}
    for _, group in ipairs(request.groups) do member = member .. ' ' .. KEYS[group] end
    add(unsent, member)
  end
  for _, group in ipairs(groups) do add(KEYS[group], request.member) end
  for _, group in ipairs(request.groups) do add(KEYS[group], request.member) end
end
local reply = {{allowed and 1 or 0}}
for number, warning in ipairs(request.warnings) do
  local used = count(warning)
  if used >= warning.enough
      and redis.call('SET', KEYS[warning.key], '1', 'NX', 'EX', request.day) then
    reply[#reply + 1] = number
    reply[#reply + 1] = used
  end
end
return reply
""")


class RedisSmsLog:
    """Records of the last 24 hours in Redis, and those of `local` while Redis cannot be used."""

    def __init__(self, counters: RedisCounters, local: SmsLog):
        self._server, self._keys, self._local = counters.server, counters.keys, local

    def take(self, request: SmsRequest, moment: float) -> tuple[bool, dict[str, int]]:
        """See SmsLog.take()."""
        keys = _Keys()
        unsent = keys.number("sms_unsent", "")
        names, tenant = request.names, request.tenant
        groups = [
            keys.number("sms", _request_group({field: names[field] for field in fields}))
            for fields in REQUEST_GROUPS
            if all(names.get(field) for field in fields)
        ]
        limits = keys.limits(request.limits)
        kinds = [
            {
                "limits": keys.limits(budgets),
                "groups": [keys.number("sms", _sent_group(kind, of)) for of in {"", tenant}],
            }
            for kind, budgets in request.kinds
        ]
        warnings = [
            keys.limit(limit) | {"enough": enough} for limit, enough in request.warnings.values()
        ]
        counted = list(range(unsent + 1, len(keys.names) + 1))
        for name, warning in zip(request.warnings, warnings, strict=True):
            warning["key"] = keys.number("sms_warned", name)
        data = {
            "day": DAY_SECONDS,
            "max_unsent": MAX_UNSENT,
            "member": secrets.token_hex(8),
            "is_sent": request.is_sent,
            "counted": counted,
            "groups": groups,
            "limits": limits,
            "kinds": kinds,
            "warnings": warnings,
        }
        reply = self._run(self._server.run, TAKE, keys, data)
        if not reply:
            return self._local.take(request, moment)
        titles = list(request.warnings)
        due = zip(reply[1::2], reply[2::2], strict=True)
        return reply[0] == 1, {titles[number - 1]: used for number, used in due}

    def count(self, limits: Sequence[RecordLimit], moment: float) -> list[int]:
        """See SmsLog.count()."""
        keys = _Keys()
        reply = self._run(self._server.read, COUNT, keys, {"limits": keys.limits(limits)})
        return self._local.count(limits, moment) if reply is None else reply

    def _run(
        self, run: Callable[..., list[int] | None], script: Script, names: "_Keys", request: object
    ) -> list[int] | None:
        try:
            keys = [self._keys.make(kind, name) for kind, name in names.names]
        except OSError:  # no secret: the local log raises what is wrong
            return None
        return run(script, keys, json.dumps(request))


class _Keys:
    """The keys of a script, numbered from 1, and the limits that count records under them."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}  # kind and name: number

    def number(self, kind: str, name: str) -> int:
        return self.names.setdefault((kind, name), len(self.names) + 1)

    def limits(self, limits: Sequence[RecordLimit]) -> list[dict[str, object]]:
        return [self.limit(limit) for limit in limits]

    def limit(self, limit: RecordLimit) -> dict[str, object]:
        if limit.kinds == REQUEST_KINDS:
            groups = [_request_group(limit.names)]
        else:
            groups = [_sent_group(kind, limit.names.get("tenant", "")) for kind in limit.kinds]
        numbers = [self.number("sms", group) for group in groups]
        return {"limit": limit.limit, "seconds": limit.seconds, "groups": numbers}


def _request_group(names: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(names.items())))


def _sent_group(kind: int, tenant: str) -> str:
    return f"kind {kind} of {tenant}"
